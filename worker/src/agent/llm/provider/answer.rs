//! Bytes of an answer in, events out. Knows nothing of connections, so that everything an endpoint
//! can send is tried without one.

use super::failures::FailureContext;
use super::reply_builder::ReplyBuilder;
use crate::agent::llm::model::{AssistantMessage, ModelEvent};
use crate::agent::llm::model_error::ModelError;
use crate::http_client::{SseEvent, SseParser};

/// Reads one protocol.
pub trait AnswerDecoder: Send {
    /// Fails with [`ModelError::Malformed`] or what the endpoint says went wrong.
    fn read(
        &mut self,
        event: &SseEvent,
        reply: &mut ReplyBuilder,
        context: &FailureContext,
    ) -> Result<(), ModelError>;
}

pub struct AnswerReader {
    parser: SseParser,
    decoder: Box<dyn AnswerDecoder>,
    reply: ReplyBuilder,
    context: FailureContext,
    /// Why no more bytes come.
    ending: Option<ModelError>,
    failed: bool,
}

impl AnswerReader {
    /// `max_event` bounds what one event may be. Responses repeats request and answer in one.
    pub fn new(
        decoder: Box<dyn AnswerDecoder>,
        reply: ReplyBuilder,
        context: FailureContext,
        max_event: usize,
    ) -> Self {
        Self {
            parser: SseParser::new(max_event),
            decoder,
            reply,
            context,
            ending: None,
            failed: false,
        }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.parser.push(bytes);
    }

    /// `None` if more bytes are needed, or nothing can follow ([`Self::is_over`]).
    pub fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        loop {
            if let Some(event) = self.reply.next_event() {
                return Some(Ok(event));
            }
            if self.is_over() {
                return None;
            }
            let read = match (self.parser.next_event(), self.ending.is_some()) {
                (Ok(Some(event)), false) => self.read(&event),
                // Half an event is none.
                (Ok(Some(event)), true) => self.read(&event).or(Ok(())),
                (Ok(None), false) => return None,
                (_, true) => self.finish(),
                (Err(too_large), false) => Err(ModelError::TooLarge {
                    detail: too_large.to_string(),
                }),
            };
            if let Err(error) = read {
                self.failed = true;
                return Some(Err(error));
            }
        }
    }

    fn read(&mut self, event: &SseEvent) -> Result<(), ModelError> {
        self.decoder.read(event, &mut self.reply, &self.context)
    }

    /// No more bytes come. The last events follow, and then this error, unless the answer is
    /// complete.
    pub fn end(&mut self, error: ModelError) {
        // Some endpoints forget the empty line at their end.
        self.parser.push(b"\n\n");
        self.ending.get_or_insert(error);
    }

    fn finish(&mut self) -> Result<(), ModelError> {
        if self.reply.has_stopped() {
            self.reply.finish();
            return Ok(());
        }
        self.ending.take().map_or(Ok(()), Err)
    }

    pub fn is_over(&self) -> bool {
        self.failed || self.reply.is_done()
    }

    /// The model has stopped, and only what is counted may still come.
    pub fn is_settling(&self) -> bool {
        self.reply.has_stopped()
    }

    pub fn said(&self) -> AssistantMessage {
        self.reply.said()
    }
}

/// An event that is not what the protocol has. It may repeat a key, which is taken out before
/// the rest is cut.
pub fn malformed(what: &str, event: &SseEvent, context: &FailureContext) -> ModelError {
    let shown = context.shown(&String::from_utf8_lossy(&event.data));
    let shown: String = shown.chars().take(120).collect();
    ModelError::Malformed {
        detail: format!("{what}: {shown}"),
    }
}
