//! Calls of tools: what kind they are, what is shown of them.

use serde_json::{Value, json};

use crate::content;

const MAX_TITLE: usize = 200;

/// As ACP sorts tools, by the names that agents give theirs.
pub fn kind(tool: &str) -> &'static str {
    match tool {
        "Read" | "NotebookRead" | "read" | "view" | "read_file" | "view_image" => "read",
        "Edit" | "MultiEdit" | "Write" | "NotebookEdit" | "edit" | "write" | "apply_patch"
        | "patch" | "multiedit" => "edit",
        "Bash" | "BashOutput" | "KillShell" | "KillBash" | "bash" | "shell" | "exec_command"
        | "local_shell" | "container.exec" | "developer__shell" => "execute",
        "Grep" | "Glob" | "LS" | "grep" | "glob" | "list" | "ToolSearch" => "search",
        "WebFetch" | "WebSearch" | "webfetch" | "websearch" | "web_search" | "web_fetch" => "fetch",
        "Task" | "Agent" | "TodoWrite" | "todowrite" | "update_plan" => "think",
        "EnterPlanMode" | "ExitPlanMode" => "switch_mode",
        _ => "other",
    }
}

/// A line that says what the call is about.
pub fn title(tool: &str, input: &Value) -> String {
    const SAYING: [&str; 12] = [
        "command",
        "cmd",
        "file_path",
        "filePath",
        "path",
        "notebook_path",
        "pattern",
        "query",
        "url",
        "description",
        "prompt",
        "subject",
    ];
    let said = SAYING.iter().find_map(|field| match &input[*field] {
        Value::String(text) => Some(text.clone()),
        Value::Array(words) => {
            let words = words.iter().filter_map(Value::as_str);
            Some(words.collect::<Vec<_>>().join(" "))
        }
        _ => None,
    });
    let title = match said {
        Some(said) if !said.is_empty() => format!("{tool}: {said}"),
        _ => tool.to_owned(),
    };
    first_line(&title)
}

/// The first line of a text, not too long.
pub fn first_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    let line = line.unwrap_or_default();
    let plain = line.chars().filter(|c| !c.is_control());
    let mut cut: String = plain.take(MAX_TITLE).collect();
    if line.chars().count() > MAX_TITLE {
        cut.push('…');
    }
    cut
}

/// The change of a file that the call asks for, or `result` says it made. `None` if it is no such
/// call.
pub fn diffs(tool: &str, input: &Value, result: &Value) -> Option<Vec<Value>> {
    let path = ["file_path", "filePath", "notebook_path", "path"];
    let path = path.iter().find_map(|field| input[*field].as_str());
    let path = path.or(result["filePath"].as_str())?;
    let diff = |old: Option<&str>, new: &str| {
        let kind = "diff";
        json!({ "type": kind, "path": path, "oldText": old, "newText": new })
    };
    let old_new = |edit: &Value| {
        let old = edit["old_string"].as_str().or(edit["oldString"].as_str())?;
        let new = edit["new_string"].as_str().or(edit["newString"].as_str())?;
        Some(diff(Some(old), new))
    };
    match tool {
        "Edit" | "edit" => old_new(input)
            .or_else(|| old_new(result))
            .map(|diff| vec![diff]),
        "MultiEdit" | "multiedit" => {
            let edits = input["edits"].as_array()?;
            Some(edits.iter().filter_map(old_new).collect())
        }
        "Write" | "write" => {
            let new = input["content"].as_str().or(result["content"].as_str())?;
            Some(vec![diff(result["originalFile"].as_str(), new)])
        }
        "NotebookEdit" => Some(vec![diff(None, input["new_source"].as_str()?)]),
        _ => None,
    }
}

/// The files that the call is about.
pub fn locations(input: &Value) -> Option<Value> {
    let path = ["file_path", "filePath", "notebook_path"];
    let path = path.iter().find_map(|field| input[*field].as_str())?;
    Some(json!([{ "path": path }]))
}

/// A list of things to do as the entries of a plan.
pub fn plan_entries(todos: &Value, text: &str) -> Option<Vec<Value>> {
    let entries = todos.as_array()?.iter().filter_map(|todo| {
        let status = known(&todo["status"], &["completed", "in_progress"]).unwrap_or("pending");
        let priority = known(&todo["priority"], &["high", "low"]).unwrap_or("medium");
        Some(json!({ "content": todo[text].as_str()?, "status": status, "priority": priority }))
    });
    Some(entries.collect())
}

/// The word, if it is one of these.
fn known<'a>(word: &'a Value, words: &[&str]) -> Option<&'a str> {
    word.as_str().filter(|word| words.contains(word))
}

/// The output of a tool, as blocks.
pub fn output(blocks: Vec<Value>) -> Vec<Value> {
    let shown = |content: Value| json!({ "type": "content", "content": content });
    blocks.into_iter().map(shown).collect()
}

pub fn text_output(text: &str) -> Vec<Value> {
    if text.is_empty() {
        return Vec::new();
    }
    output(vec![content::text(text)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_stays_on_a_line() {
        let input = json!({ "command": "echo a\nrm b\x1b[2J" });
        assert_eq!(title("Bash", &input), "Bash: echo a");
        let input = json!({ "command": ["ls", "-l"] });
        assert_eq!(title("shell", &input), "shell: ls -l");
        assert_eq!(title("Odd", &json!(5)), "Odd");
        let long = json!({ "query": "ä".repeat(900) });
        assert_eq!(title("WebSearch", &long).chars().count(), MAX_TITLE + 1);
    }

    #[test]
    fn edits_are_shown_as_diffs() {
        let edit = json!({ "file_path": "/a", "old_string": "x", "new_string": "y" });
        let diff = json!({ "type": "diff", "path": "/a", "oldText": "x", "newText": "y" });
        assert_eq!(diffs("Edit", &edit, &Value::Null), Some(vec![diff]));
        let write = json!({ "file_path": "/a", "content": "y" });
        let found = diffs("Write", &write, &json!({ "originalFile": "x" })).unwrap();
        assert_eq!(
            (&found[0]["oldText"], &found[0]["newText"]),
            (&json!("x"), &json!("y"))
        );
        let found = diffs("Write", &write, &Value::Null).unwrap();
        assert_eq!(found[0]["oldText"], Value::Null);
        assert_eq!(diffs("Bash", &json!({ "path": "/a" }), &Value::Null), None);
        assert_eq!(
            diffs("Edit", &json!({ "file_path": "/a" }), &Value::Null),
            None
        );
    }
}
