//! A WebSocket client that sees every frame.

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use super::schema::CONVERSATIONS;
use super::within;

pub struct Socket {
    socket: WebSocketStream<MaybeTlsStream<tokio::net::TcpStream>>,
    connection: String,
    /// The subprotocol that was chosen.
    pub protocol: Option<String>,
    resumable: bool,
}

impl Socket {
    pub async fn open(url: &str, resumable: bool) -> Self {
        let resume = [("acp-resume", "1")];
        let headers = if resumable { &resume[..] } else { &[] };
        let mut opened = Self::try_open(url, headers).await.expect("an upgrade");
        assert_eq!(opened.protocol, None);
        opened.resumable = resumable;
        opened
    }

    /// With these headers. If it is refused: the status, the challenge if there is one, and the body.
    pub async fn try_open(
        url: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Self, (u16, Option<String>, String)> {
        let url = url.replace("http://", "ws://");
        let mut request = url.into_client_request().expect("a URL");
        for (name, value) in headers {
            let value = value.parse().expect("a header value");
            request.headers_mut().insert(*name, value);
        }
        let (socket, response) = match within("an upgrade", connect_async(request)).await {
            Ok(opened) => opened,
            Err(Error::Http(refused)) => {
                let challenge = refused.headers().get("www-authenticate");
                let challenge = challenge.map(|value| value.to_str().expect("text").to_owned());
                let body = refused.body().clone().unwrap_or_default();
                let body = String::from_utf8(body).expect("text");
                return Err((refused.status().as_u16(), challenge, body));
            }
            Err(other) => panic!("no upgrade: {other}"),
        };
        let text = |name: &str| {
            let value = response.headers().get(name)?;
            Some(value.to_str().expect("text").to_owned())
        };
        assert_eq!(text("sec-websocket-extensions"), None);
        Ok(Self {
            socket,
            connection: text("acp-connection-id").expect("a connection token"),
            protocol: text("sec-websocket-protocol"),
            resumable: false,
        })
    }

    /// The name of the connection that this socket carries.
    pub fn connection(&self) -> &str {
        &self.connection
    }

    pub async fn send(&mut self, message: Value) {
        self.try_send(&message).await.expect("the socket is open");
    }

    pub async fn try_send(&mut self, message: &Value) -> Result<(), Error> {
        if let Some(earlier) = message["resume"]["connection"].as_str() {
            self.connection = earlier.to_owned();
        }
        CONVERSATIONS.sent(&self.connection, message);
        self.send_text(&message.to_string()).await
    }

    /// Whatever it says.
    pub async fn send_text(&mut self, text: &str) -> Result<(), Error> {
        self.socket.send(Message::text(text)).await
    }

    /// What comes next, whatever it is.
    pub async fn frame(&mut self) -> Option<Result<Message, Error>> {
        let frame = within("a frame", self.socket.next()).await;
        if let Some(Ok(Message::Text(text))) = &frame {
            let frame: Value = serde_json::from_str(text).expect("JSON");
            let message = match self.resumable {
                true => frame.get("message"),
                false => Some(&frame),
            };
            // A frame without a message says that the stream was reset.
            if let Some(message) = message {
                CONVERSATIONS.received(&self.connection, message);
                // `initialize` gives it the name that it is resumed by.
                let named = &message["result"]["_meta"]["baton/connection"]["token"];
                if let Some(named) = named.as_str() {
                    self.connection = named.to_owned();
                }
            }
        }
        frame
    }

    /// The code the server closes with; nothing else may come before.
    pub async fn closed(&mut self) -> u16 {
        loop {
            match self.frame().await {
                Some(Ok(Message::Close(Some(frame)))) => return frame.code.into(),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                other => panic!("expected a close, got {other:?}"),
            }
        }
    }

    pub async fn next(&mut self) -> Value {
        serde_json::from_str(&self.next_text().await).expect("JSON")
    }

    pub async fn next_text(&mut self) -> String {
        loop {
            match self.frame().await {
                Some(Ok(Message::Text(text))) => return text.to_string(),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                other => panic!("expected a message, got {other:?}"),
            }
        }
    }
}

pub fn initialize() -> Value {
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": { "protocolVersion": 1 } })
}
