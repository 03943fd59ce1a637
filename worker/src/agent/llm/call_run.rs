//! The stages of a tool call. Each is in the log before the next one begins, and an earlier run of
//! the turn may have gone through the first of them already.

use baton_protocol::Method;
use baton_session::command::ClientCapabilities;
use serde_json::{Value, json};

use super::permission::{self, PermissionAnswer};
use super::step_mark::{call_meta, marked};
use super::tool_view::{ToolOutcome, ToolView, cut, result_parts, text_content};
use super::turn_context::TurnContext;
use super::turn_record::{CallRecord, CallResultRecord};

/// The client has cancelled the turn by its answer.
#[derive(Debug)]
pub struct TurnEnds;

/// A tool call under way.
pub struct CallRun<'a> {
    pub context: TurnContext<'a>,
    pub call: &'a mut CallRecord,
    /// The mode wants the user to be asked.
    pub asks: bool,
    pub view: ToolView,
}

impl CallRun<'_> {
    pub fn cwd(&self) -> &str {
        self.context.cwd
    }

    pub fn client(&self) -> ClientCapabilities {
        self.context.turn.client()
    }

    pub fn max_output(&self) -> usize {
        self.context.config.max_tool_output
    }

    pub async fn announce(&mut self) {
        if std::mem::replace(&mut self.call.announced, true) {
            return;
        }
        let mut update = self.as_shown("pending");
        update["sessionUpdate"] = json!("tool_call");
        self.context.turn.update(update).await;
    }

    /// All that clients show of a call that has no outcome.
    fn as_shown(&self, status: &str) -> Value {
        let arguments = &self.call.arguments;
        let input = serde_json::from_str(arguments).unwrap_or_else(|_| json!(arguments));
        json!({
            "toolCallId": self.call.shown_id,
            "title": self.view.title,
            "kind": self.view.kind,
            "status": status,
            "locations": self.view.locations,
            "rawInput": input,
        })
    }

    /// From here on it may have an effect.
    pub async fn start(&mut self) {
        if std::mem::replace(&mut self.call.started, true) {
            return;
        }
        let update = self.of_call(json!({ "status": "in_progress" }));
        self.context.turn.update_lasting(update).await;
    }

    pub async fn show_terminal(&mut self, terminal: &str) {
        if self.call.terminal.replace(terminal.to_owned()).is_some() {
            return;
        }
        let content = [json!({ "type": "terminal", "terminalId": terminal })];
        self.update(json!({ "content": content })).await;
    }

    async fn update(&self, update: Value) {
        self.context.turn.update(self.of_call(update)).await;
    }

    fn of_call(&self, mut update: Value) -> Value {
        update["sessionUpdate"] = json!("tool_call_update");
        update["toolCallId"] = json!(self.call.shown_id);
        update
    }

    pub async fn finish(&mut self, outcome: ToolOutcome) {
        let text = cut(outcome.text, self.max_output());
        let status = if outcome.is_error {
            "failed"
        } else {
            "completed"
        };
        let mut update = json!({ "status": status, "rawOutput": text });
        if let Some(mut content) = outcome.content {
            if outcome.shows_text && !text.is_empty() {
                content.insert(0, text_content(&text));
            }
            update["content"] = json!(content);
        }
        let content = result_parts(Some(text), update.get("content"));
        let update = self.of_call(update);
        self.context.turn.update_lasting(update).await;
        self.call.asked.clear();
        self.call.terminal = None;
        self.call.result = Some(CallResultRecord {
            content,
            is_error: outcome.is_error,
        });
    }

    /// Whether the user has the last word, or had it in an earlier run of the turn.
    pub fn is_asked_about(&self) -> bool {
        if self.call.was_asked(Method::RequestPermission.name()) {
            return true;
        }
        let settings = &self.context.memory.fields().settings;
        !self.call.started && self.asks && settings.decided(&self.call.tool).is_none()
    }

    /// Asks the user, if that has to be. A returned outcome takes the place of the call.
    pub async fn permit(&mut self, shown: &[Value]) -> Result<Option<ToolOutcome>, TurnEnds> {
        if !self.is_asked_about() {
            let memory = self.context.memory.fields();
            let decided = memory.settings.decided(&self.call.tool);
            let rejected = self.asks && !self.call.started && decided == Some(false);
            return Ok(rejected.then(|| ToolOutcome::failed(permission::REJECTED_ALWAYS)));
        }
        let mut call = self.as_shown("pending");
        if !shown.is_empty() {
            call["content"] = json!(shown);
        }
        let params = json!({ "toolCall": call, "options": permission::options(&self.call.tool) });
        let answer = self.ask(Method::RequestPermission.name(), params).await;
        let answer = match answer {
            Ok(answer) => permission::read(&answer),
            Err(error) => return Ok(Some(ToolOutcome::failed(error))),
        };
        if let Some(allowed) = answer.for_good() {
            let tool = self.call.tool.clone();
            self.context
                .memory
                .change(|settings| settings.decide(&tool, allowed));
        }
        match answer {
            PermissionAnswer::AllowOnce | PermissionAnswer::AllowAlways => Ok(None),
            PermissionAnswer::RejectOnce | PermissionAnswer::RejectAlways => {
                Ok(Some(ToolOutcome::failed(permission::REJECTED)))
            }
            PermissionAnswer::Cancelled => Err(TurnEnds),
        }
    }

    /// Asks the client, or waits for the answer to what an earlier run of the turn has asked. An
    /// error is for the model.
    pub async fn ask(&mut self, method: &str, params: Value) -> Result<Value, String> {
        let turn = self.context.turn;
        let before = self.call.asked.pop_front();
        let answer = match before.filter(|asked| asked.method == method) {
            Some(asked) => turn.resume_request(&asked.id).await,
            None => {
                self.call.asked.clear();
                let mut params = marked(params, call_meta(&self.call.shown_id));
                params["sessionId"] = json!(turn.session());
                turn.request(method, params).await
            }
        };
        let answer =
            answer.map_err(|failure| format!("The client refuses: {}", failure.message))?;
        serde_json::from_str(answer.get())
            .map_err(|error| format!("The client's answer cannot be understood: {error}"))
    }
}
