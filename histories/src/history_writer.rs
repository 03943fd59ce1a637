//! Sessions as lines: their events are numbered, in turns, and none is larger than a message may
//! be.

use std::collections::BTreeMap;
use std::io::Write;

use baton_protocol::UpdateKind;
use baton_protocol::limits::MAX_MESSAGE;
use serde::Serialize;
use serde_json::{Value, json};

use crate::ConversionError;
use crate::content;
use crate::line::{HistoryHead, HistoryLine, StopCause, TurnEnding, TurnUsage};
use crate::report::ImportReport;
use crate::updates::{self, UpdateOrigin};

/// An update gets an envelope yet.
const MAX_UPDATE: usize = MAX_MESSAGE - (64 << 10);
/// A longer text becomes several chunks of one message.
const MAX_TEXT: usize = 1 << 20;

pub type Written = Result<(), ConversionError>;

pub struct HistoryWriter<'a> {
    out: &'a mut dyn Write,
    pub report: ImportReport,
    /// Of the line that is being converted.
    pub line: u64,
    /// The number of the last event of the session.
    seq: u64,
    turn: Option<OpenTurn>,
    turn_ends: Vec<u64>,
}

#[derive(Default)]
struct OpenTurn {
    user: String,
    /// Calls without a result, and their tools.
    calls: BTreeMap<String, String>,
    usage: BTreeMap<String, TurnUsage>,
    stop: Option<StopCause>,
}

impl<'a> HistoryWriter<'a> {
    pub fn new(out: &'a mut dyn Write) -> Self {
        Self {
            out,
            report: ImportReport::default(),
            line: 0,
            seq: 0,
            turn: None,
            turn_ends: Vec::new(),
        }
    }

    pub fn session(&mut self, head: &HistoryHead) -> Written {
        self.report.sessions += 1;
        self.report.forks += u64::from(!head.branch.is_empty());
        self.seq = head.fork.as_ref().map_or(0, |fork| fork.after);
        self.turn_ends = Vec::new();
        self.write(&HistoryLine::<()>::Session(head.clone()))
    }

    /// The numbers of the events that ended the session's own turns.
    pub fn end_session(&mut self) -> Result<Vec<u64>, ConversionError> {
        self.end_turn()?;
        Ok(std::mem::take(&mut self.turn_ends))
    }

    pub fn finish(self) -> Result<ImportReport, ConversionError> {
        self.out.flush().map_err(ConversionError::Write)?;
        Ok(self.report)
    }

    pub fn begin_turn(&mut self) -> Written {
        self.end_turn()?;
        self.event(&HistoryLine::<()>::Begin)?;
        self.report.turns += 1;
        self.turn = Some(OpenTurn {
            user: format!("user-{}", self.seq),
            ..OpenTurn::default()
        });
        Ok(())
    }

    pub fn end_turn(&mut self) -> Written {
        let Some(turn) = self.turn.as_mut() else {
            return Ok(());
        };
        let calls = std::mem::take(&mut turn.calls);
        for call in calls.keys() {
            let fields = json!({ "status": "failed" });
            let update = updates::tool(
                UpdateKind::ToolCallUpdate,
                call,
                fields,
                &UpdateOrigin::default(),
            );
            self.event(&HistoryLine::Update(&update))?;
        }
        let turn = self.turn.take().unwrap_or_default();
        let mut usage = TurnUsage::default();
        turn.usage.values().for_each(|more| usage.add(more));
        let ending = TurnEnding {
            stop_reason: turn.stop.unwrap_or(StopCause::EndTurn),
            usage: (usage != TurnUsage::default()).then_some(usage),
        };
        self.event(&HistoryLine::<()>::End(ending))?;
        self.turn_ends.push(self.seq);
        Ok(())
    }

    /// Why the turn will have ended; the last one counts.
    pub fn stop(&mut self, cause: StopCause) {
        if let Some(turn) = &mut self.turn {
            turn.stop = Some(cause);
        }
    }

    /// Tokens of a message of the model: several parts of it report them, the last one counts.
    pub fn usage(&mut self, message: &str, usage: TurnUsage) {
        if let Some(turn) = &mut self.turn {
            turn.usage.insert(message.to_owned(), usage);
        }
    }

    pub fn user(&mut self, content: Value, origin: &UpdateOrigin<'_>) -> Written {
        let user = self.turn.as_ref().map(|turn| turn.user.clone());
        let user = user.unwrap_or_else(|| format!("user-{}", self.seq));
        for content in portions(content) {
            let update = updates::chunk(UpdateKind::UserMessageChunk, &user, content, origin);
            if self.fits(&update) {
                self.event(&HistoryLine::User(&update))?;
            }
        }
        Ok(())
    }

    /// Words or thoughts of the agent.
    pub fn agent(
        &mut self,
        kind: UpdateKind,
        message: &str,
        content: Value,
        origin: &UpdateOrigin<'_>,
    ) -> Written {
        for content in portions(content) {
            self.update(updates::chunk(kind, message, content, origin))?;
        }
        Ok(())
    }

    pub fn call(
        &mut self,
        id: &str,
        tool: &str,
        fields: Value,
        origin: &UpdateOrigin<'_>,
    ) -> Written {
        let id = updates::name(id);
        if let Some(turn) = &mut self.turn {
            turn.calls.insert(id.clone(), tool.to_owned());
        }
        self.update(updates::tool(UpdateKind::ToolCall, &id, fields, origin))
    }

    /// The tool of a call that has no result yet.
    pub fn tool_of(&self, id: &str) -> Option<&str> {
        let turn = self.turn.as_ref()?;
        turn.calls.get(&updates::name(id)).map(String::as_str)
    }

    pub fn result(&mut self, id: &str, fields: Value, origin: &UpdateOrigin<'_>) -> Written {
        let id = updates::name(id);
        if let Some(turn) = &mut self.turn {
            turn.calls.remove(&id);
        }
        self.update(updates::tool(
            UpdateKind::ToolCallUpdate,
            &id,
            fields,
            origin,
        ))
    }

    /// One that is too large keeps what a client needs to go on.
    pub fn update(&mut self, mut update: Value) -> Written {
        if !self.fits(&update) {
            if update["toolCallId"].is_null() {
                return Ok(());
            }
            let left_out = "[left out: too large for a message]";
            for field in ["rawInput", "rawOutput"] {
                if !update[field].is_null() {
                    update[field] = json!(left_out);
                }
            }
            update["content"] = json!([{ "type": "content", "content": content::text(left_out) }]);
            if !self.fits(&update) {
                return Ok(());
            }
        }
        self.event(&HistoryLine::Update(&update))
    }

    fn fits(&mut self, update: &Value) -> bool {
        let mut size = ByteCount(0);
        let counted = serde_json::to_writer(&mut size, update);
        let fits = counted.is_ok() && size.0 <= MAX_UPDATE;
        if !fits {
            let kind = update["sessionUpdate"].as_str().unwrap_or_default();
            let detail = format!("{kind} of {} bytes", size.0);
            self.report
                .damage(self.line, "too large for a message", &detail);
        }
        fits
    }

    fn event(&mut self, line: &HistoryLine<impl Serialize>) -> Written {
        self.seq += 1;
        self.report.events += 1;
        self.write(line)
    }

    fn write(&mut self, line: &HistoryLine<impl Serialize>) -> Written {
        let written = serde_json::to_writer(&mut *self.out, line);
        written.map_err(|error| ConversionError::Write(error.into()))?;
        self.out.write_all(b"\n").map_err(ConversionError::Write)
    }
}

struct ByteCount(usize);

impl Write for ByteCount {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A long text in parts, cut between characters.
fn portions(content: Value) -> Vec<Value> {
    let text = match content["text"].as_str() {
        Some(text) if content["type"] == "text" && text.len() > MAX_TEXT => text,
        _ => return vec![content],
    };
    let mut rest = text;
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let mut end = MAX_TEXT.min(rest.len());
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (part, more) = rest.split_at(end);
        parts.push(content::text(part));
        rest = more;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(tell: impl FnOnce(&mut HistoryWriter<'_>)) -> (Vec<Value>, ImportReport) {
        let mut out = Vec::new();
        let mut writer = HistoryWriter::new(&mut out);
        tell(&mut writer);
        let report = writer.finish().unwrap();
        let lines = out
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty());
        (
            lines
                .map(|line| serde_json::from_slice(line).unwrap())
                .collect(),
            report,
        )
    }

    #[test]
    fn a_call_without_a_result_has_failed_when_its_turn_ends() {
        let origin = UpdateOrigin::default();
        let (lines, _) = written(|writer| {
            writer.begin_turn().unwrap();
            writer.user(content::text("hi"), &origin).unwrap();
            writer
                .call("c\n1", "Bash", json!({ "title": "t" }), &origin)
                .unwrap();
            writer.usage(
                "m",
                TurnUsage {
                    output_tokens: 1,
                    ..Default::default()
                },
            );
            writer.usage(
                "m",
                TurnUsage {
                    output_tokens: 5,
                    ..Default::default()
                },
            );
            assert_eq!(writer.end_session().unwrap(), [5]);
        });
        assert_eq!(lines[0], "begin");
        assert_eq!(lines[1]["user"]["messageId"], "user-1");
        assert_eq!(lines[3]["update"]["status"], "failed");
        assert_eq!(
            lines[3]["update"]["toolCallId"],
            lines[2]["update"]["toolCallId"]
        );
        assert_eq!(lines[4]["end"]["usage"]["outputTokens"], 5);
    }

    #[test]
    fn a_long_text_comes_in_parts_and_a_large_image_not_at_all() {
        let origin = UpdateOrigin::default();
        let text = "ä".repeat(MAX_TEXT);
        let image = json!({ "type": "image", "data": "A".repeat(MAX_MESSAGE), "mimeType": "a/b" });
        let (lines, report) = written(|writer| {
            let kind = UpdateKind::AgentMessageChunk;
            writer
                .agent(kind, "m", content::text(&text), &origin)
                .unwrap();
            writer.agent(kind, "m", image.clone(), &origin).unwrap();
            let fields = json!({ "rawOutput": "x".repeat(MAX_MESSAGE), "status": "completed" });
            writer.result("c", fields, &origin).unwrap();
        });
        let parts = lines
            .iter()
            .filter_map(|line| line["update"]["content"]["text"].as_str());
        assert_eq!(parts.collect::<String>(), text);
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[2]["update"]["status"], "completed");
        assert_eq!(report.damaged["too large for a message"], 2);
    }
}
