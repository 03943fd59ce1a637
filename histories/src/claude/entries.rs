//! One line of the conversation as events.

use std::io::{BufRead, Seek, SeekFrom};

use baton_protocol::UpdateKind;
use serde_json::{Value, json};

use super::index::IndexedNode;
use super::scan::NodeClass;
use crate::content;
use crate::history_writer::{HistoryWriter, Written};
use crate::line::{StopCause, TurnUsage};
use crate::tools;
use crate::updates::{self, UpdateOrigin};
use crate::{ConversionError, report::ImportReport};

/// Messages that a compaction left as they are: so many are named.
const MOST_PRESERVED: usize = 500;

/// Reads lines again that the index has found.
pub struct EntryReader<'a, R> {
    file: &'a mut R,
    /// Where the file is, once that is known.
    at: Option<u64>,
    buffer: Vec<u8>,
}

impl<'a, R: BufRead + Seek> EntryReader<'a, R> {
    pub fn new(file: &'a mut R) -> Self {
        Self {
            file,
            at: None,
            buffer: Vec::new(),
        }
    }

    pub fn read(&mut self, node: &IndexedNode) -> Result<Value, ConversionError> {
        let sought = match self.at {
            // Most lines are near; what is buffered stays.
            Some(at) => self.file.seek_relative(node.offset as i64 - at as i64),
            None => self.file.seek(SeekFrom::Start(node.offset)).map(|_| ()),
        };
        self.buffer.resize(node.length as usize, 0);
        let read = sought.and_then(|()| self.file.read_exact(&mut self.buffer));
        read.map_err(ConversionError::Read)?;
        self.at = Some(node.offset + u64::from(node.length));
        serde_json::from_slice(&self.buffer).map_err(|fault| {
            let why = format!("line {} has changed meanwhile: {fault}", node.line);
            ConversionError::Unusable(why)
        })
    }
}

pub fn tell(class: NodeClass, entry: &Value, writer: &mut HistoryWriter<'_>) -> Written {
    let origin = UpdateOrigin {
        id: text_of(entry, "uuid"),
        at: text_of(entry, "timestamp"),
        ..UpdateOrigin::default()
    };
    match class {
        NodeClass::Prompt => prompt(entry, &origin, writer),
        NodeClass::Assistant => assistant(entry, &origin, writer),
        NodeClass::Results => results(entry, &origin, writer),
        NodeClass::Interrupt => {
            writer.stop(StopCause::Cancelled);
            Ok(())
        }
        NodeClass::Local => local_output(&prompt_text(entry), &origin, writer),
        NodeClass::Boundary => boundary(entry, &origin, writer),
        NodeClass::Summary => {
            let id = entry["parentUuid"].as_str().unwrap_or(origin.id);
            let summary = prompt_text(entry);
            writer.update(updates::compaction(id, Some(&summary), &origin))
        }
        NodeClass::System => system(entry, &origin, writer),
        NodeClass::Silent => Ok(()),
    }
}

fn prompt(entry: &Value, origin: &UpdateOrigin<'_>, writer: &mut HistoryWriter<'_>) -> Written {
    writer.begin_turn()?;
    match &entry["message"]["content"] {
        Value::Array(blocks) => user_blocks(blocks, origin, writer),
        _ => writer.user(content::text(&prompt_text(entry)), origin),
    }
}

fn user_blocks(
    blocks: &[Value],
    origin: &UpdateOrigin<'_>,
    writer: &mut HistoryWriter<'_>,
) -> Written {
    for block in blocks {
        match content::of_anthropic(block) {
            Some(content) => writer.user(content, origin)?,
            None => unknown_block("user", block, writer),
        }
    }
    Ok(())
}

fn unknown_block(place: &str, block: &Value, writer: &mut HistoryWriter<'_>) {
    let kind = block["type"].as_str().unwrap_or("(no type)");
    let line = writer.line;
    writer.report.unknown(line, &format!("{place}/{kind}"));
}

/// The words of a line, without the tags that commands are wrapped in.
pub fn prompt_text(entry: &Value) -> String {
    let content = &entry["message"]["content"];
    let text = match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().filter_map(|block| block["text"].as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => entry["content"].as_str().unwrap_or_default().to_owned(),
    };
    if let Some(command) = tagged(&text, "command-name") {
        let arguments = tagged(&text, "command-args").unwrap_or_default();
        return format!("{command} {arguments}").trim().to_owned();
    }
    match tagged(&text, "bash-input") {
        Some(command) => format!("!{command}"),
        None => text,
    }
}

fn tagged<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{tag}>"))?;
    Some(rest.split_once(&format!("</{tag}>"))?.0)
}

/// The output of a command of Claude Code itself.
fn local_output(text: &str, origin: &UpdateOrigin<'_>, writer: &mut HistoryWriter<'_>) -> Written {
    if text.starts_with("<local-command-caveat>") {
        writer.report.leave_out("user (not shown)");
        return Ok(());
    }
    const TAGS: [&str; 4] = [
        "local-command-stdout",
        "local-command-stderr",
        "bash-stdout",
        "bash-stderr",
    ];
    let parts = TAGS.iter().filter_map(|tag| tagged(text, tag));
    let parts: Vec<&str> = parts.filter(|part| !part.trim().is_empty()).collect();
    let said = parts.join("\n");
    if said.is_empty() {
        return Ok(());
    }
    let message = updates::name(origin.id);
    let kind = UpdateKind::AgentMessageChunk;
    writer.agent(kind, &message, content::text(&said), origin)
}

fn assistant(entry: &Value, origin: &UpdateOrigin<'_>, writer: &mut HistoryWriter<'_>) -> Written {
    let message = &entry["message"];
    let origin = UpdateOrigin {
        model: text_of(message, "model"),
        ..*origin
    };
    let id = updates::name(message["id"].as_str().unwrap_or(origin.id));
    let words = UpdateKind::AgentMessageChunk;
    match &message["content"] {
        Value::String(text) => writer.agent(words, &id, content::text(text), &origin)?,
        Value::Array(blocks) => {
            for block in blocks {
                assistant_block(block, &id, &origin, writer)?;
            }
        }
        other => unknown_block("assistant", other, writer),
    }
    if message["usage"].is_object() {
        writer.usage(&id, usage(&message["usage"]));
    }
    match message["stop_reason"].as_str() {
        Some("max_tokens") => writer.stop(StopCause::MaxTokens),
        Some("refusal") => writer.stop(StopCause::Refusal),
        _ => writer.stop(StopCause::EndTurn),
    }
    Ok(())
}

fn assistant_block(
    block: &Value,
    message: &str,
    origin: &UpdateOrigin<'_>,
    writer: &mut HistoryWriter<'_>,
) -> Written {
    match block["type"].as_str().unwrap_or_default() {
        "thinking" => {
            let thought = text_of(block, "thinking");
            let origin = UpdateOrigin {
                signature: text_of(block, "signature"),
                ..*origin
            };
            if thought.is_empty() {
                writer.report.leave_out("assistant/thinking (empty)");
                return Ok(());
            }
            let kind = UpdateKind::AgentThoughtChunk;
            writer.agent(kind, message, content::text(thought), &origin)
        }
        "redacted_thinking" => {
            writer.report.leave_out("assistant/redacted_thinking");
            Ok(())
        }
        "tool_use" | "server_tool_use" | "mcp_tool_use" => call(block, origin, writer),
        kind if kind.ends_with("tool_result") => result(block, &Value::Null, origin, writer),
        _ => match content::of_anthropic(block) {
            Some(content) => writer.agent(UpdateKind::AgentMessageChunk, message, content, origin),
            None => {
                unknown_block("assistant", block, writer);
                Ok(())
            }
        },
    }
}

fn usage(usage: &Value) -> TurnUsage {
    let count = |field: &str| usage[field].as_u64().unwrap_or(0);
    let (input, output) = (count("input_tokens"), count("output_tokens"));
    let (read, write) = (
        count("cache_read_input_tokens"),
        count("cache_creation_input_tokens"),
    );
    let all = [input, output, read, write];
    TurnUsage {
        total_tokens: all.into_iter().fold(0, u64::saturating_add),
        input_tokens: input,
        output_tokens: output,
        cached_read_tokens: read,
        cached_write_tokens: write,
    }
}

fn call(block: &Value, origin: &UpdateOrigin<'_>, writer: &mut HistoryWriter<'_>) -> Written {
    let (tool, input) = (text_of(block, "name"), &block["input"]);
    let origin = UpdateOrigin { tool, ..*origin };
    let mut fields = json!({
        "title": tools::title(tool, input),
        "kind": tools::kind(tool),
        "status": "in_progress",
        "rawInput": input,
    });
    if let Some(diffs) = tools::diffs(tool, input, &Value::Null) {
        fields["content"] = json!(diffs);
    }
    if let Some(locations) = tools::locations(input) {
        fields["locations"] = locations;
    }
    writer.call(text_of(block, "id"), tool, fields, &origin)?;
    if tool == "TodoWrite"
        && let Some(entries) = tools::plan_entries(&input["todos"], "content")
    {
        writer.update(updates::plan(entries, &origin))?;
    }
    Ok(())
}

fn results(entry: &Value, origin: &UpdateOrigin<'_>, writer: &mut HistoryWriter<'_>) -> Written {
    let blocks = entry["message"]["content"].as_array();
    for block in blocks.into_iter().flatten() {
        match block["type"].as_str() {
            Some("tool_result") => result(block, &entry["toolUseResult"], origin, writer)?,
            Some("text") if text_of(block, "text").starts_with("[Request interrupted") => {
                writer.stop(StopCause::Cancelled);
            }
            _ => user_blocks(std::slice::from_ref(block), origin, writer)?,
        }
    }
    Ok(())
}

/// `details`: what Claude Code itself keeps about the result.
fn result(
    block: &Value,
    details: &Value,
    origin: &UpdateOrigin<'_>,
    writer: &mut HistoryWriter<'_>,
) -> Written {
    let id = text_of(block, "tool_use_id");
    let failed = block["is_error"] == true;
    let mut shown = Vec::new();
    let mut said = String::new();
    match &block["content"] {
        Value::String(text) => {
            said.clone_from(text);
            shown.push(content::text(text));
        }
        Value::Array(parts) => {
            for part in parts {
                match content::of_anthropic(part) {
                    Some(content) => {
                        said.push_str(content["text"].as_str().unwrap_or_default());
                        shown.push(content);
                    }
                    None => unknown_block("tool_result", part, writer),
                }
            }
        }
        Value::Null => {}
        other => unknown_block("tool_result", other, writer),
    }
    let tool = writer.tool_of(id).unwrap_or_default().to_owned();
    let diffs = (!failed).then(|| tools::diffs(&tool, details, details));
    let content = match diffs.flatten() {
        Some(diffs) if !diffs.is_empty() => diffs,
        _ => tools::output(shown),
    };
    let mut fields = json!({ "status": if failed { "failed" } else { "completed" } });
    if !content.is_empty() {
        fields["content"] = json!(content);
    }
    if !said.is_empty() {
        fields["rawOutput"] = json!(said);
    }
    writer.result(id, fields, origin)
}

fn boundary(entry: &Value, origin: &UpdateOrigin<'_>, writer: &mut HistoryWriter<'_>) -> Written {
    let mut update = updates::compaction(origin.id, None, origin);
    let preserved = &entry["compactMetadata"]["preservedMessages"]["uuids"];
    let preserved = preserved.as_array().map_or(&[][..], Vec::as_slice);
    let named = preserved
        .iter()
        .filter_map(Value::as_str)
        .map(updates::name);
    let named: Vec<String> = named.take(MOST_PRESERVED).collect();
    if !named.is_empty() {
        update["_meta"][baton_protocol::meta::HISTORY]["preserved"] = json!(named);
    }
    writer.update(update)
}

fn system(entry: &Value, origin: &UpdateOrigin<'_>, writer: &mut HistoryWriter<'_>) -> Written {
    let subtype = text_of(entry, "subtype");
    let said = entry["content"].as_str();
    let said = said.or_else(|| entry["error"]["message"].as_str());
    let title = tools::first_line(said.unwrap_or_default());
    match subtype {
        "local_command" => return local_output(said.unwrap_or_default(), origin, writer),
        "api_error" => {
            let title = if title.is_empty() {
                "The model answered with an error"
            } else {
                &title
            };
            return writer.update(updates::notice("error", title, origin));
        }
        "informational" | "api_retry" | "model_refusal" if !title.is_empty() => {
            let severity = if entry["level"] == "warning" {
                "warning"
            } else {
                "info"
            };
            return writer.update(updates::notice(severity, &title, origin));
        }
        _ => {}
    }
    count_silent(subtype, writer);
    Ok(())
}

fn count_silent(subtype: &str, writer: &mut HistoryWriter<'_>) {
    const SILENT: [&str; 7] = [
        "turn_duration",
        "stop_hook_summary",
        "hook",
        "informational",
        "api_retry",
        "away_summary",
        "init",
    ];
    let line = writer.line;
    let report: &mut ImportReport = &mut writer.report;
    let kind = format!("system/{subtype}");
    if SILENT.contains(&subtype) || subtype.contains("hook") {
        report.leave_out(&kind);
    } else {
        report.unknown(line, &kind);
    }
}

fn text_of<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}
