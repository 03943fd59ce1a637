//! A response that exists: looked up for its principal, read from the log as far as it is there.

use baton_protocol::{compose, update};
use baton_session::command::QueuedCommand;
use baton_session::event::Event;
use baton_session::id::LogId;
use baton_session::token::ConnectionToken;
use serde::Deserialize;
use serde_json::{Value, json};

use super::ResponseServices;
use super::fault::unknown_response;
use super::fold::ResponseFold;
use super::name::ResponseName;
use super::place::ResponsePlace;
use super::terms::ResponseTerms;
use crate::auth::Caller;
use crate::door::{DoorCall, RpcError, refused};
use crate::error::{FaultKind, GatewayError, fault};
use crate::methods::MethodOutcome;

/// Frames per read.
const PAGE: usize = 64;

/// A response of the caller's own.
pub struct KnownResponse<'a> {
    services: ResponseServices<'a>,
    pub name: ResponseName,
    call: DoorCall<'a>,
    /// It waits for its turn.
    queued: Option<ResponseTerms>,
}

impl<'a> KnownResponse<'a> {
    /// A response that does not exist and one of somebody else are the same.
    pub async fn find(
        services: ResponseServices<'a>,
        caller: &Caller,
        id: &str,
    ) -> Result<Self, GatewayError> {
        let unknown = || unknown_response(id);
        let name: ResponseName = id.parse().map_err(|_| unknown())?;
        let record = services
            .store
            .record(&name.session, &caller.principal)
            .await?;
        let record = record.filter(|record| caller.rights().allow(&record.agent));
        record.ok_or_else(unknown)?;
        let mut waiting = None;
        if ResponsePlace::of(&**services.store, &name).await? == ResponsePlace::Absent {
            waiting = queued(services, &name).await?;
            // It may have begun between the two looks, and left the inbox.
            let is_gone = waiting.is_none()
                && ResponsePlace::of(&**services.store, &name).await? == ResponsePlace::Absent;
            if is_gone {
                return Err(unknown());
            }
        }
        let call = DoorCall::again(services.methods, caller, name.asker.clone());
        Ok(Self {
            services,
            name,
            call,
            queued: waiting,
        })
    }

    pub fn connection(&self) -> &ConnectionToken {
        &self.call.access.connection
    }

    /// As it is told from here on. `events`: see [`ResponseFold::new`].
    pub fn fold(&mut self, events: Option<Option<u64>>) -> ResponseFold {
        ResponseFold::new(self.name.clone(), self.queued.take(), events)
    }

    /// With all that the log has of it by now.
    pub async fn read(&mut self) -> Result<ResponseFold, GatewayError> {
        let mut fold = self.fold(None);
        let log = LogId::Session(self.name.session.clone());
        let mut next = self.name.first();
        while !fold.is_over() {
            let frames = self.services.store.read_confirmed(&log, next, PAGE).await?;
            let Some(last) = frames.last().map(|frame| frame.last()) else {
                break;
            };
            let events = frames.iter().flat_map(|frame| frame.numbered());
            for (_, event) in events.filter(|(seq, _)| *seq >= next) {
                if !fold.is_over() {
                    fold.add(event);
                }
            }
            next = last + 1;
        }
        Ok(fold)
    }

    /// Ends it, if it has not ended. Whatever else is asked of the session is left alone.
    pub async fn cancel(&mut self) -> Result<(), GatewayError> {
        let message = if self.name.answers {
            let params = json!({ "sessionId": self.name.session });
            compose::notification("session/cancel", params)
        } else {
            let params = json!({ "requestId": "prompt" });
            compose::notification("$/cancel_request", params)
        };
        self.send(message).await?;
        Ok(())
    }

    /// With the conversation that it is the end of. One from its middle cannot be taken out.
    pub async fn delete(&mut self) -> Result<Value, GatewayError> {
        let place = ResponsePlace::of(&**self.services.store, &self.name).await?;
        if let ResponsePlace::Followed { .. } = place {
            let text = "the conversation goes on after this response: delete its last one, and \
                the conversation with it";
            let param = Some("response_id");
            return Err(fault(
                FaultKind::Conflict,
                "response_has_successors",
                param,
                text,
            ));
        }
        let params = json!({ "sessionId": self.name.session });
        let outcome = self
            .send(compose::request("delete", "session/delete", params))
            .await?;
        if let MethodOutcome::Answer(answer) = &outcome
            && RpcError::of(answer.message()).is_none()
        {
            let id = self.name.to_string();
            return Ok(json!({ "id": id, "object": "response", "deleted": true }));
        }
        Err(refused(outcome))
    }

    /// The words of the user, as items.
    pub async fn input_items(&self) -> Result<Value, GatewayError> {
        let log = LogId::Session(self.name.session.clone());
        let (mut next, mut begun, mut content) = (self.name.first(), false, Vec::new());
        'log: loop {
            let frames = self.services.store.read_confirmed(&log, next, PAGE).await?;
            let Some(last) = frames.last().map(|frame| frame.last()) else {
                break;
            };
            let events = frames.iter().flat_map(|frame| frame.numbered());
            for (_, event) in events.filter(|(seq, _)| *seq >= next) {
                match event {
                    Event::Begin(begin) => begun = begin.connection == self.name.asker,
                    Event::Echo { message, .. } if begun => content.extend(content_of(message)),
                    _ if begun => break 'log,
                    _ => {}
                }
            }
            next = last + 1;
        }
        let id = self.name.item("msg", u32::MAX);
        let item = json!({
            "type": "message", "id": id, "status": "completed", "role": "user",
            "content": content,
        });
        let data = if content.is_empty() {
            vec![]
        } else {
            vec![item]
        };
        let edge = if data.is_empty() { None } else { Some(&id) };
        Ok(json!({
            "object": "list", "data": data, "first_id": edge, "last_id": edge, "has_more": false,
        }))
    }

    async fn send(&mut self, message: bytes::Bytes) -> Result<MethodOutcome, GatewayError> {
        let terms = self.call.terms();
        self.call.send(message, terms).await
    }
}

/// The terms of a response that waits in the session's inbox.
async fn queued(
    services: ResponseServices<'_>,
    name: &ResponseName,
) -> Result<Option<ResponseTerms>, GatewayError> {
    let waiting = services.store.inbox(&name.session, &[]).await?;
    let own = |queued: &&QueuedCommand| queued.command.connection == name.asker;
    let mut waiting = waiting.iter().filter(own);
    Ok(waiting.find_map(|queued| {
        let message = &queued.command.message;
        ResponseTerms::of_answer(message).or_else(|| terms_of(message))
    }))
}

/// From a prompt that waits.
fn terms_of(prompt: &[u8]) -> Option<ResponseTerms> {
    #[derive(Deserialize)]
    struct PromptMessage {
        params: PromptBlocks,
    }
    #[derive(Deserialize)]
    struct PromptBlocks {
        prompt: Vec<Value>,
    }
    let message: PromptMessage = serde_json::from_slice(prompt).ok()?;
    let content = message.params.prompt.into_iter().next()?;
    let chunk = compose::update("", json!({ "content": content }));
    ResponseTerms::of(&chunk)
}

/// A part of an input item.
fn content_of(echo: &[u8]) -> Option<Value> {
    #[derive(Deserialize)]
    struct MessageChunk {
        content: Value,
    }
    let MessageChunk { content } = update::read(echo)?;
    let text = |name: &str| content[name].as_str().unwrap_or_default();
    Some(match text("type") {
        "text" => json!({ "type": "input_text", "text": text("text") }),
        "image" => {
            let url = format!("data:{};base64,{}", text("mimeType"), text("data"));
            json!({ "type": "input_image", "image_url": url, "detail": "auto" })
        }
        "resource_link" => {
            let (name, url) = (text("name"), text("uri"));
            json!({ "type": "input_file", "filename": name, "file_url": url })
        }
        _ => {
            let name = content["resource"]["uri"].as_str().unwrap_or_default();
            json!({ "type": "input_file", "filename": name })
        }
    })
}
