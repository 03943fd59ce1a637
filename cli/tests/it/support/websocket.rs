//! A WebSocket client that sees every frame.

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use super::within;

pub struct Socket(pub WebSocketStream<MaybeTlsStream<tokio::net::TcpStream>>);

impl Socket {
    pub async fn open(url: &str, resumable: bool) -> Self {
        let mut request = url
            .replace("http://", "ws://")
            .into_client_request()
            .expect("a URL");
        if resumable {
            request
                .headers_mut()
                .insert("acp-resume", "1".parse().expect("a header value"));
        }
        let (socket, response) = within("an upgrade", connect_async(request))
            .await
            .expect("an upgrade");
        assert!(response.headers().contains_key("acp-connection-id"));
        assert!(!response.headers().contains_key("sec-websocket-protocol"));
        assert!(!response.headers().contains_key("sec-websocket-extensions"));
        Self(socket)
    }

    pub async fn send(&mut self, message: Value) {
        self.try_send(&message).await.expect("the socket is open");
    }

    pub async fn try_send(&mut self, message: &Value) -> Result<(), Error> {
        self.0.send(Message::text(message.to_string())).await
    }

    /// The code the server closes with; nothing else may come before.
    pub async fn closed(&mut self) -> u16 {
        loop {
            match within("a close", self.0.next()).await {
                Some(Ok(Message::Close(Some(frame)))) => return frame.code.into(),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                other => panic!("expected a close, got {other:?}"),
            }
        }
    }

    pub async fn next(&mut self) -> Value {
        loop {
            match within("a frame", self.0.next()).await {
                Some(Ok(Message::Text(text))) => return serde_json::from_str(&text).expect("JSON"),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                other => panic!("expected a message, got {other:?}"),
            }
        }
    }
}

pub fn initialize() -> Value {
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": { "protocolVersion": 1 } })
}
