//! Sessions as `opencode export` writes them.

use std::io::{BufRead, Seek};

use baton_protocol::UpdateKind;
use baton_protocol::limits::cut_title;
use serde_json::{Value, json};

use crate::document::{self, DocumentReader};
use crate::history_writer::{HistoryWriter, Written};
use crate::line::{HistoryHead, StopCause, TurnUsage};
use crate::tools::first_line;
use crate::updates::{self, UpdateOrigin};
use crate::{ConversionError, SourceTool, content, times, tools};

#[derive(Default)]
struct OpencodeFacts {
    info: Value,
    begins: String,
    updated: u64,
    messages: u64,
}

pub(crate) fn convert(file: &mut (impl BufRead + Seek), writer: &mut HistoryWriter<'_>) -> Written {
    let mut facts = OpencodeFacts::default();
    let fault = document::read(file, &mut facts)?;
    let id = facts.info["id"].as_str().unwrap_or_default();
    if id.is_empty() {
        let why = fault.map_or("it has no info.id".into(), |fault| fault.why);
        let why = format!("this is no export of opencode: {why}");
        return Err(ConversionError::Unusable(why));
    }
    if let Some(fault) = fault {
        writer
            .report
            .damage(fault.after + 1, "the document breaks off", &fault.why);
    }
    writer.report.lines = facts.messages;
    if !facts.info["revert"].is_null() {
        writer.report.leave_out("info/revert");
    }
    let title = first_line(facts.info["title"].as_str().unwrap_or_default());
    let title = if title.is_empty() {
        facts.begins
    } else {
        title
    };
    let updated = facts.info["time"]["updated"].as_u64().unwrap_or(0);
    writer.session(&HistoryHead {
        from: SourceTool::Opencode,
        source: updates::name(id),
        branch: String::new(),
        fork: None,
        title: cut_title(&title).to_owned(),
        cwd: facts.info["directory"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        updated: updated.max(facts.updated),
        live: true,
    })?;
    document::read(file, &mut OpencodeTeller { writer })?;
    writer.end_session().map(|_| ())
}

impl DocumentReader for OpencodeFacts {
    const MESSAGES: &'static str = "messages";

    fn field(&mut self, name: &str, value: Value) {
        if name == "info" {
            self.info = value;
        }
    }

    fn message(&mut self, number: u64, message: Value) -> Written {
        self.messages = number;
        let at = message["info"]["time"]["created"].as_u64().unwrap_or(0);
        self.updated = self.updated.max(at);
        if self.begins.is_empty() && message["info"]["role"] == "user" {
            let parts = message["parts"].as_array().into_iter().flatten();
            let said = parts.filter_map(|part| part["text"].as_str()).next();
            self.begins = first_line(said.unwrap_or_default());
        }
        Ok(())
    }
}

struct OpencodeTeller<'a, 'w> {
    writer: &'a mut HistoryWriter<'w>,
}

impl DocumentReader for OpencodeTeller<'_, '_> {
    const MESSAGES: &'static str = "messages";

    fn field(&mut self, _: &str, _: Value) {}

    fn message(&mut self, number: u64, message: Value) -> Written {
        let writer = &mut *self.writer;
        writer.line = number;
        let info = &message["info"];
        let Some(parts) = message["parts"].as_array() else {
            writer.report.damage(number, "a message without parts", "");
            return Ok(());
        };
        let at = info["time"]["created"]
            .as_u64()
            .map(|at| times::text(at / 1000));
        let at = at.unwrap_or_default();
        let origin = UpdateOrigin {
            id: info["id"].as_str().unwrap_or_default(),
            at: &at,
            model: info["modelID"].as_str().unwrap_or_default(),
            ..UpdateOrigin::default()
        };
        let id = match origin.id {
            "" => format!("message-{number}"),
            id => updates::name(id),
        };
        match info["role"].as_str() {
            Some("user") => {
                writer.begin_turn()?;
                parts
                    .iter()
                    .try_for_each(|part| user(part, &origin, writer))
            }
            // It is what the model goes on from.
            Some("assistant") if info["summary"] == true => {
                let texts = parts.iter().filter_map(|part| part["text"].as_str());
                let summary = texts.collect::<Vec<_>>().join("\n");
                writer.update(updates::compaction(&id, Some(&summary), &origin))
            }
            Some("assistant") => {
                for part in parts {
                    assistant(part, &id, &origin, writer)?;
                }
                ended(info, &id, &origin, writer)
            }
            role => {
                let kind = format!("role {}", role.unwrap_or("(none)"));
                writer.report.unknown(number, &kind);
                Ok(())
            }
        }
    }
}

fn ended(
    info: &Value,
    message: &str,
    origin: &UpdateOrigin<'_>,
    writer: &mut HistoryWriter<'_>,
) -> Written {
    writer.usage(message, usage(&info["tokens"]));
    let error = &info["error"];
    match (error["name"].as_str(), info["finish"].as_str()) {
        (Some("MessageAbortedError"), _) => writer.stop(StopCause::Cancelled),
        (Some("MessageOutputLengthError"), _) | (_, Some("length")) => {
            writer.stop(StopCause::MaxTokens);
        }
        (Some(name), _) => {
            let said = error["data"]["message"].as_str().unwrap_or(name);
            return writer.update(updates::notice("error", &first_line(said), origin));
        }
        _ => writer.stop(StopCause::EndTurn),
    }
    Ok(())
}

fn usage(tokens: &Value) -> TurnUsage {
    let count = |value: &Value| value.as_u64().unwrap_or(0);
    let (read, write) = (
        count(&tokens["cache"]["read"]),
        count(&tokens["cache"]["write"]),
    );
    let input = count(&tokens["input"]);
    let output = count(&tokens["output"]).saturating_add(count(&tokens["reasoning"]));
    let all = [input, output, read, write];
    TurnUsage {
        total_tokens: all.into_iter().fold(0, u64::saturating_add),
        input_tokens: input,
        output_tokens: output,
        cached_read_tokens: read,
        cached_write_tokens: write,
    }
}

fn user(part: &Value, origin: &UpdateOrigin<'_>, writer: &mut HistoryWriter<'_>) -> Written {
    let kind = part["type"].as_str().unwrap_or("(no type)");
    if part["synthetic"] == true || part["ignored"] == true {
        writer.report.leave_out("text (not shown)");
        return Ok(());
    }
    match shown(part) {
        Some(content) => writer.user(content, origin),
        None => silent(kind, writer),
    }
}

fn shown(part: &Value) -> Option<Value> {
    match part["type"].as_str()? {
        "text" => part["text"].as_str().map(content::text),
        "file" => part["url"].as_str().map(content::image_at),
        _ => None,
    }
}

fn silent(kind: &str, writer: &mut HistoryWriter<'_>) -> Written {
    const SILENT: [&str; 7] = [
        "step-start",
        "step-finish",
        "snapshot",
        "patch",
        "agent",
        "subtask",
        "compaction",
    ];
    let line = writer.line;
    if SILENT.contains(&kind) {
        writer.report.leave_out(kind);
    } else {
        writer.report.unknown(line, kind);
    }
    Ok(())
}

fn assistant(
    part: &Value,
    message: &str,
    origin: &UpdateOrigin<'_>,
    writer: &mut HistoryWriter<'_>,
) -> Written {
    let kind = part["type"].as_str().unwrap_or("(no type)");
    match kind {
        "text" | "file" => match shown(part) {
            Some(content) => writer.agent(UpdateKind::AgentMessageChunk, message, content, origin),
            None => silent(kind, writer),
        },
        "reasoning" => {
            let thought = content::text(part["text"].as_str().unwrap_or_default());
            writer.agent(UpdateKind::AgentThoughtChunk, message, thought, origin)
        }
        "tool" => tool(part, origin, writer),
        "retry" => {
            let said = part["error"]["data"]["message"]
                .as_str()
                .unwrap_or("The model is asked again");
            writer.update(updates::notice("warning", &first_line(said), origin))
        }
        _ => silent(kind, writer),
    }
}

fn tool(part: &Value, origin: &UpdateOrigin<'_>, writer: &mut HistoryWriter<'_>) -> Written {
    let name = part["tool"].as_str().unwrap_or("tool");
    let origin = UpdateOrigin {
        tool: name,
        ..*origin
    };
    let id = part["callID"].as_str().unwrap_or_default();
    let (state, input) = (&part["state"], &part["state"]["input"]);
    let mut fields = json!({
        "title": tools::title(name, input),
        "kind": tools::kind(name),
        "status": "in_progress",
        "rawInput": input,
    });
    let diffs = tools::diffs(name, input, &Value::Null);
    if let Some(diffs) = &diffs {
        fields["content"] = json!(diffs);
    }
    if let Some(locations) = tools::locations(input) {
        fields["locations"] = locations;
    }
    writer.call(id, name, fields, &origin)?;
    if name == "todowrite"
        && let Some(entries) = tools::plan_entries(&input["todos"], "content")
    {
        writer.update(updates::plan(entries, &origin))?;
    }
    let (status, said) = match state["status"].as_str() {
        Some("completed") => ("completed", state["output"].as_str()),
        Some("error") => ("failed", state["error"].as_str()),
        // It was under way when the session was exported.
        _ => return Ok(()),
    };
    let said = said.unwrap_or_default();
    let mut shown = tools::text_output(said);
    let files = state["attachments"].as_array().into_iter().flatten();
    let files = files.filter_map(|file| file["url"].as_str().map(content::image_at));
    shown.extend(tools::output(files.collect()));
    let mut fields = json!({ "status": status });
    if !shown.is_empty() && (diffs.is_none() || status == "failed") {
        fields["content"] = json!(shown);
    }
    if !said.is_empty() {
        fields["rawOutput"] = json!(said);
    }
    writer.result(id, fields, &origin)
}
