//! A connection as any client has one: opened by `initialize`, given up by DELETE. Requests are
//! one-shot, so that each answer comes in the body of its POST.

use std::cell::Cell;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use baton_client::{Endpoint, OpenedConnection, RequestFailure, SseStream, StreamEvent};
use baton_protocol::{Method, compose, meta};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::terminal::on_a_line;

/// Nobody waits longer for an end.
const FAREWELL: Duration = Duration::from_secs(2);

pub struct SessionsConnection<'a> {
    server: &'a Endpoint,
    opened: OpenedConnection,
    /// How many requests were made.
    asked: Cell<u64>,
}

/// The fields that are read from a message.
#[derive(Deserialize)]
struct SessionMessage<'a> {
    id: Option<Value>,
    method: Option<String>,
    result: Option<Value>,
    error: Option<SessionError>,
    #[serde(borrow)]
    params: Option<MessageParams<'a>>,
}

#[derive(Deserialize)]
struct SessionError {
    message: String,
}

#[derive(Deserialize)]
struct MessageParams<'a> {
    #[serde(borrow)]
    update: Option<&'a RawValue>,
}

impl<'a> SessionsConnection<'a> {
    pub async fn open(server: &'a Endpoint) -> anyhow::Result<Self> {
        let params = json!({ "protocolVersion": 1 });
        // There is a connection whatever the answer is: sessions can be looked at while no agent
        // runs.
        let opened = server.initialize(request(0, Method::Initialize, &params));
        let opened = opened.await.map_err(|failure| told(server, &failure))?;
        Ok(Self {
            server,
            opened,
            asked: Cell::new(0),
        })
    }

    /// Makes a request; its updates are shown to `see` before the result comes.
    pub async fn call(
        &self,
        method: Method,
        params: &Value,
        mut see: impl FnMut(&RawValue) -> anyhow::Result<()>,
    ) -> anyhow::Result<Value> {
        let id = self.asked.get() + 1;
        self.asked.set(id);
        let request = request(id, method, params);
        let events = SseStream::one_shot(self.server, &self.opened.token, request);
        let mut events = events
            .await
            .map_err(|failure| told(self.server, &failure))?;
        loop {
            let item = events.next().await;
            let item = item
                .with_context(|| format!("the answer to {} broke off: try again", method.name()))?;
            let Some(StreamEvent::Message(message)) = item.news else {
                continue;
            };
            let message: SessionMessage<'_> =
                serde_json::from_slice(&message).context("the answer is not JSON-RPC")?;
            if message.method.is_none() && message.id == Some(json!(id)) {
                return match (message.error, message.result) {
                    (Some(fault), _) => bail!("{}", on_a_line(&fault.message)),
                    (None, result) => Ok(result.unwrap_or_default()),
                };
            }
            if let Some(update) = message.params.and_then(|params| params.update) {
                see(update)?;
            }
        }
    }

    /// The stream of a session, from after this cursor on.
    pub async fn stream(
        &self,
        session: &str,
        cursor: Option<&str>,
    ) -> Result<SseStream, RequestFailure> {
        SseStream::of_session(self.server, &self.opened.token, session, cursor).await
    }

    /// It would be forgotten by itself, later.
    pub async fn close(self) {
        let _ = timeout(FAREWELL, self.server.detach(&self.opened.token)).await;
    }
}

/// The failure as the user is to see it: with the server's own words, if there are any.
pub fn told(server: &Endpoint, failure: &RequestFailure) -> anyhow::Error {
    let text = on_a_line(&failure.to_string());
    match failure {
        RequestFailure::Away {
            unconnected: true, ..
        } => anyhow!("cannot reach {}: {text}", server.url()),
        _ => anyhow!("{text}"),
    }
}

/// The update that a message on a stream brings, if it does.
pub fn update_of(message: &[u8]) -> Option<&RawValue> {
    let message: SessionMessage<'_> = serde_json::from_slice(message).ok()?;
    message.params?.update
}

/// To look at a session without taking control of it, opening it again or changing what it works
/// with.
pub fn observing(session: &str) -> Value {
    json!({ "sessionId": session, "_meta": { meta::OBSERVE: true } })
}

fn request(id: u64, method: Method, params: &Value) -> Bytes {
    compose::request(id, method.name(), params)
}
