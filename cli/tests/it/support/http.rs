//! A client that sends exactly what a test says.

use std::sync::atomic::{AtomicU64, Ordering};

use reqwest::header::HeaderMap;
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};

use super::schema::{self, CONVERSATIONS};
use super::{Stream, within};

#[derive(Clone)]
pub struct Client {
    pub url: String,
    http: reqwest::Client,
    pub token: String,
}

pub const JSON: (&str, &str) = ("content-type", "application/json");
pub const ONE_SHOT: (&str, &str) = ("accept", "text/event-stream");

impl Client {
    pub async fn initialize(url: &str) -> Self {
        Self::try_initialize(url)
            .await
            .expect("initialize succeeds")
    }

    /// `None` if it was answered with an error.
    pub async fn try_initialize(url: &str) -> Option<Self> {
        Self::usable(Self::open(url, json!({ "protocolVersion": 1 })).await)
    }

    fn usable(opened: Option<(Self, Value)>) -> Option<Self> {
        let (client, answer) = opened?;
        answer.get("result").map(|_| client)
    }

    /// With an API key in every request.
    pub async fn with_key(url: &str, key: &str) -> Self {
        let opened = Self::try_with_key(url, key).await;
        opened.expect("initialize succeeds")
    }

    pub async fn try_with_key(url: &str, key: &str) -> Option<Self> {
        let params = json!({ "protocolVersion": 1 });
        Self::usable(Self::open_over(bearing(key), url, params).await)
    }

    /// A connection, and the answer to its `initialize`; `None` if nobody answers.
    pub async fn open(url: &str, params: Value) -> Option<(Self, Value)> {
        Self::open_over(reqwest::Client::new(), url, params).await
    }

    pub async fn open_with_key(url: &str, key: &str, params: Value) -> Option<(Self, Value)> {
        Self::open_over(bearing(key), url, params).await
    }

    async fn open_over(http: reqwest::Client, url: &str, params: Value) -> Option<(Self, Value)> {
        let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let response = http
            .post(url)
            .header(JSON.0, JSON.1)
            .body(body.to_string())
            .send()
            .await
            .ok()?;
        let token = response
            .headers()
            .get("acp-connection-id")?
            .to_str()
            .ok()?
            .to_owned();
        let answer: Value = serde_json::from_str(&response.text().await.ok()?).ok()?;
        schema::check_answer("initialize", &answer);
        let url = url.to_owned();
        Some((Self { url, http, token }, answer))
    }

    /// The same connection, by another address.
    pub fn at(&self, url: &str) -> Self {
        Self {
            url: url.to_owned(),
            http: self.http.clone(),
            token: self.token.clone(),
        }
    }

    pub async fn send(&self, headers: &[(&str, &str)], body: impl Into<reqwest::Body>) -> Response {
        let mut request = self
            .http
            .post(&self.url)
            .header("acp-connection-id", &self.token);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body: reqwest::Body = body.into();
        if let Some(Ok(message)) = body.as_bytes().map(serde_json::from_slice::<Value>) {
            CONVERSATIONS.sent(&self.token, &message);
        }
        within("an answer to a POST", request.body(body).send())
            .await
            .expect("the gateway answers")
    }

    /// A message that must be accepted.
    pub async fn post(&self, message: Value) {
        let response = self.send(&[JSON], message.to_string()).await;
        assert_eq!(response.status(), StatusCode::ACCEPTED);
        assert_eq!(
            response
                .headers()
                .get("content-length")
                .map(|v| v.as_bytes()),
            Some(&b"0"[..])
        );
    }

    /// A request whose events come in the body.
    pub async fn one_shot(&self, message: Value) -> Stream {
        let response = self.send(&[JSON, ONE_SHOT], message.to_string()).await;
        assert_eq!(response.status(), StatusCode::OK);
        self.stream(response)
    }

    pub async fn get(&self, headers: &[(&str, &str)]) -> Response {
        let mut request = self
            .http
            .get(&self.url)
            .header("accept", "text/event-stream");
        request = request.header("acp-connection-id", &self.token);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        within("an answer to a GET", request.send())
            .await
            .expect("the gateway answers")
    }

    /// What comes in this response is for this connection.
    pub fn stream(&self, response: Response) -> Stream {
        Stream::of(&self.token, response)
    }

    pub async fn connection_stream(&self, last_event_id: Option<&str>) -> Stream {
        let headers: Vec<_> = last_event_id
            .map(|id| ("last-event-id", id))
            .into_iter()
            .collect();
        let response = self.get(&headers).await;
        assert_eq!(response.status(), StatusCode::OK);
        self.stream(response)
    }

    pub async fn session_stream(&self, session: &str, last_event_id: Option<&str>) -> Stream {
        let mut headers = vec![("acp-session-id", session)];
        headers.extend(last_event_id.map(|id| ("last-event-id", id)));
        let response = self.get(&headers).await;
        assert_eq!(response.status(), StatusCode::OK);
        check_stream_headers(response.headers());
        self.stream(response)
    }

    /// The same connection, by other means.
    pub fn over(self, http: reqwest::Client) -> Self {
        Self { http, ..self }
    }

    pub async fn delete(&self) -> StatusCode {
        let request = self
            .http
            .delete(&self.url)
            .header("acp-connection-id", &self.token);
        within("an answer to a DELETE", request.send())
            .await
            .expect("the gateway answers")
            .status()
    }

    pub async fn new_session(&self) -> String {
        // A repeated id would be the same request.
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let id = json!(format!("new-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
        let mut stream = self.one_shot(new_session(id.clone())).await;
        let answer = stream.response(&id).await;
        answer["result"]["sessionId"]
            .as_str()
            .expect("session/new returns an id")
            .to_owned()
    }
}

/// Sends the key along with every request.
pub fn bearing(key: &str) -> reqwest::Client {
    let value = format!("Bearer {key}").parse().expect("a header value");
    let headers = HeaderMap::from_iter([(reqwest::header::AUTHORIZATION, value)]);
    let client = reqwest::Client::builder().default_headers(headers);
    client.build().expect("a client")
}

fn check_stream_headers(headers: &HeaderMap) {
    let value = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    assert_eq!(value("content-type"), Some("text/event-stream"));
    assert_eq!(value("cache-control"), Some("no-cache"));
    assert_eq!(value("content-encoding"), None);
}

pub fn new_session(id: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "session/new", "params": { "cwd": "/tmp", "mcpServers": [] } })
}

pub fn prompt(id: Value, session: &str, text: &str) -> Value {
    let prompt = json!([{ "type": "text", "text": text }]);
    let params = json!({ "sessionId": session, "prompt": prompt });
    json!({ "jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params })
}

pub fn load(id: Value, session: &str) -> Value {
    let params = json!({ "sessionId": session, "cwd": "/tmp", "mcpServers": [] });
    json!({ "jsonrpc": "2.0", "id": id, "method": "session/load", "params": params })
}

pub fn cancel(session: &str) -> Value {
    json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } })
}
