//! Rollouts of Codex: `~/.codex/sessions/YYYY/MM/DD/rollout-….jsonl`. Lines in the order of the
//! conversation. Most of it is there twice, as items of the model's API and as events that mirror
//! them; the items count.

use std::collections::HashSet;
use std::io::{BufRead, Seek, SeekFrom};

use baton_protocol::limits::cut_title;
use serde_json::Value;

use self::items::ItemTeller;
use crate::file_lines::{FileLine, FileLines, MAX_LINE};
use crate::history_writer::{HistoryWriter, Written};
use crate::line::{HistoryHead, StopCause};
use crate::report::ImportReport;
use crate::tools::first_line;
use crate::updates::{self, UpdateOrigin};
use crate::{ConversionError, SourceTool, times};

mod items;
mod patch;

/// What the head of the session says, which only the whole file knows.
#[derive(Default)]
struct RolloutFacts {
    id: String,
    cwd: String,
    title: String,
    updated: u64,
    recognized: bool,
}

pub(crate) fn convert(file: &mut (impl BufRead + Seek), writer: &mut HistoryWriter<'_>) -> Written {
    let mut facts = RolloutFacts::default();
    let mut unsaid = ImportReport::default();
    each_line(file, &mut unsaid, |_, line, _| {
        facts.learn(line);
        Ok(())
    })?;
    if !facts.recognized {
        let why = "this is no rollout of Codex: no line of it is known";
        return Err(ConversionError::Unusable(why.into()));
    }
    let source = if facts.id.is_empty() {
        "unknown".into()
    } else {
        updates::name(&facts.id)
    };
    writer.session(&HistoryHead {
        from: SourceTool::Codex,
        source,
        branch: String::new(),
        fork: None,
        title: cut_title(&facts.title).to_owned(),
        cwd: facts.cwd,
        updated: facts.updated,
        live: true,
    })?;
    let mut told = std::mem::take(&mut writer.report);
    let mut teller = RolloutTeller::default();
    let read = each_line(file, &mut told, |number, line, report| {
        std::mem::swap(&mut writer.report, report);
        writer.line = number;
        let outcome = teller.tell(line, writer);
        std::mem::swap(&mut writer.report, report);
        outcome
    });
    writer.report = told;
    read?;
    writer.end_session().map(|_| ())
}

/// Every line that can be read.
fn each_line(
    file: &mut (impl BufRead + Seek),
    report: &mut ImportReport,
    mut take: impl FnMut(u64, &Value, &mut ImportReport) -> Written,
) -> Written {
    file.seek(SeekFrom::Start(0))
        .map_err(ConversionError::Read)?;
    let mut lines = FileLines::new(file);
    while let Some(line) = lines.next().map_err(ConversionError::Read)? {
        report.lines = line.number;
        if line.text.trim_ascii().is_empty() && !line.too_long {
            continue;
        }
        match read_line(&line) {
            Ok(value) => take(line.number, &value, report)?,
            Err((kind, detail)) => report.damage(line.number, kind, &detail),
        }
    }
    Ok(())
}

fn read_line(line: &FileLine<'_>) -> Result<Value, (&'static str, String)> {
    if line.too_long {
        let detail = format!("{} bytes, {MAX_LINE} are read", line.length);
        return Err(("line too long", detail));
    }
    match line.json::<Value>() {
        Ok(value) if value.is_object() => Ok(value),
        Ok(_) => Err(("JSON of another shape", "no object".into())),
        Err(fault) => Err(fault),
    }
}

/// The item of a line; the first versions wrote it without an envelope.
fn parts(line: &Value) -> (&str, &Value) {
    let kind = line["type"].as_str().unwrap_or_default();
    match &line["payload"] {
        Value::Null if items::is_item(kind) => ("response_item", line),
        Value::Null if kind.is_empty() && line["id"].is_string() => ("session_meta", line),
        payload => (kind, payload),
    }
}

impl RolloutFacts {
    fn learn(&mut self, line: &Value) {
        let (kind, payload) = parts(line);
        let known = [
            "session_meta",
            "turn_context",
            "response_item",
            "event_msg",
            "compacted",
        ];
        self.recognized |= known.contains(&kind);
        let at = times::millis(line["timestamp"].as_str().unwrap_or_default());
        self.updated = self.updated.max(at);
        let set = |field: &mut String, value: &Value| {
            if field.is_empty() {
                value.as_str().unwrap_or_default().clone_into(field);
            }
        };
        match kind {
            // A session that was forked begins with that of the one it comes from, after its own.
            "session_meta" => {
                set(&mut self.id, &payload["id"]);
                set(&mut self.cwd, &payload["cwd"]);
            }
            "turn_context" => set(&mut self.cwd, &payload["cwd"]),
            "response_item" if self.title.is_empty() && items::is_prompt(payload) => {
                self.title = first_line(&items::words(payload));
            }
            _ => {}
        }
    }
}

#[derive(Default)]
struct RolloutTeller {
    items: ItemTeller,
    model: String,
    /// The tokens of the whole session when they were last counted.
    counted: Value,
    counts: u64,
    calls: HashSet<String>,
}

impl RolloutTeller {
    fn tell(&mut self, line: &Value, writer: &mut HistoryWriter<'_>) -> Written {
        let at = line["timestamp"].as_str().unwrap_or_default();
        let model = self.model.clone();
        let origin = UpdateOrigin {
            at,
            model: &model,
            ..UpdateOrigin::default()
        };
        let (kind, payload) = parts(line);
        match kind {
            "session_meta" => Ok(()),
            "turn_context" => {
                payload["model"]
                    .as_str()
                    .unwrap_or_default()
                    .clone_into(&mut self.model);
                Ok(())
            }
            "response_item" => {
                if let Some(call) = payload["call_id"].as_str() {
                    self.calls.insert(call.to_owned());
                }
                self.items.tell(payload, &origin, writer)
            }
            "compacted" => {
                let id = format!("compaction-{}", writer.line);
                writer.update(updates::compaction(
                    &id,
                    payload["message"].as_str(),
                    &origin,
                ))
            }
            "event_msg" => self.event(payload, &origin, writer),
            other => {
                let line = writer.line;
                writer
                    .report
                    .unknown(line, if other.is_empty() { "(no type)" } else { other });
                Ok(())
            }
        }
    }

    fn event(
        &mut self,
        payload: &Value,
        origin: &UpdateOrigin<'_>,
        writer: &mut HistoryWriter<'_>,
    ) -> Written {
        let kind = payload["type"].as_str().unwrap_or("(no type)");
        match kind {
            "token_count" => {
                let info = &payload["info"];
                // The same count comes again when only limits have changed.
                if info.is_object() && info["total_token_usage"] != self.counted {
                    self.counted = info["total_token_usage"].clone();
                    self.counts += 1;
                    let usage = items::usage(&info["last_token_usage"]);
                    writer.usage(&self.counts.to_string(), usage);
                }
                return Ok(());
            }
            "turn_aborted" => {
                writer.stop(StopCause::Cancelled);
                return Ok(());
            }
            "error" | "warning" | "stream_error" => {
                let said = payload["message"].as_str().unwrap_or(kind);
                let severity = if kind == "warning" {
                    "warning"
                } else {
                    "error"
                };
                return writer.update(updates::notice(severity, &first_line(said), origin));
            }
            "thread_rolled_back" => {
                let turns = payload["num_turns"].as_u64().unwrap_or(1);
                let said = format!("The last {turns} turns were taken back");
                return writer.update(updates::notice("info", &said, origin));
            }
            "exec_command_end" | "mcp_tool_call_end" | "patch_apply_end"
                if payload["call_id"]
                    .as_str()
                    .is_some_and(|id| !self.calls.contains(id)) =>
            {
                return items::unannounced(payload, origin, writer);
            }
            _ => {}
        }
        let name = format!("event_msg/{kind}");
        let mirrors = [
            "user_message",
            "agent_message",
            "agent_reasoning",
            "agent_reasoning_raw_content",
            "task_started",
            "task_complete",
            "turn_started",
            "turn_complete",
            "context_compacted",
            "turn_diff",
            "plan_update",
            "web_search_begin",
            "web_search_end",
            "image_generation_end",
            "item_started",
            "item_completed",
            "entered_review_mode",
            "exited_review_mode",
            "undo_completed",
            "undo_started",
            "view_image_tool_call",
            "thread_name_updated",
        ];
        let mirrored = mirrors.contains(&kind)
            || ["_begin", "_end", "_delta", "_request"]
                .iter()
                .any(|end| kind.ends_with(end));
        let line = writer.line;
        if mirrored {
            writer.report.leave_out(&name);
        } else {
            writer.report.unknown(line, &name);
        }
        Ok(())
    }
}
