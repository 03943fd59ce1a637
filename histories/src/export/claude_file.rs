//! A session as a file of Claude Code. Lines follow each other in one branch. Ids and times that
//! came from such a file go back as they were; others are made of the session's id, always the
//! same.

use std::collections::{BTreeMap, HashSet};
use std::io::{BufRead, Write};

use baton_protocol::update::kind_of;
use baton_protocol::{UpdateKind, meta};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::archive::{ArchiveReader, PageEvent};
use super::words;
use crate::history_writer::Written;
use crate::{ConversionError, times};

/// As Claude Code writes it where no model has spoken.
const MODEL: &str = "<synthetic>";
/// A message is written in portions of this size.
const MAX_TEXT: usize = 8 << 20;

/// The id of the session there, which is a UUID: always the same for the same session.
pub fn session_uuid(session: &str) -> String {
    uuid_of(&format!("session {session}"))
}

/// The folder below `~/.claude/projects` in which a directory's conversations are.
pub fn folder_name(cwd: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    cwd.chars().map(plain).collect()
}

fn uuid_of(seed: &str) -> String {
    let digest = Sha256::digest(seed);
    let hex: String = digest
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let (a, b, c, d) = (&hex[..8], &hex[8..12], &hex[13..16], &hex[17..20]);
    format!("{a}-{b}-4{c}-8{d}-{}", &hex[20..])
}

fn is_uuid(text: &str) -> bool {
    let dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
    let plain = |(at, byte): (usize, u8)| {
        if dash(at) {
            byte == b'-'
        } else {
            byte.is_ascii_hexdigit()
        }
    };
    text.len() == 36 && text.bytes().enumerate().all(plain)
}

pub fn write(archive: &mut ArchiveReader<'_, impl BufRead>, out: &mut dyn Write) -> Written {
    let head = archive.head.clone();
    let mut file = ClaudeFile {
        out,
        session: session_uuid(&head.session_id),
        cwd: head.cwd,
        updated: times::text(head.updated / 1000),
        last: None,
        last_at: String::new(),
        used: HashSet::new(),
        open: None,
        calls: BTreeMap::new(),
        boundary: None,
    };
    while let Some(event) = archive.next()? {
        match event {
            PageEvent::User(update) => file.say(Speaker::User, &update, archive.seq)?,
            PageEvent::Update(update) => file.update(update, archive.seq)?,
            PageEvent::End(result) => file.end(&result)?,
        }
    }
    file.end(&Value::Null)?;
    let title = json!({
        "type": "custom-title", "customTitle": head.title, "sessionId": file.session,
    });
    if head.title.is_empty() {
        Ok(())
    } else {
        file.line(&title)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Speaker {
    User,
    Agent,
    Thought,
}

/// A message whose parts are still coming.
struct OpenMessage {
    speaker: Speaker,
    message: String,
    blocks: Vec<Value>,
    size: usize,
    mark: LineMark,
}

/// A line's own id and time.
#[derive(Clone)]
struct LineMark {
    uuid: String,
    at: String,
    model: String,
}

struct ClaudeFile<'a> {
    out: &'a mut dyn Write,
    session: String,
    cwd: String,
    updated: String,
    /// The line that the next one hangs on.
    last: Option<String>,
    last_at: String,
    used: HashSet<String>,
    open: Option<OpenMessage>,
    /// Calls without a result: a model takes a result only right after its call.
    calls: BTreeMap<String, (Value, LineMark)>,
    /// The compaction whose boundary was written last.
    boundary: Option<String>,
}

fn origin<'a>(update: &'a Value, field: &str) -> &'a str {
    update["_meta"][meta::HISTORY][field]
        .as_str()
        .unwrap_or_default()
}

impl ClaudeFile<'_> {
    fn line(&mut self, line: &Value) -> Written {
        let written = serde_json::to_writer(&mut *self.out, line);
        written.map_err(|error| ConversionError::Write(error.into()))?;
        self.out.write_all(b"\n").map_err(ConversionError::Write)
    }

    /// The next free id that begins with this one's.
    fn free(&mut self, wanted: String) -> String {
        let mut uuid = if is_uuid(&wanted) {
            wanted
        } else {
            uuid_of(&wanted)
        };
        while !self.used.insert(uuid.clone()) {
            uuid = uuid_of(&uuid);
        }
        uuid
    }

    fn mark(&mut self, update: &Value, seq: u64) -> LineMark {
        let wanted = match origin(update, "id") {
            "" => format!("{} {seq}", self.session),
            id => id.to_owned(),
        };
        let at = match origin(update, "at") {
            "" => self.updated.clone(),
            at => at.to_owned(),
        };
        LineMark {
            uuid: self.free(wanted),
            at,
            model: origin(update, "model").to_owned(),
        }
    }

    /// A line that hangs on the one before.
    fn node(&mut self, mark: &LineMark, kind: &str, fields: Value) -> Written {
        let mut line = json!({
            "parentUuid": self.last,
            "isSidechain": false,
            "userType": "external",
            "cwd": self.cwd,
            "sessionId": self.session,
            "version": "2.1.0",
            "gitBranch": "",
            "type": kind,
            "uuid": mark.uuid,
            "timestamp": mark.at,
        });
        if let (Some(line), Value::Object(fields)) = (line.as_object_mut(), fields) {
            line.extend(fields);
        }
        self.last = Some(mark.uuid.clone());
        self.last_at.clone_from(&mark.at);
        self.line(&line)
    }

    fn user_line(&mut self, mark: &LineMark, blocks: Vec<Value>) -> Written {
        let fields = json!({ "message": { "role": "user", "content": blocks } });
        self.node(mark, "user", fields)
    }

    fn agent_line(&mut self, mark: &LineMark, message: &str, block: Value) -> Written {
        let calls = block["type"] == "tool_use";
        let model = if mark.model.is_empty() {
            MODEL
        } else {
            &mark.model
        };
        let fields = json!({ "message": {
            "id": message,
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [block],
            "stop_reason": if calls { "tool_use" } else { "end_turn" },
            "stop_sequence": null,
            "usage": { "input_tokens": 0, "output_tokens": 0 },
        } });
        self.node(mark, "assistant", fields)
    }

    fn say(&mut self, speaker: Speaker, update: &Value, seq: u64) -> Written {
        let message = update["messageId"].as_str().unwrap_or_default();
        let block = match speaker {
            Speaker::User => user_block(&update["content"]),
            _ => text_block(&words::of_block(&update["content"])),
        };
        let continues = self.open.as_ref().is_some_and(|open| {
            open.speaker == speaker && open.message == message && open.size < MAX_TEXT
        });
        if !continues {
            self.close()?;
            let mark = self.mark(update, seq);
            self.open = Some(OpenMessage {
                speaker,
                message: message.to_owned(),
                blocks: Vec::new(),
                size: 0,
                mark,
            });
        }
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        open.size += block["text"].as_str().map_or(MAX_TEXT / 8, str::len);
        if speaker == Speaker::Thought {
            // Without its signature no model takes it back.
            let signature = origin(update, "signature");
            open.blocks
                .push(json!({ "type": "thinking", "signature": signature,
                "thinking": block["text"] }));
            return Ok(());
        }
        let text = block["text"].as_str().unwrap_or_default();
        let last = open.blocks.last_mut();
        match last.and_then(|last| last.get_mut("text")) {
            Some(Value::String(said)) if speaker == Speaker::Agent => said.push_str(text),
            _ => open.blocks.push(block),
        }
        Ok(())
    }

    /// The message is complete.
    fn close(&mut self) -> Written {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        if open.speaker == Speaker::User {
            return self.user_line(&open.mark, open.blocks);
        }
        let message = match open.message.as_str() {
            "" => format!("msg_{}", open.mark.uuid),
            id => id.to_owned(),
        };
        let mut mark = open.mark;
        for block in open.blocks {
            let unsigned = block["type"] == "thinking" && block["signature"] == "";
            let silent = block["type"] == "text" && block["text"] == "";
            if !unsigned && !silent {
                self.agent_line(&mark, &message, block)?;
                mark.uuid = self.free(mark.uuid);
            }
        }
        Ok(())
    }

    fn update(&mut self, update: Value, seq: u64) -> Written {
        match kind_of(&update) {
            UpdateKind::UserMessageChunk => self.say(Speaker::User, &update, seq),
            UpdateKind::AgentMessageChunk => self.say(Speaker::Agent, &update, seq),
            UpdateKind::AgentThoughtChunk => self.say(Speaker::Thought, &update, seq),
            UpdateKind::ToolCall | UpdateKind::ToolCallUpdate => self.call(update, seq),
            UpdateKind::Compaction => {
                self.close()?;
                self.compaction(&update, seq)
            }
            _ => Ok(()),
        }
    }

    fn call(&mut self, update: Value, seq: u64) -> Written {
        let id = update["toolCallId"].as_str().unwrap_or_default().to_owned();
        let over = matches!(update["status"].as_str(), Some("completed" | "failed"));
        let announces = !self.calls.contains_key(&id) && kind_of(&update) == UpdateKind::ToolCall;
        self.close()?;
        if announces {
            let mark = self.mark(&update, seq);
            self.calls.insert(id.clone(), (update.clone(), mark));
        } else if let Some((call, _)) = self.calls.get_mut(&id) {
            let fields = update.as_object().into_iter().flatten();
            for (name, value) in fields.filter(|(name, _)| *name != "_meta") {
                call[name] = value.clone();
            }
        }
        if !over {
            return Ok(());
        }
        let mark = if announces {
            None
        } else {
            Some(self.mark(&update, seq))
        };
        match self.calls.remove(&id) {
            Some((call, announced)) => self.call_lines(&id, &call, &announced, mark),
            None => Ok(()),
        }
    }

    /// A call and its result.
    fn call_lines(
        &mut self,
        id: &str,
        call: &Value,
        announced: &LineMark,
        result: Option<LineMark>,
    ) -> Written {
        let input = match &call["rawInput"] {
            Value::Object(input) => json!(input),
            Value::Null => json!({}),
            other => json!({ "input": other }),
        };
        let block =
            json!({ "type": "tool_use", "id": id, "name": tool_name(call), "input": input });
        self.agent_line(announced, &format!("msg_{id}"), block)?;
        let mark = match result {
            Some(mark) => mark,
            None => LineMark {
                uuid: self.free(uuid_of(&announced.uuid)),
                ..announced.clone()
            },
        };
        let mut block =
            json!({ "type": "tool_result", "tool_use_id": id, "content": output(call) });
        if call["status"] != "completed" {
            block["is_error"] = json!(true);
        }
        self.user_line(&mark, vec![block])
    }

    fn compaction(&mut self, update: &Value, seq: u64) -> Written {
        let mark = self.mark(update, seq);
        let summary = update["summary"].as_array();
        let summary = summary.map(|blocks| {
            let words = blocks.iter().map(words::of_block);
            words.collect::<Vec<_>>().join("\n")
        });
        let id = update["compactionId"].as_str().unwrap_or_default();
        let known = self.boundary.as_deref() == Some(id);
        self.boundary = Some(id.to_owned());
        let Some(summary) = summary else {
            return self.boundary_line(&mark);
        };
        let mut said = mark.clone();
        if !known {
            self.boundary_line(&mark)?;
            said.uuid = self.free(uuid_of(&mark.uuid));
        }
        let fields = json!({
            "isCompactSummary": true,
            "isVisibleInTranscriptOnly": true,
            "message": { "role": "user", "content": summary },
        });
        self.node(&said, "user", fields)
    }

    fn boundary_line(&mut self, mark: &LineMark) -> Written {
        let before = self.last.take();
        let fields = json!({
            "logicalParentUuid": before,
            "subtype": "compact_boundary",
            "content": "Conversation compacted",
            "level": "info",
            "compactMetadata": { "trigger": "auto", "preTokens": 0 },
        });
        self.node(mark, "system", fields)
    }

    fn end(&mut self, result: &Value) -> Written {
        self.close()?;
        for (id, (mut call, mark)) in std::mem::take(&mut self.calls) {
            call["status"] = json!("failed");
            self.call_lines(&id, &call, &mark, None)?;
        }
        let Some(last) = self
            .last
            .clone()
            .filter(|_| result["stopReason"] == "cancelled")
        else {
            return Ok(());
        };
        let mark = LineMark {
            uuid: self.free(uuid_of(&format!("{last} stopped"))),
            at: self.last_at.clone(),
            model: String::new(),
        };
        self.user_line(&mark, vec![text_block("[Request interrupted by user]")])
    }
}

fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn user_block(content: &Value) -> Value {
    match (content["type"].as_str(), &content["resource"]) {
        (Some("image"), _) if content["data"].is_string() => json!({ "type": "image", "source": {
            "type": "base64", "media_type": content["mimeType"], "data": content["data"],
        } }),
        (Some("resource"), resource) => {
            let uri = resource["uri"].as_str().unwrap_or_default();
            let name = uri.rsplit('/').next().unwrap_or("resource");
            let kind = resource["mimeType"].as_str().unwrap_or("text/plain");
            let source = match (&resource["text"], &resource["blob"]) {
                (Value::String(text), _) => {
                    json!({ "type": "text", "media_type": kind, "data": text })
                }
                (_, blob) => json!({ "type": "base64", "media_type": kind, "data": blob }),
            };
            json!({ "type": "document", "title": name, "source": source })
        }
        _ => text_block(&words::of_block(content)),
    }
}

fn tool_name(call: &Value) -> String {
    let named = [
        origin(call, "tool"),
        call["_meta"]["claudeCode"]["toolName"]
            .as_str()
            .unwrap_or_default(),
        call["kind"].as_str().unwrap_or_default(),
    ];
    let named = named
        .into_iter()
        .find(|name| !name.is_empty())
        .unwrap_or("tool");
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' {
            c
        } else {
            '_'
        }
    };
    named.chars().take(64).map(plain).collect()
}

fn output(call: &Value) -> Vec<Value> {
    let parts = call["content"].as_array().into_iter().flatten();
    let shown = parts.filter(|part| part["type"] == "content");
    let shown: Vec<Value> = shown
        .map(|part| match part["content"]["type"].as_str() {
            Some("image") => user_block(&part["content"]),
            _ => text_block(&words::of_block(&part["content"])),
        })
        .collect();
    match (&call["rawOutput"], shown.is_empty()) {
        (_, false) => shown,
        (Value::Null, true) => Vec::new(),
        (Value::String(text), true) => vec![text_block(text)],
        (other, true) => vec![text_block(&other.to_string())],
    }
}
