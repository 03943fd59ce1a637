//! Sessions as `goose session export --format json` writes them.

use std::io::{BufRead, Seek};

use baton_protocol::UpdateKind;
use baton_protocol::limits::cut_title;
use serde_json::{Value, json};

use crate::document::{self, DocumentReader};
use crate::history_writer::{HistoryWriter, Written};
use crate::line::{HistoryHead, StopCause};
use crate::tools::first_line;
use crate::updates::{self, UpdateOrigin};
use crate::{ConversionError, SourceTool, content, times, tools};

#[derive(Default)]
struct GooseFacts {
    id: String,
    title: String,
    begins: String,
    cwd: String,
    updated: u64,
    messages: u64,
}

pub(crate) fn convert(file: &mut (impl BufRead + Seek), writer: &mut HistoryWriter<'_>) -> Written {
    let mut facts = GooseFacts::default();
    let fault = document::read(file, &mut facts)?;
    if facts.messages == 0 && (fault.is_some() || facts.id.is_empty()) {
        let why = fault.map_or("it has no conversation".into(), |fault| fault.why);
        let why = format!("this is no export of goose: {why}");
        return Err(ConversionError::Unusable(why));
    }
    if let Some(fault) = fault {
        writer
            .report
            .damage(fault.after + 1, "the document breaks off", &fault.why);
    }
    writer.report.lines = facts.messages;
    let title = [facts.title, facts.begins]
        .into_iter()
        .find(|title| !title.is_empty());
    writer.session(&HistoryHead {
        from: SourceTool::Goose,
        source: updates::name(&facts.id),
        branch: String::new(),
        fork: None,
        title: cut_title(&title.unwrap_or_default()).to_owned(),
        cwd: facts.cwd,
        updated: facts.updated,
        live: true,
    })?;
    document::read(file, &mut GooseTeller { writer })?;
    writer.end_session().map(|_| ())
}

/// Exports call it differently, by their age.
const CONVERSATION: &str = "conversation";

impl DocumentReader for GooseFacts {
    const MESSAGES: &'static str = CONVERSATION;

    fn field(&mut self, name: &str, value: Value) {
        let text = || value.as_str().unwrap_or_default().to_owned();
        match name {
            "id" => self.id = text(),
            "name" | "description" if self.title.is_empty() => self.title = first_line(&text()),
            "working_dir" => self.cwd = text(),
            "updated_at" => self.updated = self.updated.max(times::millis(&text())),
            _ => {}
        }
    }

    fn message(&mut self, number: u64, message: Value) -> Written {
        self.messages = number;
        let created = message["created"].as_u64().unwrap_or(0);
        self.updated = self.updated.max(created.saturating_mul(1000));
        if self.begins.is_empty() && message["role"] == "user" {
            let parts = message["content"].as_array().into_iter().flatten();
            let said = parts.filter_map(|part| part["text"].as_str()).next();
            self.begins = first_line(said.unwrap_or_default());
        }
        Ok(())
    }
}

struct GooseTeller<'a, 'w> {
    writer: &'a mut HistoryWriter<'w>,
}

impl DocumentReader for GooseTeller<'_, '_> {
    const MESSAGES: &'static str = CONVERSATION;

    fn field(&mut self, _: &str, _: Value) {}

    fn message(&mut self, number: u64, message: Value) -> Written {
        let writer = &mut *self.writer;
        writer.line = number;
        let Some(parts) = message["content"].as_array() else {
            writer
                .report
                .damage(number, "a message without content", "");
            return Ok(());
        };
        if message["metadata"]["userVisible"] == false {
            writer.report.leave_out("message (not shown)");
            return Ok(());
        }
        let at = message["created"]
            .as_u64()
            .map(times::text)
            .unwrap_or_default();
        let origin = UpdateOrigin {
            id: message["id"].as_str().unwrap_or_default(),
            at: &at,
            ..UpdateOrigin::default()
        };
        let fallback = format!("message-{number}");
        let id = if origin.id.is_empty() {
            fallback
        } else {
            updates::name(origin.id)
        };
        match message["role"].as_str() {
            Some("user") => {
                // Results of tools come in the user's name.
                let speaks = |part: &&Value| part["type"] != "toolResponse";
                if parts.iter().any(|part| speaks(&part)) {
                    writer.begin_turn()?;
                }
            }
            Some("assistant") => {}
            role => {
                let kind = format!("role {}", role.unwrap_or("(none)"));
                writer.report.unknown(number, &kind);
                return Ok(());
            }
        }
        let of_user = message["role"] == "user";
        for part in parts {
            tell(part, of_user, &id, &origin, writer)?;
        }
        Ok(())
    }
}

fn tell(
    part: &Value,
    of_user: bool,
    message: &str,
    origin: &UpdateOrigin<'_>,
    writer: &mut HistoryWriter<'_>,
) -> Written {
    let text = |field: &str| part[field].as_str().unwrap_or_default();
    let kind = part["type"].as_str().unwrap_or("(no type)");
    match kind {
        "text" | "image" => match block(part) {
            Some(content) if of_user => writer.user(content, origin),
            Some(content) => writer.agent(UpdateKind::AgentMessageChunk, message, content, origin),
            None => unknown(kind, writer),
        },
        "thinking" | "reasoning" => {
            let thought = [text("thinking"), text("text")].concat();
            let origin = UpdateOrigin {
                signature: text("signature"),
                ..*origin
            };
            let kind = UpdateKind::AgentThoughtChunk;
            writer.agent(kind, message, content::text(&thought), &origin)
        }
        "toolRequest" | "frontendToolRequest" => call(part, origin, writer),
        "toolResponse" => response(part, origin, writer),
        "contextLengthExceeded" => {
            writer.stop(StopCause::MaxTokens);
            Ok(())
        }
        "systemNotification" => {
            writer.update(updates::notice("info", &first_line(text("msg")), origin))
        }
        "conversationCompacted" | "summarizationRequested" => {
            writer.update(updates::compaction(message, None, origin))
        }
        "redactedThinking" | "toolConfirmationRequest" | "actionRequired" => {
            writer.report.leave_out(kind);
            Ok(())
        }
        _ => unknown(kind, writer),
    }
}

fn unknown(kind: &str, writer: &mut HistoryWriter<'_>) -> Written {
    let line = writer.line;
    writer.report.unknown(line, kind);
    Ok(())
}

/// Content as MCP has it.
fn block(part: &Value) -> Option<Value> {
    match part["type"].as_str()? {
        "text" => part["text"].as_str().map(content::text),
        "image" => {
            let kind = part["mimeType"].as_str()?;
            Some(json!({ "type": "image", "mimeType": kind, "data": part["data"].as_str()? }))
        }
        "resource" => {
            let resource = &part["resource"];
            resource["uri"].as_str()?;
            Some(json!({ "type": "resource", "resource": resource }))
        }
        _ => None,
    }
}

fn call(part: &Value, origin: &UpdateOrigin<'_>, writer: &mut HistoryWriter<'_>) -> Written {
    let asked = &part["toolCall"];
    let value = if asked["value"].is_object() {
        &asked["value"]
    } else {
        asked
    };
    let tool = value["name"].as_str().unwrap_or("tool");
    let origin = UpdateOrigin { tool, ..*origin };
    let input = &value["arguments"];
    let id = part["id"].as_str().unwrap_or_default();
    // As `developer__shell`: the extension, then its tool.
    let plain = tool.rsplit("__").next().unwrap_or(tool);
    let mut fields = json!({
        "title": tools::title(tool, input),
        "kind": match plain {
            "text_editor" if input["command"] == "view" => "read",
            "text_editor" => "edit",
            plain => tools::kind(plain),
        },
        "status": "in_progress",
        "rawInput": input,
    });
    if let Some(diffs) = edit(plain, input) {
        fields["content"] = json!(diffs);
    }
    writer.call(id, tool, fields, &origin)?;
    match asked["error"].as_str() {
        Some(error) => {
            let shown = tools::text_output(error);
            let fields = json!({ "status": "failed", "rawOutput": error, "content": shown });
            writer.result(id, fields, &origin)
        }
        None => Ok(()),
    }
}

fn edit(tool: &str, input: &Value) -> Option<Vec<Value>> {
    let path = input["path"].as_str()?;
    let (old, new) = match (tool, input["command"].as_str()) {
        ("text_editor", Some("str_replace")) => (input["old_str"].as_str(), &input["new_str"]),
        ("text_editor", Some("write" | "create")) => (None, &input["file_text"]),
        _ => return None,
    };
    let new = new.as_str()?;
    Some(vec![
        json!({ "type": "diff", "path": path, "oldText": old, "newText": new }),
    ])
}

fn response(part: &Value, origin: &UpdateOrigin<'_>, writer: &mut HistoryWriter<'_>) -> Written {
    let result = &part["toolResult"];
    let value = &result["value"];
    let content = [&value["content"], value, &result["content"]];
    let content = content.into_iter().find_map(Value::as_array);
    let mut said = String::new();
    let mut shown = Vec::new();
    for part in content.into_iter().flatten() {
        // The same output comes once for the model and once for the user.
        let audience = part["annotations"]["audience"].as_array();
        if audience.is_some_and(|audience| !audience.contains(&json!("assistant"))) {
            writer.report.leave_out("toolResponse/content for the user");
            continue;
        }
        match block(part) {
            Some(content) => {
                said.push_str(content["text"].as_str().unwrap_or_default());
                shown.push(content);
            }
            None => unknown("toolResponse/content", writer)?,
        }
    }
    if let Some(error) = result["error"].as_str() {
        said.push_str(error);
        shown.push(content::text(error));
    }
    let failed = result["status"] == "error" || value["isError"] == true;
    let id = part["id"].as_str().unwrap_or_default();
    let edited = writer
        .tool_of(id)
        .is_some_and(|tool| tool.ends_with("text_editor"));
    let mut fields = json!({ "status": if failed { "failed" } else { "completed" } });
    if !shown.is_empty() && (failed || !edited) {
        fields["content"] = json!(tools::output(shown));
    }
    if !said.is_empty() {
        fields["rawOutput"] = json!(said);
    }
    writer.result(id, fields, origin)
}
