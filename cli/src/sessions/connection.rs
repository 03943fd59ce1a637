//! A connection as any client has one: opened by `initialize`, given up by DELETE. Requests are
//! one-shot, so that each answer comes in the body of its POST.

use std::cell::Cell;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Client, Response, Url};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::server::{SessionsServer, succeeded};
use super::sse::SseParser;
use super::terminal::on_a_line;

const TOKEN: &str = "acp-connection-id";
const STREAM: &str = "text/event-stream";
/// Nobody waits longer for an end.
const FAREWELL: Duration = Duration::from_secs(2);

pub struct SessionsConnection {
    http: Client,
    url: Url,
    token: String,
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

impl SessionsConnection {
    pub async fn open(server: &SessionsServer) -> anyhow::Result<Self> {
        let (http, url) = (server.http.clone(), server.endpoint("/acp")?);
        let params = json!({ "protocolVersion": 1 });
        let request = http
            .post(url.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(request(0, "initialize", &params));
        let response = succeeded(&url, request.send().await).await?;
        // There is a connection whatever the answer is: sessions can be looked at while no agent
        // runs.
        let token = response.headers().get(TOKEN);
        let token = token.and_then(|token| token.to_str().ok());
        let token = token.ok_or_else(|| anyhow!("{url} opens no connection: is it Baton?"))?;
        Ok(Self {
            token: token.to_owned(),
            http,
            url,
            asked: Cell::new(0),
        })
    }

    /// Makes a request; its updates are shown to `see` before the result comes.
    pub async fn call(
        &self,
        method: &str,
        params: &Value,
        mut see: impl FnMut(&RawValue) -> anyhow::Result<()>,
    ) -> anyhow::Result<Value> {
        let id = self.asked.get() + 1;
        self.asked.set(id);
        let request = self
            .http
            .post(self.url.clone())
            .header(TOKEN, &self.token)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, STREAM)
            .body(request(id, method, params));
        let response = succeeded(&self.url, request.send().await).await?;
        let mut events = SseParser::of(response);
        while let Some(event) = events.next().await? {
            if !event.is_message() {
                continue;
            }
            let message: SessionMessage<'_> =
                serde_json::from_str(&event.data).context("the answer is not JSON-RPC")?;
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
        bail!("the answer to {method} broke off: try again")
    }

    /// The stream of a session, from after this cursor on.
    pub async fn stream(&self, session: &str, cursor: Option<&str>) -> reqwest::Result<Response> {
        let mut request = self
            .http
            .get(self.url.clone())
            .header(TOKEN, &self.token)
            .header("acp-session-id", session)
            .header(ACCEPT, STREAM);
        if let Some(cursor) = cursor {
            request = request.header("last-event-id", cursor);
        }
        request.send().await
    }

    pub fn url(&self) -> &Url {
        &self.url
    }

    /// It would be forgotten by itself, later.
    pub async fn close(self) {
        let request = self.http.delete(self.url).header(TOKEN, self.token);
        let _ = timeout(FAREWELL, request.send()).await;
    }
}

/// The update that a message on a stream brings, if it does.
pub fn update_of(message: &str) -> Option<&RawValue> {
    let message: SessionMessage<'_> = serde_json::from_str(message).ok()?;
    message.params?.update
}

/// To look at a session without taking control of it, opening it again or changing what it works
/// with.
pub fn observing(session: &str) -> Value {
    let meta = json!({ "baton/observe": true });
    json!({ "sessionId": session, "_meta": meta })
}

fn request(id: u64, method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}
