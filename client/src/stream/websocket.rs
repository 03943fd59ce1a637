//! The stream on a WebSocket. Nothing but its first frame is sent on it.

use baton_protocol::compose::one_line;
use baton_protocol::{CloseCode, header};
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use http::header::{
    CONNECTION, HeaderName, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderValue, StatusCode};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::{Duration, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message as Frame, Utf8Bytes};

use super::{FIRST_EVENT_TIMEOUT, MAX_MESSAGE, StreamEvent, StreamItem};
use crate::endpoint::Endpoint;
use crate::error::RequestFailure;

const RESUME: HeaderName = HeaderName::from_static(header::RESUME);
/// After so much silence it is asked whether it is still there, and gets as long again to answer.
const PING_AFTER: Duration = Duration::from_secs(10);

pub struct SocketStream {
    frames: WebSocketStream<TokioIo<Upgraded>>,
    first: Option<StreamItem>,
}

/// A frame on a socket that was opened with `Acp-Resume`.
#[derive(Deserialize)]
struct ResumeFrame<'a> {
    cursor: String,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(default)]
    reset: Option<String>,
}

impl SocketStream {
    pub async fn open(
        endpoint: &Endpoint,
        connection: &HeaderValue,
        cursor: &str,
    ) -> Result<Self, RequestFailure> {
        let mut frames = upgrade(endpoint).await?;
        let connection = connection.to_str().map_err(RequestFailure::away)?;
        let resume = json!({ "resume": { "connection": connection, "cursor": cursor } });
        let sent = async {
            frames.feed(Frame::text(resume.to_string())).await?;
            frames.send(Frame::Ping(Bytes::new())).await
        };
        sent.await.map_err(RequestFailure::away)?;
        let mut socket = Self {
            frames,
            first: None,
        };
        // The first frame, even a pong, shows that frames get through.
        let first = timeout(FIRST_EVENT_TIMEOUT, socket.frame()).await;
        let first =
            first.map_err(|_| RequestFailure::away("the WebSocket was opened and stays silent"))?;
        socket.first = first?;
        Ok(socket)
    }

    pub async fn next(&mut self) -> Result<StreamItem, RequestFailure> {
        if let Some(first) = self.first.take() {
            return Ok(first);
        }
        let mut asked = false;
        loop {
            match timeout(PING_AFTER, self.frame()).await {
                Ok(Ok(Some(item))) => return Ok(item),
                Ok(Ok(None)) => asked = false,
                Ok(Err(failure)) => return Err(failure),
                Err(_) if asked => return Err(RequestFailure::away("the WebSocket fell silent")),
                Err(_) => {
                    asked = true;
                    let ping =
                        timeout(PING_AFTER, self.frames.send(Frame::Ping(Bytes::new()))).await;
                    let ping =
                        ping.map_err(|_| RequestFailure::away("the WebSocket takes nothing"))?;
                    ping.map_err(RequestFailure::away)?;
                }
            }
        }
    }

    /// `None` for a frame without content, such as a pong.
    async fn frame(&mut self) -> Result<Option<StreamItem>, RequestFailure> {
        let frame = self.frames.next().await;
        let frame = frame.ok_or_else(|| RequestFailure::away("the WebSocket ended"))?;
        let frame =
            frame.map_err(|error| RequestFailure::away(format!("the WebSocket broke: {error}")))?;
        match frame {
            Frame::Text(text) => item(text).map(Some),
            Frame::Close(Some(close))
                if u16::from(close.code) == CloseCode::UnknownConnection.value() =>
            {
                Err(RequestFailure::Lost)
            }
            Frame::Close(Some(close)) => Err(RequestFailure::away(close.reason)),
            Frame::Close(None) => Err(RequestFailure::away("the WebSocket was closed")),
            _ => Ok(None),
        }
    }
}

fn item(text: Utf8Bytes) -> Result<StreamItem, RequestFailure> {
    let framed = serde_json::from_str::<ResumeFrame>(&text);
    let framed =
        framed.map_err(|error| RequestFailure::away(format!("an unknown frame came: {error}")))?;
    let message = framed.message.map(|message| {
        let bytes = Bytes::copy_from_slice(message.get().as_bytes());
        StreamEvent::Message(one_line(bytes))
    });
    Ok(StreamItem {
        news: framed.reset.map(StreamEvent::Reset).or(message),
        cursor: framed.cursor,
    })
}

async fn upgrade(
    endpoint: &Endpoint,
) -> Result<WebSocketStream<TokioIo<Upgraded>>, RequestFailure> {
    let key = generate_key();
    let value = HeaderValue::from_str(&key).map_err(RequestFailure::away)?;
    let headers = HeaderMap::from_iter([
        (CONNECTION, HeaderValue::from_static("Upgrade")),
        (UPGRADE, HeaderValue::from_static("websocket")),
        (SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13")),
        (SEC_WEBSOCKET_KEY, value),
        (RESUME, HeaderValue::from_static("1")),
    ]);
    let response = endpoint.get(&headers).await?;
    let accept = response.headers().get(SEC_WEBSOCKET_ACCEPT);
    let accepted = accept.is_some_and(|accept| *accept == derive_accept_key(key.as_bytes()));
    if response.status() != StatusCode::SWITCHING_PROTOCOLS || !accepted {
        let status = response.status();
        return Err(RequestFailure::away(format!(
            "no WebSocket: the answer was {status}"
        )));
    }
    let upgraded = hyper::upgrade::on(response)
        .await
        .map_err(RequestFailure::away)?;
    let limits = WebSocketConfig::default()
        .max_message_size(Some(MAX_MESSAGE))
        .max_frame_size(Some(MAX_MESSAGE));
    let io = TokioIo::new(upgraded);
    Ok(WebSocketStream::from_raw_socket(io, Role::Client, Some(limits)).await)
}
