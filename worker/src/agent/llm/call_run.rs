//! The stages of a tool call. Each is in the log before the next one begins, and an earlier run of
//! the turn may have gone through the first of them already.

use baton_protocol::Method;
use baton_session::command::ClientCapabilities;
use baton_session::id::random_text;
use serde_json::{Value, json};

use super::permission::{self, PermissionAnswer};
use super::step_mark::{aside_meta, call_meta, marked};
use super::tool_view::{ToolOutcome, ToolView, cut, result_parts, text_content};
use super::turn_context::TurnContext;
use super::turn_record::{CallRecord, CallResultRecord};
use crate::agent::Turn;

/// The client has cancelled the turn by its answer.
#[derive(Debug)]
pub struct TurnEnds;

fn rejection(text: &str) -> ToolOutcome {
    ToolOutcome::failed(text).of_kind("rejected")
}

/// The place where the progress of a call is shown.
pub struct ProgressView<'a> {
    turn: &'a Turn,
    shown_id: String,
}

impl ProgressView<'_> {
    pub async fn show(&self, text: &str) {
        let update = json!({
            "sessionUpdate": "tool_call_update",
            "toolCallId": self.shown_id,
            "content": [text_content(text)],
        });
        self.turn.update(update).await;
    }
}

/// A tool call under way.
pub struct CallRun<'a> {
    pub context: TurnContext<'a>,
    pub call: &'a mut CallRecord,
    /// The mode wants the user to be asked.
    pub asks: bool,
    pub view: ToolView,
}

impl<'a> CallRun<'a> {
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

    /// Shows how far the call is, also while something else is done with it.
    pub fn progress_view(&self) -> ProgressView<'a> {
        ProgressView {
            turn: self.context.turn,
            shown_id: self.call.shown_id.clone(),
        }
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
            return Ok(rejected.then(|| rejection(permission::REJECTED_ALWAYS)));
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
                Ok(Some(rejection(permission::REJECTED)))
            }
            PermissionAnswer::Cancelled => Err(TurnEnds),
        }
    }

    /// Asks whether something else may be done during the call. Such a question ends with the
    /// worker that asked it, because what it is about does, too.
    pub async fn permit_aside(&mut self, key: &str, title: &str, shown: &[Value]) -> bool {
        let decided = self.context.memory.fields().settings.decided(key);
        if let Some(allowed) = decided {
            return allowed;
        }
        let id = format!("{}.{}", self.call.shown_id, random_text(6));
        let call = json!({
            "toolCallId": id, "title": title, "kind": "other", "status": "pending",
            "content": shown,
        });
        let params = json!({ "toolCall": call, "options": permission::options(key) });
        let asked = self
            .ask_aside(Method::RequestPermission.name(), params)
            .await;
        let Ok(answer) = asked else {
            return false;
        };
        let answer = permission::read(&answer);
        if let Some(allowed) = answer.for_good() {
            let memory = self.context.memory;
            memory.change(|settings| settings.decide(key, allowed));
        }
        matches!(
            answer,
            PermissionAnswer::AllowOnce | PermissionAnswer::AllowAlways
        )
    }

    /// Asks the user what a server wants to know; MCP and ACP have the same form for it.
    pub async fn elicit(&mut self, mut params: Value) -> Value {
        let declined = json!({ "action": "decline" });
        let client = self.client();
        let can = if params["mode"] == "url" {
            client.url_elicitation
        } else {
            client.elicitation
        };
        if !can {
            return declined;
        }
        params["toolCallId"] = json!(self.call.shown_id);
        let asked = self
            .ask_aside(Method::CreateElicitation.name(), params)
            .await;
        let Ok(mut answer) = asked else {
            return declined;
        };
        if let Some(fields) = answer.as_object_mut() {
            fields.remove("_meta");
        }
        answer
    }

    async fn ask_aside(&self, method: &str, params: Value) -> Result<Value, String> {
        let mut params = marked(params, aside_meta(&self.call.shown_id));
        params["sessionId"] = json!(self.context.turn.session());
        let answer = self.context.turn.request(method, params).await;
        let answer = answer.map_err(|failure| failure.message)?;
        serde_json::from_str(answer.get()).map_err(|error| error.to_string())
    }

    /// Nobody waits any more for what an earlier worker has asked during the call.
    pub fn withdraw_asides(&mut self) {
        for id in std::mem::take(&mut self.call.asides) {
            self.context.turn.withdraw(&id);
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
