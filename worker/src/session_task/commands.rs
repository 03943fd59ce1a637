//! Commands other than prompts. Each is begun at once, also while a turn runs.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use baton_protocol::{ErrorCode, Method, compose, meta};
use baton_session::command::{Command, CommandKind, QueuedCommand};
use baton_session::event::{Event, is_aside};
use baton_session::id::SessionId;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::task::JoinError;
use tracing::Instrument as _;

use super::SessionTask;
use crate::agent::{CallResult, Conversation, raw};
use crate::agent_policy::{AgentMessage, AgentPolicy};
use crate::mcp::over_acp;
use crate::rpc::{self, ClientAnswer, Failure};
use crate::trace;
use crate::turn::Turn;

/// A call that the agent is through with.
pub(super) type FinishedCall = (QueuedCommand, Result<CallResult, Failure>);

impl SessionTask {
    /// Begins it, and mostly ends it, too.
    pub(super) fn handle(&mut self, mut queued: QueuedCommand, turn: Option<&Turn>) {
        // A turn was cancelled long before it came to its end, and to this.
        if !matches!(
            queued.command.kind,
            CommandKind::Cancel | CommandKind::CancelRequest
        ) {
            self.context.metrics.observe_wait(&queued);
        }
        let span = trace::command(&self.claim.session, &mut queued);
        let outcome = match queued.command.kind {
            CommandKind::New => Ok(raw(&self.opened())),
            CommandKind::SetMode
            | CommandKind::SetConfigOption
            | CommandKind::SetModel
            | CommandKind::Extension => {
                let (conversation, policy) = (&self.conversation, &self.context.admission.policy);
                let gate = PolicyGate {
                    session: self.claim.session.clone(),
                    policy: policy.clone(),
                };
                let calling = call(conversation.clone(), gate, queued).instrument(span);
                let mut calling = Box::pin(calling);
                match (&mut calling).now_or_never() {
                    Some(call) => self.called(Ok(call)),
                    None => drop(self.calls.spawn(calling)),
                }
                return;
            }
            CommandKind::Answer => {
                self.answered(&queued.command, turn);
                return self.ack(&queued);
            }
            kind => Ok(raw(&done(kind))),
        };
        self.answer(&queued, outcome);
    }

    pub(super) fn called(&mut self, call: Result<FinishedCall, JoinError>) {
        let Ok((queued, outcome)) = call else {
            return;
        };
        let outcome = outcome.map(|called| {
            if let Some(update) = called.announces {
                let message = compose::update(self.claim.session.as_str(), update);
                self.writer.push(Event::Update {
                    turn: false,
                    message,
                });
            }
            called.result
        });
        self.answer(&queued, outcome);
    }

    fn answer(&mut self, queued: &QueuedCommand, outcome: Result<Box<RawValue>, Failure>) {
        if let Some(event) = rpc::response(queued, false, outcome) {
            self.writer.push(event);
        }
        self.ack(queued);
    }

    fn opened(&self) -> Value {
        let mut result = view(&*self.conversation);
        result["sessionId"] = json!(self.claim.session);
        result
    }

    /// The first answer to an open question counts; it is kept with the turn.
    fn answered(&self, command: &Command, turn: Option<&Turn>) {
        let Some(answer) = ClientAnswer::read(&command.message) else {
            return;
        };
        let id: Arc<str> = answer.id.as_str().into();
        let counts = if is_aside(&id) {
            self.out_of_turn.answer(answer)
        } else {
            turn.is_some_and(|turn| turn.answer(answer))
        };
        if counts {
            self.writer.permissions.answered(&id, command);
            self.writer.push(Event::Answer {
                id,
                by: Some(command.connection.clone()),
                message: command.message.clone(),
            });
        }
    }
}

/// Decides what of a call reaches the agent.
struct PolicyGate {
    session: SessionId,
    policy: Arc<AgentPolicy>,
}

impl PolicyGate {
    fn message(&self, method: &str, params: &RawValue) -> Result<AgentMessage, Failure> {
        let message = self.policy.message(method, params);
        // Logged for the operator. For a notification this is the only answer.
        message.inspect_err(|refusal| {
            tracing::warn!(
                session.id = %self.session,
                refusal = refusal.message,
                "the agent policy refused a client's message"
            );
        })
    }
}

/// The answer to what needs no agent: it has done its work when the prompts before it are through.
pub(super) fn done(kind: CommandKind) -> Value {
    match kind {
        // Its session token is to be forgotten.
        CommandKind::Close => json!({ "_meta": { meta::SESSION: null } }),
        _ => json!({}),
    }
}

fn view(conversation: &dyn Conversation) -> Value {
    serde_json::from_slice(&conversation.view()).unwrap_or_else(|_| json!({}))
}

fn call(
    conversation: Arc<dyn Conversation>,
    gate: PolicyGate,
    queued: QueuedCommand,
) -> BoxFuture<'static, FinishedCall> {
    Box::pin(async move {
        let outcome = async {
            let asked = rpc::client_call(&queued.command.message)?;
            check(queued.command.kind, asked.params)?;
            let renamed = match Method::of(&asked.method) {
                Method::McpMessage => Some(over_acp::inbound(asked.params)?),
                _ => None,
            };
            let params = renamed.as_deref().unwrap_or(asked.params);
            match queued.command.kind {
                CommandKind::SetModel => set_model(&*conversation, &gate, params).await,
                CommandKind::Extension if queued.command.request.is_none() => {
                    let message = gate.message(&asked.method, params)?;
                    conversation.notify(&message).await
                }
                _ => {
                    let message = gate.message(&asked.method, params)?;
                    conversation.call(&message).await
                }
            }
        };
        // An agent that panics has answered, too.
        let outcome = AssertUnwindSafe(outcome).catch_unwind().await;
        let outcome = outcome.unwrap_or_else(|_| Err(Failure::internal("the agent panicked")));
        (queued, outcome)
    })
}

/// Checks the params that every agent may rely on.
fn check(kind: CommandKind, params: &RawValue) -> Result<(), Failure> {
    let fields: &[&str] = match kind {
        CommandKind::SetMode => &["modeId"],
        CommandKind::SetConfigOption => &["configId"],
        CommandKind::SetModel => &["modelId"],
        _ => return Ok(()),
    };
    let params: Value = rpc::read(params)?;
    for field in fields {
        if !params[field].is_string() {
            return Err(Failure::invalid_params(format!(
                "params.{field} must be a string"
            )));
        }
    }
    if kind == CommandKind::SetConfigOption && params.get("value").is_none() {
        return Err(Failure::invalid_params("params.value is missing"));
    }
    Ok(())
}

/// Older clients choose a model by a method of its own; now it is one of the config options. An
/// agent that has none may still know the method.
async fn set_model(
    conversation: &dyn Conversation,
    gate: &PolicyGate,
    params: &RawValue,
) -> Result<CallResult, Failure> {
    let view = view(conversation);
    let options = view["configOptions"].as_array();
    let model = options
        .into_iter()
        .flatten()
        .find(|option| option["category"] == "model");
    // An agent that has a list of models of its own knows them by the names that are in it.
    let has_list = view["models"]["currentModelId"].is_string();
    let option = model.and_then(|model| model["id"].as_str());
    let Some(id) = option.filter(|_| !has_list) else {
        let message = gate.message(Method::SetModel.name(), params)?;
        let called = conversation.call(&message).await;
        return called.map_err(|failure| {
            if !failure.is(ErrorCode::MethodNotFound) {
                return failure;
            }
            Failure::invalid_params(
                "this agent offers no choice of models: none of its config options is of category \
                 \"model\"",
            )
        });
    };
    let mut params: Value = rpc::read(params)?;
    params["configId"] = json!(id);
    params["value"] = params["modelId"].take();
    if let Some(params) = params.as_object_mut() {
        params.remove("modelId");
    }
    let message = gate.message(Method::SetConfigOption.name(), &raw(&params))?;
    let called = conversation.call(&message).await?;
    Ok(CallResult {
        result: raw(&json!({})),
        ..called
    })
}

/// Whether a `$/cancel_request` is about this prompt.
pub(super) fn is_about(cancel: &Command, prompt: &Command) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct CancelParams {
        request_id: Value,
    }
    let named = rpc::params::<CancelParams>(&cancel.message).map(|params| params.request_id);
    let request = prompt.request.as_deref().map(serde_json::from_str::<Value>);
    match (named, request) {
        (Ok(named), Some(Ok(request))) => {
            cancel.connection == prompt.connection && named == request
        }
        _ => false,
    }
}
