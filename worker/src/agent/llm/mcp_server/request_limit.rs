//! A server that asks without end, or does not read the answers to what it asks, is given up:
//! otherwise its answers would pile up in the worker.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{JsonRpcMessage, ServerNotification};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

/// Requests that wait for their answers to be read.
const MAX_OPEN: usize = 32;
const PATIENCE: Duration = Duration::from_secs(10);

pub struct RequestLimit<T> {
    transport: T,
    room: Arc<Semaphore>,
    open: VecDeque<OwnedSemaphorePermit>,
    /// Came, and waits for room until then.
    next: Option<(RxJsonRpcMessage<RoleClient>, Instant)>,
    /// The connection is to end, also if something is being written to it.
    given_up: CancellationToken,
}

impl<T> RequestLimit<T> {
    pub fn new(transport: T, given_up: CancellationToken) -> Self {
        Self {
            given_up,
            transport,
            room: Arc::new(Semaphore::new(MAX_OPEN)),
            open: VecDeque::new(),
            next: None,
        }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for RequestLimit<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let answers = matches!(
            message,
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)
        );
        // Whichever of them it answers: they are only counted.
        let permit = if answers { self.open.pop_front() } else { None };
        let sent = self.transport.send(message);
        async move {
            let outcome = sent.await;
            drop(permit);
            outcome
        }
    }

    // May be dropped and called again at any await.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        if self.next.is_none() {
            let message = self.transport.receive().await?;
            self.next = Some((message, Instant::now() + PATIENCE));
        }
        let (message, until) = self.next.as_ref()?;
        match message {
            JsonRpcMessage::Request(_) => {
                let room = timeout_at(*until, self.room.clone().acquire_owned()).await;
                let Ok(Ok(permit)) = room else {
                    tracing::warn!(
                        "an MCP server asks more than it reads answers to: it is given up"
                    );
                    self.given_up.cancel();
                    return None;
                };
                self.open.push_back(permit);
            }
            // What is cancelled is not answered.
            JsonRpcMessage::Notification(it)
                if matches!(
                    it.notification,
                    ServerNotification::CancelledNotification(_)
                ) =>
            {
                self.open.pop_front();
            }
            _ => {}
        }
        self.next.take().map(|(message, _)| message)
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.transport.close().await
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{ClientResult, ServerJsonRpcMessage};

    use super::*;

    /// A server that asks without end.
    struct Flood {
        asked: i64,
        /// Whether the answers are read.
        reads: bool,
    }

    impl Transport<RoleClient> for Flood {
        type Error = std::io::Error;

        fn send(
            &mut self,
            _: TxJsonRpcMessage<RoleClient>,
        ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
            let reads = self.reads;
            async move {
                if !reads {
                    std::future::pending::<()>().await;
                }
                Ok(())
            }
        }

        async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
            self.asked += 1;
            let ping = format!(r#"{{"jsonrpc":"2.0","id":{},"method":"ping"}}"#, self.asked);
            Some(serde_json::from_str(&ping).expect("a ping"))
        }

        async fn close(&mut self) -> Result<(), Self::Error> {
            Ok(())
        }
    }

    async fn answered(reads: bool) -> i64 {
        let mut limited = RequestLimit::new(Flood { asked: 0, reads }, CancellationToken::new());
        for _ in 0..1000 {
            let Some(JsonRpcMessage::Request(request)) = limited.receive().await else {
                break;
            };
            let pong = ClientResult::empty(());
            tokio::spawn(limited.send(JsonRpcMessage::response(pong, request.id)));
        }
        limited.transport.asked
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_reads_no_answers_is_given_up() {
        assert_eq!(answered(false).await, MAX_OPEN as i64 + 1);
        assert_eq!(answered(true).await, 1000);
    }
}
