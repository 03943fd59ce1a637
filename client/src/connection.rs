//! The handle that hides the network.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::driver::ConnectionDriver;
use crate::error::SetupError;
use crate::options::ClientOptions;
use crate::reachability::ServerReachability;

/// Messages in each direction. More waits where it comes from: in a pipe, or at the server.
const QUEUE: usize = 16;

/// A conversation with Baton. Must be opened by `initialize`, as ACP has it.
pub struct Connection {
    sender: MessageSender,
    receiver: MessageReceiver,
}

/// Sends messages to the server. When the last sender is dropped, pending messages are delivered
/// and the connection is detached.
#[derive(Clone)]
pub struct MessageSender(mpsc::Sender<Bytes>);

/// Receives messages from the server.
pub struct MessageReceiver {
    messages: mpsc::Receiver<Bytes>,
    reachability: Arc<ServerReachability>,
    _driver: AbortOnDropHandle<()>,
}

/// Nothing can be sent any more.
#[derive(Debug, thiserror::Error)]
#[error("the connection is closed")]
pub struct ConnectionClosed;

/// Must be called on a runtime. Nothing is sent before there is a message to send.
pub fn connect(options: ClientOptions) -> Result<Connection, SetupError> {
    let (sender, outgoing) = mpsc::channel(QUEUE);
    let (incoming, messages) = mpsc::channel(QUEUE);
    let driver = ConnectionDriver::new(options, outgoing, incoming)?;
    Ok(Connection {
        sender: MessageSender(sender),
        receiver: MessageReceiver {
            messages,
            reachability: driver.reachability(),
            _driver: AbortOnDropHandle::new(tokio::spawn(driver.run())),
        },
    })
}

impl Connection {
    pub fn split(self) -> (MessageSender, MessageReceiver) {
        (self.sender, self.receiver)
    }

    pub async fn send(&self, message: impl Into<Bytes>) -> Result<(), ConnectionClosed> {
        self.sender.send(message).await
    }

    pub async fn receive(&mut self) -> Option<Bytes> {
        self.receiver.receive().await
    }
}

impl MessageSender {
    /// One JSON-RPC message. Waits while the server is away and much has been sent already.
    pub async fn send(&self, message: impl Into<Bytes>) -> Result<(), ConnectionClosed> {
        self.0
            .send(message.into())
            .await
            .map_err(|_| ConnectionClosed)
    }
}

impl MessageReceiver {
    /// One JSON-RPC message, on one line. `None` when all is over.
    pub async fn receive(&mut self) -> Option<Bytes> {
        self.messages.recv().await
    }

    /// For how long nothing has been heard of the server; nothing at all while its stream is open.
    pub fn away(&self) -> Duration {
        self.reachability.away()
    }

    /// One that is there already.
    pub fn try_receive(&mut self) -> Option<Bytes> {
        self.messages.try_recv().ok()
    }
}
