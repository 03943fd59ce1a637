//! Items of the model's API as events.

use baton_protocol::UpdateKind;
use serde_json::{Value, json};

use super::patch;
use crate::content;
use crate::history_writer::{HistoryWriter, Written};
use crate::line::TurnUsage;
use crate::tools;
use crate::updates::{self, UpdateOrigin};

#[derive(Default)]
pub struct ItemTeller {
    /// Messages without an id get one.
    messages: u64,
}

pub fn is_item(kind: &str) -> bool {
    let known = [
        "message",
        "reasoning",
        "local_shell_call",
        "web_search_call",
    ];
    known.contains(&kind) || is_call(kind) || is_output(kind)
}

fn is_call(kind: &str) -> bool {
    matches!(
        kind,
        "function_call" | "custom_tool_call" | "tool_search_call" | "mcp_call"
    )
}

fn is_output(kind: &str) -> bool {
    matches!(
        kind,
        "function_call_output" | "custom_tool_call_output" | "tool_search_output"
    )
}

/// Words of the user, and not of the tool in the user's name.
pub fn is_prompt(item: &Value) -> bool {
    item["type"] == "message" && item["role"] == "user" && !is_instruction(&words(item))
}

fn is_instruction(text: &str) -> bool {
    const OPENINGS: [&str; 8] = [
        "<environment_context>",
        "<user_instructions>",
        "<permissions instructions>",
        "<INSTRUCTIONS>",
        "<skill>",
        "<turn_aborted>",
        "<user_shell_command>",
        "# AGENTS.md instructions",
    ];
    OPENINGS
        .iter()
        .any(|opening| text.trim_start().starts_with(opening))
}

pub fn words(item: &Value) -> String {
    let parts = item["content"].as_array().into_iter().flatten();
    let texts = parts.filter_map(|part| part["text"].as_str());
    texts.collect::<Vec<_>>().join("\n")
}

pub fn usage(usage: &Value) -> TurnUsage {
    let count = |field: &str| usage[field].as_u64().unwrap_or(0);
    let cached = count("cached_input_tokens");
    TurnUsage {
        total_tokens: count("total_tokens"),
        input_tokens: count("input_tokens").saturating_sub(cached),
        output_tokens: count("output_tokens"),
        cached_read_tokens: cached,
        cached_write_tokens: 0,
    }
}

impl ItemTeller {
    pub fn tell(
        &mut self,
        item: &Value,
        origin: &UpdateOrigin<'_>,
        writer: &mut HistoryWriter<'_>,
    ) -> Written {
        let kind = item["type"].as_str().unwrap_or("(no type)");
        let origin = UpdateOrigin {
            id: item["id"].as_str().unwrap_or_default(),
            ..*origin
        };
        match kind {
            "message" => self.message(item, &origin, writer),
            "reasoning" => self.reasoning(item, &origin, writer),
            kind if is_call(kind) => call(item, &origin, writer),
            "local_shell_call" => shell(item, &origin, writer),
            "web_search_call" => self.search(item, &origin, writer),
            kind if is_output(kind) => {
                let id = item["call_id"].as_str().unwrap_or_default();
                output(id, &item["output"], &origin, writer)
            }
            "ghost_snapshot" | "compaction" | "compaction_summary" | "context_compaction" => {
                writer.report.leave_out(&format!("response_item/{kind}"));
                Ok(())
            }
            other => {
                let line = writer.line;
                writer
                    .report
                    .unknown(line, &format!("response_item/{other}"));
                Ok(())
            }
        }
    }

    fn id(&mut self, origin: &UpdateOrigin<'_>) -> String {
        self.messages += 1;
        match origin.id {
            "" => format!("message-{}", self.messages),
            id => updates::name(id),
        }
    }

    fn message(
        &mut self,
        item: &Value,
        origin: &UpdateOrigin<'_>,
        writer: &mut HistoryWriter<'_>,
    ) -> Written {
        let parts = item["content"].as_array().map_or(&[][..], Vec::as_slice);
        match item["role"].as_str() {
            Some("user") if is_instruction(&words(item)) => {
                writer.report.leave_out("message/user (instructions)");
                Ok(())
            }
            Some("user") => {
                writer.begin_turn()?;
                for part in parts {
                    if let Some(content) = known(part, writer) {
                        writer.user(content, origin)?;
                    }
                }
                Ok(())
            }
            Some("assistant") => {
                let id = self.id(origin);
                for part in parts {
                    if let Some(content) = known(part, writer) {
                        writer.agent(UpdateKind::AgentMessageChunk, &id, content, origin)?;
                    }
                }
                Ok(())
            }
            role => {
                writer
                    .report
                    .leave_out(&format!("message/{}", role.unwrap_or("(no role)")));
                Ok(())
            }
        }
    }

    fn reasoning(
        &mut self,
        item: &Value,
        origin: &UpdateOrigin<'_>,
        writer: &mut HistoryWriter<'_>,
    ) -> Written {
        let id = self.id(origin);
        let all = [&item["summary"], &item["content"]];
        let texts = all.into_iter().filter_map(Value::as_array).flatten();
        let texts: Vec<&str> = texts.filter_map(|part| part["text"].as_str()).collect();
        if texts.iter().all(|text| text.is_empty()) {
            writer.report.leave_out("reasoning (encrypted)");
            return Ok(());
        }
        let text = content::text(&texts.join("\n\n"));
        writer.agent(UpdateKind::AgentThoughtChunk, &id, text, origin)
    }

    fn search(
        &mut self,
        item: &Value,
        origin: &UpdateOrigin<'_>,
        writer: &mut HistoryWriter<'_>,
    ) -> Written {
        let id = self.id(origin);
        announce(&id, "web_search", &item["action"], origin, writer)?;
        let failed = item["status"] == "failed";
        let status = if failed { "failed" } else { "completed" };
        writer.result(&id, json!({ "status": status }), origin)
    }
}

fn known(part: &Value, writer: &mut HistoryWriter<'_>) -> Option<Value> {
    let kind = part["type"].as_str().unwrap_or("(no type)");
    let found = match kind {
        "input_text" | "output_text" | "text" => part["text"].as_str().map(content::text),
        "input_image" => part["image_url"].as_str().map(content::image_at),
        "refusal" => part["refusal"].as_str().map(content::text),
        _ => None,
    };
    if found.is_none() {
        let line = writer.line;
        writer.report.unknown(line, &format!("message/{kind}"));
    }
    found
}

fn announce(
    id: &str,
    tool: &str,
    input: &Value,
    origin: &UpdateOrigin<'_>,
    writer: &mut HistoryWriter<'_>,
) -> Written {
    let origin = UpdateOrigin { tool, ..*origin };
    let mut fields = json!({
        "title": tools::title(tool, input),
        "kind": tools::kind(tool),
        "status": "in_progress",
        "rawInput": input,
    });
    let diffs = patch::of_call(tool, input).or_else(|| tools::diffs(tool, input, &Value::Null));
    if let Some(diffs) = diffs {
        fields["content"] = json!(diffs);
    }
    writer.call(id, tool, fields, &origin)?;
    if tool == "update_plan"
        && let Some(entries) = tools::plan_entries(&input["plan"], "step")
    {
        writer.update(updates::plan(entries, &origin))?;
    }
    Ok(())
}

fn call(item: &Value, origin: &UpdateOrigin<'_>, writer: &mut HistoryWriter<'_>) -> Written {
    let tool = item["name"].as_str().unwrap_or("tool");
    let input = [&item["arguments"], &item["input"]];
    let input = input
        .into_iter()
        .find(|input| !input.is_null())
        .unwrap_or(&Value::Null);
    // Arguments are JSON as text, as the model has written them.
    let read = input
        .as_str()
        .and_then(|text| serde_json::from_str::<Value>(text).ok());
    let input = read
        .filter(Value::is_object)
        .unwrap_or_else(|| input.clone());
    announce(
        item["call_id"].as_str().unwrap_or_default(),
        tool,
        &input,
        origin,
        writer,
    )
}

fn shell(item: &Value, origin: &UpdateOrigin<'_>, writer: &mut HistoryWriter<'_>) -> Written {
    let id = item["call_id"].as_str().or(item["id"].as_str());
    announce(
        id.unwrap_or_default(),
        "local_shell",
        &item["action"],
        origin,
        writer,
    )
}

/// `output` is a text, blocks, or an object with either; or JSON of such an object as text.
fn output(
    id: &str,
    output: &Value,
    origin: &UpdateOrigin<'_>,
    writer: &mut HistoryWriter<'_>,
) -> Written {
    let wrapped = output
        .as_str()
        .and_then(|text| serde_json::from_str::<Value>(text).ok());
    let wrapped = wrapped.filter(|it| it["output"].is_string() && it["metadata"].is_object());
    let output = wrapped.as_ref().unwrap_or(output);
    let failed = output["success"] == false
        || output["metadata"]["exit_code"]
            .as_i64()
            .is_some_and(|code| code != 0);
    let body = ["output", "content", "body"]
        .iter()
        .map(|field| &output[*field]);
    let body = body
        .into_iter()
        .find(|body| !body.is_null())
        .unwrap_or(output);
    let mut said = String::new();
    let mut shown = Vec::new();
    match body {
        Value::String(text) => {
            said.clone_from(text);
            shown.push(content::text(text));
        }
        Value::Array(parts) => {
            for part in parts {
                if let Some(content) = known(part, writer) {
                    said.push_str(content["text"].as_str().unwrap_or_default());
                    shown.push(content);
                }
            }
        }
        _ => {}
    }
    let patched = writer.tool_of(id) == Some("apply_patch") && !failed;
    let mut fields = json!({ "status": if failed { "failed" } else { "completed" } });
    // The diffs of the call stay.
    if !patched && !shown.is_empty() {
        fields["content"] = json!(tools::output(shown));
    }
    if !said.is_empty() {
        fields["rawOutput"] = json!(said);
    }
    writer.result(id, fields, origin)
}

/// The end of a call that no item announced, such as a command of the user.
pub fn unannounced(
    event: &Value,
    origin: &UpdateOrigin<'_>,
    writer: &mut HistoryWriter<'_>,
) -> Written {
    let id = event["call_id"].as_str().unwrap_or_default();
    let tool = event["type"]
        .as_str()
        .unwrap_or_default()
        .trim_end_matches("_end");
    let input = json!({ "command": event["command"], "invocation": event["invocation"] });
    announce(id, tool, &input, origin, writer)?;
    let said = ["formatted_output", "aggregated_output", "stdout"];
    let said = said
        .iter()
        .find_map(|field| event[*field].as_str())
        .unwrap_or_default();
    let failed =
        event["exit_code"].as_i64().is_some_and(|code| code != 0) || event["success"] == false;
    let mut fields = json!({ "status": if failed { "failed" } else { "completed" } });
    if !said.is_empty() {
        fields["content"] = json!(tools::text_output(said));
        fields["rawOutput"] = json!(said);
    }
    writer.result(id, fields, origin)
}
