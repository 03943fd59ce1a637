//! Blocks of content in words, for pages.

use serde_json::Value;

/// The words of a block; of one that is no text, its kind and name.
pub fn of_block(block: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match block["type"].as_str() {
        Some("text") => text(&block["text"]),
        Some("resource_link") => format!("[link {}]", text(&block["uri"])),
        Some("resource") => {
            let resource = &block["resource"];
            match resource["text"].as_str() {
                Some(words) => format!("[{}]\n{words}", text(&resource["uri"])),
                None => format!("[resource {}]", text(&resource["uri"])),
            }
        }
        Some(kind) => format!("[{kind} {}]", text(&block["mimeType"])),
        None => String::new(),
    }
}

/// The parts of a tool call that are shown: words, and diffs as lines with signs.
pub fn of_call(update: &Value) -> Vec<String> {
    let parts = update["content"].as_array().into_iter().flatten();
    let shown = parts.filter_map(|part| match part["type"].as_str()? {
        "content" => Some(of_block(&part["content"])),
        "diff" => Some(diff(part)),
        kind => Some(format!("[{kind}]")),
    });
    shown.filter(|text| !text.is_empty()).collect()
}

fn diff(part: &Value) -> String {
    let signed = |sign: &str, text: &Value| {
        let lines = text.as_str().unwrap_or_default().lines();
        lines
            .map(|line| format!("{sign}{line}\n"))
            .collect::<String>()
    };
    let path = part["path"].as_str().unwrap_or_default();
    let (old, new) = (signed("-", &part["oldText"]), signed("+", &part["newText"]));
    format!("{path}\n{old}{new}")
}

pub fn of_plan(update: &Value) -> String {
    let entries = update["entries"].as_array().into_iter().flatten();
    let entries = entries.map(|entry| {
        let mark = match entry["status"].as_str() {
            Some("completed") => 'x',
            Some("in_progress") => '~',
            _ => ' ',
        };
        format!(
            "- [{mark}] {}\n",
            entry["content"].as_str().unwrap_or_default()
        )
    });
    entries.collect()
}

/// The head of a call: title and status.
pub fn of_title(update: &Value) -> String {
    let title = update["title"].as_str().or(update["toolCallId"].as_str());
    match update["status"].as_str() {
        Some(status) => format!("{} [{status}]", title.unwrap_or("tool")),
        None => title.unwrap_or("tool").to_owned(),
    }
}
