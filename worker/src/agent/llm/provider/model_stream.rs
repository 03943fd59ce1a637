//! An answer under way.

use std::time::Duration;

use hyper::body::Incoming;
use tokio_util::sync::CancellationToken;

use super::answer::AnswerReader;
use super::failures::FailureContext;
use crate::agent::llm::model::{AssistantMessage, ModelEvent};
use crate::agent::llm::model_error::{ModelError, ModelTimeout};
use crate::http_client::{BodyReader, HttpFailure};

/// An endpoint that has said why it stopped, and neither counts nor ends, is not waited for.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);
/// A body that ends lets its connection be used again.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(50);

/// Dropping it closes the connection.
pub struct ModelStream {
    /// `None` when there is nothing more to read.
    body: Option<BodyReader<Incoming>>,
    reader: AnswerReader,
    context: FailureContext,
    cancel: CancellationToken,
    first: Option<ModelEvent>,
    retries: u32,
}

impl ModelStream {
    pub(super) fn new(
        body: BodyReader<Incoming>,
        reader: AnswerReader,
        context: FailureContext,
        cancel: CancellationToken,
    ) -> Self {
        Self {
            body: Some(body),
            reader,
            context,
            cancel,
            first: None,
            retries: 0,
        }
    }

    /// Waits for the first event.
    pub(super) async fn begun_within(mut self, limit: Duration) -> Result<Self, ModelError> {
        let body = self.body.as_mut().expect("nothing was read");
        match body.next_within(limit).await {
            Ok(Some(bytes)) => self.reader.push(&bytes),
            Ok(None) => {}
            Err(HttpFailure::Silence(limit)) => {
                let which = ModelTimeout::FirstByte;
                return Err(ModelError::Timeout { which, limit });
            }
            Err(failure) => return Err(self.context.transport(&failure)),
        }
        let first = self.read().await.transpose()?;
        self.first = first;
        Ok(self)
    }

    pub(super) fn after_retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// `None` after [`ModelEvent::Done`] or an error. Reading up to `None` lets the connection be
    /// used again.
    pub async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        match self.first.take() {
            Some(event) => Some(Ok(event)),
            None => self.read().await,
        }
    }

    /// How often the request was repeated before its answer began.
    pub fn retries(&self) -> u32 {
        self.retries
    }

    /// All that was said so far, the beginning included and tool calls left out: to be continued
    /// if the stream breaks off.
    pub fn said(&self) -> AssistantMessage {
        self.reader.said()
    }

    async fn read(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        loop {
            if let Some(event) = self.reader.next() {
                return Some(event);
            }
            let over = self.reader.is_over();
            let body = self.body.as_mut()?;
            if over {
                let _ = body.next_within(DRAIN_TIMEOUT).await;
                self.body = None;
                return None;
            }
            let piece = tokio::select! {
                biased;
                () = self.cancel.cancelled() => {
                    self.body = None;
                    return Some(Err(ModelError::Cancelled));
                }
                piece = next_piece(body, self.reader.is_settling()) => piece,
            };
            let failure = match piece {
                Ok(Some(bytes)) => {
                    self.reader.push(&bytes);
                    continue;
                }
                Ok(None) => ModelError::BrokenOff {
                    detail: "the stream ended before its end was said".into(),
                },
                Err(failure) => self.context.transport(&failure),
            };
            self.body = None;
            self.reader.end(failure);
        }
    }
}

async fn next_piece(
    body: &mut BodyReader<Incoming>,
    settling: bool,
) -> Result<Option<bytes::Bytes>, HttpFailure> {
    if settling {
        body.next_within(SETTLE_TIMEOUT).await
    } else {
        body.next().await
    }
}
