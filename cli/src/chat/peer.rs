//! JSON-RPC with the other side.

use std::time::Duration;

use anyhow::anyhow;
use baton_client::{Connection, MessageReceiver, MessageSender};
use baton_protocol::{ErrorCode, compose};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::timeout;

/// For what is still to be handed over when the end has come.
const FAREWELL: Duration = Duration::from_secs(5);

pub struct ChatPeer {
    sender: MessageSender,
    receiver: MessageReceiver,
    requests: u64,
}

/// A message from the server.
pub enum PeerMessage {
    Answer(u64, Result<Value, PeerError>),
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
}

/// An answer that is an error.
#[derive(Clone, Debug, Deserialize, thiserror::Error)]
#[error("{message} ({code})")]
pub struct PeerError {
    pub code: i64,
    pub message: String,
}

impl PeerError {
    /// Said by our own side when the other one was away for too long.
    pub fn is_unreachable(&self) -> bool {
        self.code == ErrorCode::Unreachable.value()
    }
}

#[derive(Deserialize)]
struct RawMessage {
    id: Option<Value>,
    method: Option<String>,
    #[serde(default)]
    params: Value,
    #[serde(default)]
    result: Value,
    error: Option<PeerError>,
}

impl ChatPeer {
    pub fn new(connection: Connection) -> Self {
        let (sender, receiver) = connection.split();
        Self {
            sender,
            receiver,
            requests: 0,
        }
    }

    /// Its answer is among the messages that come, and has this id.
    pub async fn request(&mut self, method: &str, params: Value) -> anyhow::Result<u64> {
        self.requests += 1;
        let id = self.requests;
        self.send(compose::request(id, method, params)).await?;
        Ok(id)
    }

    pub async fn notify(&self, method: &str, params: Value) -> anyhow::Result<()> {
        self.send(compose::notification(method, params)).await
    }

    pub async fn answer(&self, id: Value, result: Value) -> anyhow::Result<()> {
        let result = result.to_string();
        let message = compose::result(&id.to_string(), result.as_bytes());
        self.send(message).await
    }

    pub async fn has_no(&self, method: &str, id: Value) -> anyhow::Result<()> {
        let text = format!("this client has no {method}");
        let code = ErrorCode::MethodNotFound;
        self.send(compose::error(&id.to_string(), code, &text))
            .await
    }

    async fn send(&self, message: Bytes) -> anyhow::Result<()> {
        Ok(self.sender.send(message).await?)
    }

    /// May be dropped and called again: nothing is lost by that.
    pub async fn next(&mut self) -> anyhow::Result<PeerMessage> {
        loop {
            let bytes = self.receiver.receive().await;
            let bytes = bytes.ok_or_else(|| anyhow!("the connection has ended"))?;
            match serde_json::from_slice(&bytes).map(RawMessage::sorted) {
                Ok(Some(message)) => return Ok(message),
                _ => tracing::debug!("a message that cannot be understood"),
            }
        }
    }

    /// For how long nothing has been heard of the other side.
    pub fn away(&self) -> Duration {
        self.receiver.away()
    }

    /// Sent messages are delivered, and the connection is detached.
    pub async fn close(self) {
        let Self {
            sender,
            mut receiver,
            ..
        } = self;
        drop(sender);
        let rest = async { while receiver.receive().await.is_some() {} };
        let _ = timeout(FAREWELL, rest).await;
    }
}

impl RawMessage {
    /// `None` for answers to nothing we asked.
    fn sorted(self) -> Option<PeerMessage> {
        let (id, params) = (self.id, self.params);
        match (self.method, id) {
            (Some(method), Some(id)) => Some(PeerMessage::Request { id, method, params }),
            (Some(method), None) => Some(PeerMessage::Notification { method, params }),
            (None, id) => {
                let outcome = match self.error {
                    Some(fault) => Err(fault),
                    None => Ok(self.result),
                };
                Some(PeerMessage::Answer(id?.as_u64()?, outcome))
            }
        }
    }
}
