//! A conversation for people. Headings begin their line, what somebody said is indented: nobody can
//! say something that looks like another's words.

use std::collections::HashMap;
use std::fmt::Write as _;

use serde_json::Value;

use super::terminal::{in_lines, on_a_line};

#[derive(Default)]
pub struct Transcript {
    /// The last speaker, and the id of the last message.
    speaking: Option<(String, String)>,
    /// The titles of tool calls, by id.
    tools: HashMap<String, String>,
}

impl Transcript {
    /// One more update, as text to be put after what was told before.
    pub fn tell(&mut self, update: &str) -> String {
        let update: Value = serde_json::from_str(update).unwrap_or_default();
        match update["sessionUpdate"].as_str().unwrap_or_default() {
            "user_message_chunk" => self.words("user", &update),
            "agent_message_chunk" => self.words("agent", &update),
            "agent_thought_chunk" => self.words("thought", &update),
            "tool_call" | "tool_call_update" => self.tool(&update),
            "plan" => self.note(&plan(&update)),
            "session_info_update" => match update["title"].as_str() {
                Some(title) => self.note(&format!("title: {}", on_a_line(title))),
                None => String::new(),
            },
            "usage_update" => self.note(&usage(&update)),
            "current_mode_update" => {
                let mode = text(&update, "currentModeId");
                self.note(&format!("mode: {mode}"))
            }
            "config_option_update" => self.note(&options(&update)),
            "available_commands_update" => self.note(&commands(&update)),
            _ => self.note(&format!("update: {}", on_a_line(&update.to_string()))),
        }
    }

    /// The text that closes the last line, if one is open.
    pub fn end(&mut self) -> String {
        match self.speaking.take() {
            Some(_) => "\n".into(),
            None => String::new(),
        }
    }

    fn words(&mut self, speaker: &str, update: &Value) -> String {
        let now = (speaker.to_owned(), text(update, "messageId"));
        let mut said = String::new();
        if self.speaking.as_ref() != Some(&now) {
            said = self.end();
            let _ = if now.1.is_empty() {
                write!(said, "{speaker}:\n  ")
            } else {
                write!(said, "{speaker} [{}]:\n  ", now.1)
            };
            self.speaking = Some(now);
        }
        said + &content(&update["content"]).replace('\n', "\n  ")
    }

    fn note(&mut self, text: &str) -> String {
        let mut said = self.end();
        said.push_str(text);
        said.push('\n');
        said
    }

    fn tool(&mut self, update: &Value) -> String {
        let id = text(update, "toolCallId");
        let known = self.tools.entry(id.clone()).or_default();
        if update["title"].is_string() {
            *known = text(update, "title");
        }
        let title = if known.is_empty() { id } else { known.clone() };
        let facts = ["kind", "status"].map(|field| text(update, field));
        let facts: Vec<String> = facts.into_iter().filter(|fact| !fact.is_empty()).collect();
        let mut line = format!("tool: {title}");
        if !facts.is_empty() {
            let _ = write!(line, " [{}]", facts.join(", "));
        }
        for part in update["content"].as_array().into_iter().flatten() {
            if part["type"] == "content" {
                let said = content(&part["content"]).replace('\n', "\n  ");
                let _ = write!(line, "\n  {said}");
            }
        }
        self.note(&line)
    }
}

fn text(value: &Value, field: &str) -> String {
    on_a_line(value[field].as_str().unwrap_or_default())
}

/// A block of content; of what is no text, what it is.
fn content(block: &Value) -> String {
    match block["type"].as_str() {
        Some("text") => in_lines(block["text"].as_str().unwrap_or_default()),
        Some("resource_link") => format!("[link {}]", text(block, "uri")),
        Some("resource") => format!("[resource {}]", text(&block["resource"], "uri")),
        Some(kind) => format!("[{} {}]", on_a_line(kind), text(block, "mimeType")),
        None => String::new(),
    }
}

fn plan(update: &Value) -> String {
    let mut said = String::from("plan:");
    for entry in update["entries"].as_array().into_iter().flatten() {
        let mark = match entry["status"].as_str() {
            Some("completed") => 'x',
            Some("in_progress") => '~',
            _ => ' ',
        };
        let _ = write!(said, "\n  [{mark}] {}", text(entry, "content"));
    }
    said
}

fn usage(update: &Value) -> String {
    let mut said = format!("usage: {} of {} tokens", update["used"], update["size"]);
    let cost = &update["cost"];
    if cost["amount"].is_number() {
        let _ = write!(said, ", {} {}", cost["amount"], text(cost, "currency"));
    }
    said
}

fn options(update: &Value) -> String {
    let all = update["configOptions"].as_array().into_iter().flatten();
    let all = all.map(|option| {
        let value = option["currentValue"].to_string();
        let value = on_a_line(value.trim_matches('"'));
        format!("{} = {value}", text(option, "id"))
    });
    format!("options: {}", all.collect::<Vec<_>>().join(", "))
}

fn commands(update: &Value) -> String {
    let all = update["availableCommands"].as_array().into_iter().flatten();
    let all = all.map(|command| format!("/{}", text(command, "name")));
    format!("commands: {}", all.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(updates: &[Value]) -> String {
        let mut transcript = Transcript::default();
        let all = updates
            .iter()
            .map(|update| transcript.tell(&update.to_string()));
        let mut all: String = all.collect();
        all.push_str(&transcript.end());
        all
    }

    fn words(kind: &str, id: &str, text: &str) -> Value {
        let content = json!({ "type": "text", "text": text });
        json!({ "sessionUpdate": kind, "messageId": id, "content": content })
    }

    #[test]
    fn a_conversation_reads_as_one() {
        let call = json!({ "sessionUpdate": "tool_call", "toolCallId": "t1", "title": "run", "kind": "execute", "status": "pending" });
        let done = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "completed" });
        let entry = |content: &str, status: &str| json!({ "content": content, "status": status });
        let plan = json!({ "sessionUpdate": "plan", "entries": [entry("look", "completed"), entry("act", "pending")] });
        let title = json!({ "sessionUpdate": "session_info_update", "title": "A title" });
        let usage = json!({ "sessionUpdate": "usage_update", "used": 10, "size": 200, "cost": { "amount": 0.5, "currency": "EUR" } });
        let told = told(&[
            words("user_message_chunk", "u1", "hello"),
            words("agent_message_chunk", "a1", "well, "),
            words("agent_message_chunk", "a1", "hello"),
            call,
            done,
            plan,
            title,
            usage,
            words("agent_message_chunk", "a2", "bye"),
        ]);
        assert_eq!(
            told,
            "user [u1]:\n  hello\nagent [a1]:\n  well, hello\ntool: run [execute, pending]\ntool: \
             run [completed]\nplan:\n  [x] look\n  [ ] act\ntitle: A title\nusage: 10 of 200 \
             tokens, 0.5 EUR\nagent [a2]:\n  bye\n"
        );
    }

    #[test]
    fn nobody_speaks_as_another() {
        let told = told(&[words(
            "agent_message_chunk",
            "a\nuser:",
            "yes\nuser:\n  \x1b[1Ano",
        )]);
        assert_eq!(
            told,
            "agent [a\\nuser:]:\n  yes\n  user:\n    \\u{1b}[1Ano\n"
        );
    }
}
