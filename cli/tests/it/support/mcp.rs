//! An MCP client that sends exactly what a test says.

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};

use super::within;

pub const SESSIONLESS: &str = "2026-07-28";
const REVISION: &str = "2025-11-25";

#[derive(Clone)]
pub struct McpPeer {
    http: reqwest::Client,
    pub url: String,
    key: Option<String>,
    /// The token of its session; a sessionless peer has none.
    pub session: Option<String>,
    pub capabilities: Value,
}

impl McpPeer {
    /// By the address of `/acp`; a session is open when it returns.
    pub async fn open(url: &str, key: Option<&str>, capabilities: Value) -> Self {
        let mut peer = Self::sessionless(url, key, capabilities);
        let params = json!({
            "protocolVersion": REVISION,
            "capabilities": peer.capabilities,
            "clientInfo": { "name": "peer", "version": "1" },
        });
        let message =
            json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let response = peer.send(Method::POST, &[], Some(&message)).await;
        assert_eq!(response.status(), StatusCode::OK);
        let session = response.headers()["mcp-session-id"].to_str();
        peer.session = Some(session.expect("visible ASCII").to_owned());
        let answer = last(response).await;
        assert_eq!(answer["result"]["protocolVersion"], REVISION, "{answer}");
        peer
    }

    pub fn sessionless(url: &str, key: Option<&str>, capabilities: Value) -> Self {
        Self {
            http: reqwest::Client::new(),
            url: url.replace("/acp", "/mcp"),
            key: key.map(str::to_owned),
            session: None,
            capabilities,
        }
    }

    pub async fn send(
        &self,
        method: Method,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Response {
        let mut request = self.http.request(method, &self.url);
        request = request.header("accept", "application/json, text/event-stream");
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json");
            request = request.body(body.to_string());
        }
        let sent = within("an answer", request.send()).await;
        sent.expect("the gateway answers")
    }

    /// The message of a request, as this peer writes it.
    pub fn message(&self, id: &Value, method: &str, mut params: Value) -> Value {
        if self.session.is_none() {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(SESSIONLESS);
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
                self.capabilities.clone();
        }
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
    }

    /// With the headers that repeat what the message says.
    pub async fn post(&self, headers: &[(&str, &str)], message: &Value) -> Response {
        let params = &message["params"];
        let name = params["name"].as_str().or(params["uri"].as_str());
        let name = name.or(params["taskId"].as_str());
        let method = message["method"].as_str().unwrap_or_default();
        let mut all = headers.to_vec();
        if self.session.is_none() {
            all.extend([
                ("mcp-protocol-version", SESSIONLESS),
                ("mcp-method", method),
            ]);
            all.extend(name.map(|name| ("mcp-name", name)));
        }
        self.send(Method::POST, &all, Some(message)).await
    }

    /// The answer to a request, be it on a stream.
    pub async fn request(&self, id: u64, method: &str, params: Value) -> Value {
        let message = self.message(&json!(id), method, params);
        last(self.post(&[], &message).await).await
    }

    /// What a tool answers.
    pub async fn call(&self, id: u64, tool: &str, arguments: Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        let answer = self.request(id, "tools/call", params).await;
        assert!(answer["result"].is_object(), "{answer}");
        answer["result"].clone()
    }

    /// Its fields.
    pub async fn fields(&self, id: u64, tool: &str, arguments: Value) -> Value {
        let result = self.call(id, tool, arguments).await;
        assert_eq!(result["isError"], false, "{result}");
        result["structuredContent"].clone()
    }
}

/// A stream of a call, read piece by piece.
pub struct McpStream {
    bytes: BoxStream<'static, reqwest::Result<Bytes>>,
    text: String,
}

impl McpStream {
    pub fn of(response: Response) -> Self {
        assert_eq!(response.status(), StatusCode::OK);
        Self {
            bytes: response.bytes_stream().boxed(),
            text: String::new(),
        }
    }

    /// All messages so far, once one of them contains this.
    pub async fn until(&mut self, part: &str) -> Vec<Value> {
        within(part, async {
            loop {
                let whole = self.text.rsplit_once("\n\n").map_or("", |(whole, _)| whole);
                if whole.contains(part) {
                    return messages(whole);
                }
                let piece = self.bytes.next().await.expect("more").expect("a body");
                self.text.push_str(&String::from_utf8_lossy(&piece));
            }
        })
        .await
    }
}

/// The last message of a response, whole or on a stream.
pub async fn last(response: Response) -> Value {
    let text = within("the body", response.text()).await.expect("a body");
    messages(&text).pop().unwrap_or_else(|| panic!("{text}"))
}

/// The messages of a body.
pub fn messages(text: &str) -> Vec<Value> {
    if let Ok(message) = serde_json::from_str(text) {
        return vec![message];
    }
    let lines = text.lines().filter_map(|line| line.strip_prefix("data: "));
    lines
        .map(|line| serde_json::from_str(line).expect("a message"))
        .collect()
}
