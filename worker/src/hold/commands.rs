//! Commands other than prompts. Each is done at once, also while a turn runs.

use std::borrow::Cow;
use std::sync::Arc;

use baton_session::command::{Command, Kind, Queued};
use baton_session::event::Event;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Hold;
use crate::rpc::{self, Answer, Failure};
use crate::trace;
use crate::turn::Turn;

impl Hold {
    pub(super) fn handle(&self, mut queued: Queued, turn: Option<&Turn>) {
        let _span = trace::command(&self.claim.session, &mut queued);
        let message = &queued.command.message;
        let outcome: Result<Value, Failure> = match queued.command.kind {
            Kind::New => Ok(self.opened()),
            Kind::SetMode => self.set_mode(message),
            Kind::SetConfigOption => self.set_config_option(message),
            Kind::SetModel => self.set_model(message),
            Kind::Extension => Err(extension_unknown(message)),
            Kind::Answer => {
                self.answered(&queued.command, turn);
                return self.outlet.ack(queued.number);
            }
            // They have done their work when the prompts before them are through.
            Kind::Cancel | Kind::CancelRequest | Kind::Delete | Kind::Prompt => Ok(json!({})),
            // Its session token is to be forgotten.
            Kind::Close => Ok(json!({ "_meta": { "baton/session": null } })),
        };
        if let Some(event) = rpc::response(&queued, false, outcome) {
            self.outlet.push(event);
        }
        self.outlet.ack(queued.number);
    }

    fn opened(&self) -> Value {
        let mut result = self.view();
        result["sessionId"] = json!(self.claim.session);
        result
    }

    fn view(&self) -> Value {
        let view = self.conversation.view();
        serde_json::from_slice(&view).unwrap_or_else(|_| json!({}))
    }

    fn set_mode(&self, message: &[u8]) -> Result<Value, Failure> {
        let mode = text(message, "modeId")?;
        self.announce(self.conversation.set_mode(&mode)?);
        Ok(json!({}))
    }

    fn set_config_option(&self, message: &[u8]) -> Result<Value, Failure> {
        #[derive(Deserialize)]
        struct Params {
            value: Value,
        }
        let id = text(message, "configId")?;
        let params: Params = rpc::params(message)?;
        let options = self.configure(&id, &params.value)?;
        Ok(json!({ "configOptions": options }))
    }

    /// Older clients choose a model by a method of its own; now it is one of the config options.
    fn set_model(&self, message: &[u8]) -> Result<Value, Failure> {
        let wanted = text(message, "modelId")?;
        let view = self.view();
        let options = view["configOptions"].as_array();
        let model = options
            .into_iter()
            .flatten()
            .find(|option| option["category"] == "model");
        let Some(id) = model.and_then(|model| model["id"].as_str()) else {
            return Err(Failure::invalid_params(
                "this agent offers no choice of models: none of its config options is of category \"model\"",
            ));
        };
        self.configure(id, &json!(wanted))?;
        Ok(json!({}))
    }

    /// Returns all options as they are now.
    fn configure(&self, id: &str, value: &Value) -> Result<Value, Failure> {
        let update = self.conversation.set_config_option(id, value)?;
        let options = update["configOptions"].clone();
        self.announce(update);
        Ok(options)
    }

    fn announce(&self, update: Value) {
        let message = rpc::update(self.claim.session.as_str(), update);
        self.outlet.push(Event::Update {
            turn: false,
            message,
        });
    }

    /// The first answer to an open question counts; it is kept with the turn.
    fn answered(&self, command: &Command, turn: Option<&Turn>) {
        let Some(answer) = Answer::read(&command.message) else {
            return;
        };
        let id: Arc<str> = answer.id.as_str().into();
        if turn.is_some_and(|turn| turn.answer(answer)) {
            self.outlet.push(Event::Answer {
                id,
                by: Some(command.connection.clone()),
                message: command.message.clone(),
            });
        }
    }
}

/// Whether a `$/cancel_request` is about this prompt.
pub(super) fn is_about(cancel: &Command, prompt: &Command) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        request_id: Value,
    }
    let named = rpc::params::<Params>(&cancel.message).map(|params| params.request_id);
    let request = prompt.request.as_deref().map(serde_json::from_str::<Value>);
    match (named, request) {
        (Ok(named), Some(Ok(request))) => {
            cancel.connection == prompt.connection && named == request
        }
        _ => false,
    }
}

/// A field of the params that must be there and be text.
fn text(message: &[u8], field: &str) -> Result<String, Failure> {
    let params: Map<String, Value> = rpc::params(message)?;
    match params.get(field) {
        Some(Value::String(text)) => Ok(text.clone()),
        _ => Err(Failure::invalid_params(format!(
            "params.{field} must be a string"
        ))),
    }
}

fn extension_unknown(message: &[u8]) -> Failure {
    #[derive(Deserialize)]
    struct Envelope<'a> {
        #[serde(borrow)]
        method: Cow<'a, str>,
    }
    let method =
        serde_json::from_slice::<Envelope>(message).map(|envelope| envelope.method.into_owned());
    Failure::method_not_found(&method.unwrap_or_default())
}
