//! The handle that hides the network.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::contact::Contact;
use crate::driver::Driver;
use crate::error::Unusable;
use crate::options::Options;

/// Messages in each direction. More waits where it comes from: in a pipe, or at the server.
const QUEUE: usize = 16;

/// A conversation with Baton. Must be opened by `initialize`, as ACP has it.
pub struct Connection {
    sender: Sender,
    receiver: Receiver,
}

/// Sends messages to the server. When the last sender is dropped, pending messages are delivered
/// and the connection is detached.
#[derive(Clone)]
pub struct Sender(mpsc::Sender<Bytes>);

/// Receives messages from the server.
pub struct Receiver {
    messages: mpsc::Receiver<Bytes>,
    contact: Arc<Contact>,
    _driver: AbortOnDropHandle<()>,
}

/// Nothing can be sent any more.
#[derive(Debug, thiserror::Error)]
#[error("the connection is closed")]
pub struct Closed;

/// Must be called on a runtime. Nothing is sent before there is a message to send.
pub fn connect(options: Options) -> Result<Connection, Unusable> {
    let (sender, outgoing) = mpsc::channel(QUEUE);
    let (incoming, messages) = mpsc::channel(QUEUE);
    let driver = Driver::new(options, outgoing, incoming)?;
    Ok(Connection {
        sender: Sender(sender),
        receiver: Receiver {
            messages,
            contact: driver.contact(),
            _driver: AbortOnDropHandle::new(tokio::spawn(driver.run())),
        },
    })
}

impl Connection {
    pub fn split(self) -> (Sender, Receiver) {
        (self.sender, self.receiver)
    }

    pub async fn send(&self, message: impl Into<Bytes>) -> Result<(), Closed> {
        self.sender.send(message).await
    }

    pub async fn receive(&mut self) -> Option<Bytes> {
        self.receiver.receive().await
    }
}

impl Sender {
    /// One JSON-RPC message. Waits while the server is away and much has been sent already.
    pub async fn send(&self, message: impl Into<Bytes>) -> Result<(), Closed> {
        self.0.send(message.into()).await.map_err(|_| Closed)
    }
}

impl Receiver {
    /// One JSON-RPC message, on one line. `None` when all is over.
    pub async fn receive(&mut self) -> Option<Bytes> {
        self.messages.recv().await
    }

    /// For how long nothing has been heard of the server; nothing at all while its stream is open.
    pub fn away(&self) -> Duration {
        self.contact.away()
    }

    /// One that is there already.
    pub fn try_receive(&mut self) -> Option<Bytes> {
        self.messages.try_recv().ok()
    }
}
