//! Reads a session's log back: the turns as a model is told them, the turn that is under way, and
//! what clients know already. One event after the other, so that no more than the context of the
//! model is in memory.

use baton_protocol::{Envelope, UpdateKind, update};
use baton_session::event::Event;
use serde::Deserialize;
use serde_json::Value;

use super::session_history::SessionHistory;
use super::settings::LlmSettings;
use super::spending::UsedSoFar;
use super::step_mark::{CompactionMark, LlmMeta};
use super::tool_view::result_parts;
use super::turn_record::{AskedQuestion, CallResultRecord, TurnRecord};
use super::user_content::part_of;

pub struct HistoryReader {
    pub history: SessionHistory,
    /// The turn that has no answer yet.
    pub running: Option<TurnRecord>,
    pub settings: LlmSettings,
    /// By all turns.
    pub used: UsedSoFar,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LoggedUpdate {
    session_update: String,
    message_id: Option<String>,
    content: Option<Value>,
    tool_call_id: Option<String>,
    status: Option<String>,
    raw_output: Option<Value>,
    title: Option<String>,
    current_mode_id: Option<String>,
    config_options: Option<Value>,
    #[serde(default, rename = "_meta")]
    meta: Option<LlmMeta>,
}

#[derive(Deserialize)]
struct LoggedQuestion {
    #[serde(default, rename = "_meta")]
    meta: Option<LlmMeta>,
}

impl HistoryReader {
    pub fn new(history: SessionHistory, settings: LlmSettings) -> Self {
        Self {
            history,
            running: None,
            settings,
            used: UsedSoFar::default(),
        }
    }

    pub fn read(&mut self, event: &Event) {
        match event {
            Event::Begin(_) => {
                self.end_turn();
                self.running = Some(TurnRecord::default());
            }
            Event::Response { turn: true, .. } => self.end_turn(),
            Event::Echo { message, .. } | Event::Update { message, .. } => {
                if let Some(update) = update::read::<LoggedUpdate>(message) {
                    self.read_update(update);
                }
            }
            Event::Request { id, message } => self.read_question(id, message),
            _ => {}
        }
    }

    pub fn end_turn(&mut self) {
        if let Some(turn) = self.running.take() {
            self.history.add(&turn);
        }
    }

    fn turn(&mut self) -> &mut TurnRecord {
        self.running.get_or_insert_default()
    }

    fn read_update(&mut self, update: LoggedUpdate) {
        let marks = update
            .meta
            .clone()
            .and_then(|meta| meta.ours)
            .unwrap_or_default();
        match UpdateKind::of(&update.session_update) {
            UpdateKind::UserMessageChunk => {
                self.read_user(&update.content.unwrap_or_default());
                self.turn().expanded |= marks.prompt.is_some();
            }
            UpdateKind::AgentMessageChunk => {
                let step = self.turn().step(&update.step_id());
                step.said.push_str(update.text());
                if marks.closing.is_some() {
                    self.turn().closed = marks.closing;
                }
            }
            UpdateKind::AgentThoughtChunk => {
                // The thoughts of a step have ids that begin with it.
                let id = update.step_id();
                let step = id.split_once('~').map_or(id.as_str(), |(step, _)| step);
                self.turn().step(step).add_thought(&id, update.text());
            }
            UpdateKind::Usage => {
                if let Some(mark) = marks.step {
                    self.used += mark.used;
                    self.turn().used += mark.used;
                    self.turn().step(&mark.id.clone()).finish_by_mark(mark);
                }
            }
            UpdateKind::ToolCall | UpdateKind::ToolCallUpdate => match marks.compaction {
                Some(mark) => self.read_compaction(mark, marks.used, &update),
                None => self.read_tool_call(update),
            },
            UpdateKind::Plan => {
                if let Some(call) = marks.call.and_then(|id| self.turn().call(&id)) {
                    call.result = Some(super::tool::plan::result());
                }
            }
            UpdateKind::AvailableCommands => self.settings.commands_said = true,
            UpdateKind::SessionInfo => self.settings.titled |= update.title.is_some(),
            UpdateKind::CurrentMode | UpdateKind::ConfigOption => {
                let mode = update.current_mode_id.as_deref();
                self.settings.recall(mode, update.config_options.as_ref());
            }
            _ => {}
        }
    }

    fn read_compaction(&mut self, mark: CompactionMark, used: UsedSoFar, update: &LoggedUpdate) {
        let summary = update.raw_output.as_ref().and_then(Value::as_str);
        if let (CompactionMark::Done, Some(summary)) = (mark, summary) {
            self.history.replace_by(summary);
        }
        self.used += used;
        let id = update.tool_call_id.clone();
        let turn = self.turn();
        turn.used += used;
        turn.compacted = mark != CompactionMark::Begun;
        turn.compaction = id.filter(|_| mark == CompactionMark::Begun);
    }

    /// Logs that were imported have no other sign that a turn begins.
    fn read_user(&mut self, block: &Value) {
        if self
            .running
            .as_ref()
            .is_some_and(|turn| !turn.steps.is_empty())
        {
            self.end_turn();
        }
        self.turn().user.push(part_of(block));
    }

    fn read_tool_call(&mut self, update: LoggedUpdate) {
        let id = update.tool_call_id.as_deref().unwrap_or_default();
        let Some(call) = self.turn().call(id) else {
            return;
        };
        call.announced = true;
        let shown = update.content.as_ref().and_then(Value::as_array);
        let mut shown = shown.into_iter().flatten();
        if let Some(terminal) = shown.find_map(|it| it["terminalId"].as_str()) {
            call.terminal = Some(terminal.to_owned());
        }
        match update.status.as_deref() {
            Some("in_progress") => call.started = true,
            Some(status @ ("completed" | "failed")) => {
                call.result = Some(update.result(status == "failed"));
                call.asked.clear();
                let most = self.history.most_bytes();
                self.turn().bound(most);
            }
            _ => {}
        }
    }

    fn read_question(&mut self, id: &str, message: &[u8]) {
        let Ok(envelope) = Envelope::read(message) else {
            return;
        };
        let asked: Option<LoggedQuestion> = serde_json::from_str(envelope.params().get()).ok();
        let marks = asked.and_then(|asked| asked.meta?.ours).unwrap_or_default();
        let call = marks.call.and_then(|id| self.turn().call(&id));
        let Some(call) = call else { return };
        if marks.aside {
            call.asides.push(id.to_owned());
        } else if !call.asked.iter().any(|asked| asked.id == id) {
            let method = envelope.method.as_deref().unwrap_or_default();
            call.asked.push_back(AskedQuestion {
                id: id.to_owned(),
                method: method.to_owned(),
            });
        }
    }
}

impl LoggedUpdate {
    fn text(&self) -> &str {
        let text = self.content.as_ref().and_then(|it| it["text"].as_str());
        text.unwrap_or_default()
    }

    fn step_id(&self) -> String {
        self.message_id.clone().unwrap_or_default()
    }

    /// Of a tool call that is over: its output, and its images.
    fn result(&self, is_error: bool) -> CallResultRecord {
        let output = self.raw_output.as_ref().map(|output| match output {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        let content = result_parts(output, self.content.as_ref());
        CallResultRecord { content, is_error }
    }
}

#[cfg(test)]
mod tests {
    use baton_protocol::compose;
    use baton_session::event::{ResponseRecipient, TurnBegin};
    use baton_session::id::{ConnectionId, Partition};
    use baton_session::route::DeliveryPath;
    use serde_json::json;

    use super::*;
    use crate::agent::llm::model::{
        AssistantMessage, AssistantPart, MessagePart, ModelMessage, ModelProtocol, ModelStop,
    };
    use crate::agent::llm::settings::ModelChoice;
    use crate::agent::llm::step_mark::{ShownTexts, StepMark, call_meta, step_meta};

    struct Log(HistoryReader);

    impl Log {
        fn new() -> Self {
            let settings = LlmSettings::new(&[ModelChoice::named("m")]);
            Self(HistoryReader::new(SessionHistory::new(100_000), settings))
        }

        fn begin(&mut self, text: &str) {
            let connection = ConnectionId::mint(Partition(0));
            self.0.read(&Event::Begin(TurnBegin {
                command: 1.into(),
                connection: connection.clone(),
                via: DeliveryPath::Connection,
            }));
            let block = json!({ "type": "text", "text": text });
            let update = json!({ "sessionUpdate": "user_message_chunk", "content": block });
            self.0.read(&Event::Echo {
                by: connection,
                at: None,
                message: compose::update("s", update),
            });
        }

        fn update(&mut self, update: Value) {
            let message = compose::update("s", update);
            self.0.read(&Event::Update {
                turn: true,
                message,
            });
        }

        fn say(&mut self, kind: &str, id: &str, text: &str) {
            let content = json!({ "type": "text", "text": text });
            self.update(json!({ "sessionUpdate": kind, "content": content, "messageId": id }));
        }

        fn finish_step(&mut self, message: &AssistantMessage, said: &str, thought: &str) {
            let shown = ShownTexts { said, thought };
            let stop = ModelStop::ToolCalls;
            let mark = StepMark::of("a", "m", ModelProtocol::Chat, stop, message, shown);
            self.update(json!({
                "sessionUpdate": "usage_update", "used": 1, "size": 2, "_meta": step_meta(&mark),
            }));
        }

        fn end(&mut self) {
            self.0.read(&Event::Response {
                to: ResponseRecipient {
                    connection: ConnectionId::mint(Partition(0)),
                    request: "1".into(),
                    via: DeliveryPath::Connection,
                    trace: None,
                    at: None,
                },
                turn: true,
                message: "{}".into(),
            });
        }
    }

    fn message() -> AssistantMessage {
        AssistantMessage {
            parts: vec![
                AssistantPart::Text("Let me look.".into()),
                AssistantPart::ToolCall {
                    id: "c".into(),
                    name: "read_file".into(),
                    arguments: "{\"path\":\"/a\"}".into(),
                },
            ],
        }
    }

    #[test]
    fn a_finished_turn_is_told_as_it_was() {
        let mut log = Log::new();
        log.begin("What is in a?");
        log.say("agent_thought_chunk", "a~1", "broken off");
        log.say("agent_message_chunk", "a", "Let me");
        log.say("agent_thought_chunk", "a~2", "hm");
        log.say("agent_message_chunk", "a", " look.");
        let mut with_thought = message();
        with_thought.parts.insert(
            0,
            AssistantPart::Reasoning {
                text: "hm".into(),
                opaque: None,
                protocol: ModelProtocol::Chat,
            },
        );
        log.finish_step(&with_thought, "Let me look.", "hm");
        log.update(json!({ "sessionUpdate": "tool_call", "toolCallId": "a.1", "title": "t" }));
        log.update(json!({
            "sessionUpdate": "tool_call_update", "toolCallId": "a.1", "status": "completed",
            "rawOutput": "alpha",
            "content": [{ "type": "content", "content":
                { "type": "image", "mimeType": "image/png", "data": "AAAA" } }],
        }));
        log.say("agent_message_chunk", "b", "It is alpha.");
        log.end();
        assert!(log.0.running.is_none());
        let told = log.0.history.messages_with(&TurnRecord::default(), 100_000);
        let image = MessagePart::Image {
            mime_type: "image/png".into(),
            data: "AAAA".into(),
        };
        let expected = [
            ModelMessage::User(vec![MessagePart::Text("What is in a?".into())]),
            ModelMessage::Assistant(with_thought),
            ModelMessage::ToolResult {
                call_id: "c".into(),
                tool: "read_file".into(),
                content: vec![MessagePart::Text("alpha".into()), image],
                is_error: false,
            },
            ModelMessage::Assistant(AssistantMessage {
                parts: vec![AssistantPart::Text("It is alpha.".into())],
            }),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_turn_under_way_knows_where_it_was() {
        let mut log = Log::new();
        log.begin("Do it.");
        log.say("agent_message_chunk", "a", "Let me");
        let step = &log.0.running.as_ref().unwrap().steps[0];
        assert_eq!(
            (step.said.as_str(), step.finished.is_some()),
            ("Let me", false)
        );
        log.say("agent_message_chunk", "a", " look.");
        log.finish_step(&message(), "Let me look.", "");
        log.update(json!({ "sessionUpdate": "tool_call", "toolCallId": "a.1", "title": "t" }));
        for id in ["s:1.1", "s:1.1", "s:1.2"] {
            let params = json!({ "path": "/a", "_meta": call_meta("a.1") });
            log.0.read(&Event::Request {
                id: id.into(),
                message: compose::request(id, "fs/read_text_file", params),
            });
        }
        log.update(json!({
            "sessionUpdate": "tool_call_update", "toolCallId": "a.1", "status": "in_progress",
        }));
        let running = log.0.running.as_mut().unwrap();
        let call = running.call("a.1").unwrap();
        assert!(call.announced && call.started && call.result.is_none());
        let asked: Vec<_> = call.asked.iter().map(|asked| asked.id.as_str()).collect();
        assert_eq!(asked, ["s:1.1", "s:1.2"]);
        let told = running.messages();
        let ModelMessage::ToolResult { is_error: true, .. } = &told[2] else {
            panic!("a call without a result is an error: {told:?}");
        };
    }
}
