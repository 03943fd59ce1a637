//! Model endpoints. A request is written as one protocol has it and sent; its answer is read event
//! by event, in bounded memory. As long as no event was handed out, a failure that may pass is
//! tried again.
//!
//! | file | what |
//! |---|---|
//! | [`config`] | how an endpoint is reached and spoken to |
//! | [`endpoint`] | its address, and the headers of requests |
//! | [`chat`], [`responses`], [`anthropic`] | the protocols: requests and events of answers |
//! | [`content`] | pieces of requests that several protocols write alike |
//! | [`answer`] | bytes of an answer in, events out |
//! | [`reply_builder`] | the message that an answer becomes |
//! | [`continuation`] | how a model goes on after an answer that broke off |
//! | [`prefix_cut`] | text that was already said is not said twice |
//! | [`failures`] | failures in the words of endpoints, told apart |
//! | [`retries`] | when a call is tried again |
//! | [`model_stream`] | an answer under way |

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde_json::Value;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use self::answer::{AnswerDecoder, AnswerReader};
use self::anthropic::AnthropicDecoder;
use self::chat::ChatDecoder;
use self::continuation::ReplyBeginning;
use self::endpoint::ModelEndpoint;
use self::failures::FailureContext;
use self::reply_builder::ReplyBuilder;
use self::responses::ResponsesDecoder;
use self::retries::{CallRetries, retry_after};
use super::model::{ModelProtocol, ModelRequest};
use super::model_error::ModelError;
use crate::http_client::{AddressRule, BodyReader, HttpClient, HttpOptions};

pub use self::config::{ChatDialect, ModelKey, ProviderConfig, RetryPolicy};
pub use self::continuation::{CONTINUE_REQUEST, ContinuationWay};
pub use self::model_stream::ModelStream;

mod answer;
mod anthropic;
mod chat;
mod config;
mod content;
mod continuation;
mod endpoint;
mod failures;
#[cfg(any(fuzzing, test))]
pub(crate) mod fuzzing;
mod model_stream;
mod prefix_cut;
mod reply_builder;
mod responses;
mod retries;
#[cfg(test)]
mod tests;

/// As much of a refusal is read.
const MAX_ERROR_BODY: usize = 64 << 10;
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// One endpoint, with its connections. Shared by all sessions.
pub struct ModelProvider {
    config: ProviderConfig,
    endpoint: ModelEndpoint,
    client: HttpClient,
}

/// What an endpoint has refused in this call, and is spared in the next attempt.
#[derive(Clone, Copy, Default)]
struct Concessions {
    only_ask: bool,
    no_encrypted_reasoning: bool,
}

impl ModelProvider {
    /// Fails if URL, headers or certificates cannot be used; does not connect.
    pub fn new(config: ProviderConfig) -> Result<Self, String> {
        let endpoint = ModelEndpoint::new(&config)?;
        let options = HttpOptions {
            ca: config.ca.clone(),
            proxy: config.proxy.clone(),
            connect_timeout: config.connect_timeout,
            addresses: AddressRule::Anywhere,
        };
        let client = HttpClient::new(&endpoint.url, &options)?;
        Ok(Self {
            config,
            endpoint,
            client,
        })
    }

    pub fn config(&self) -> &ProviderConfig {
        &self.config
    }

    /// Asks the model, and returns with the first event of its answer. Dropping the future is as
    /// good as cancelling.
    pub async fn stream(
        &self,
        request: &ModelRequest,
        cancel: &CancellationToken,
    ) -> Result<ModelStream, ModelError> {
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(ModelError::Cancelled),
            stream = self.ask(request, cancel) => stream,
        }
    }

    async fn ask(
        &self,
        request: &ModelRequest,
        cancel: &CancellationToken,
    ) -> Result<ModelStream, ModelError> {
        let context = self.context(&request.model);
        let mut retries = CallRetries::new(&self.config.retry);
        let mut concessions = Concessions::default();
        loop {
            let beginning = ReplyBeginning::of(request, &self.config, concessions.only_ask);
            let body = self.body(request, beginning.as_ref(), concessions);
            let body = Bytes::from(body.to_string());
            let error = loop {
                let reader = self.reader(beginning.as_ref(), &context);
                match self.attempt(body.clone(), reader, &context, cancel).await {
                    Ok(stream) => return Ok(stream.after_retries(retries.made)),
                    Err(error) => match retries.pause_after(&error) {
                        Some(pause) => sleep(pause).await,
                        None => break error,
                    },
                }
            };
            concessions = concessions.after(&error, beginning.as_ref()).ok_or(error)?;
        }
    }

    /// One request, and its answer up to the first event.
    async fn attempt(
        &self,
        body: Bytes,
        reader: AnswerReader,
        context: &FailureContext,
        cancel: &CancellationToken,
    ) -> Result<ModelStream, ModelError> {
        let begun = Instant::now();
        let limit = self.config.first_byte_timeout;
        let sent = self.client.send(self.endpoint.request(body), limit).await;
        let response = sent.map_err(|failure| context.transport(&failure))?;
        let (head, body) = response.into_parts();
        let body = BodyReader::new(body, self.config.silence_timeout);
        let kind = head.headers.get(http::header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !head.status.is_success() {
            let wait = retry_after(&head.headers, SystemTime::now());
            let body = body.beginning(MAX_ERROR_BODY, ERROR_BODY_TIMEOUT).await;
            return Err(context.refused(head.status, wait, &body));
        }
        if kind.starts_with("application/json") || kind.starts_with("text/html") {
            let body = body.beginning(MAX_ERROR_BODY, ERROR_BODY_TIMEOUT).await;
            return Err(no_stream(kind, &body, context));
        }
        let left = limit.saturating_sub(begun.elapsed());
        let stream = ModelStream::new(body, reader, context.clone(), cancel.clone());
        stream.begun_within(left).await
    }

    fn body(
        &self,
        request: &ModelRequest,
        beginning: Option<&ReplyBeginning>,
        concessions: Concessions,
    ) -> Value {
        match self.config.protocol {
            ModelProtocol::Chat => chat::body(request, self.config.dialect, beginning),
            ModelProtocol::Anthropic => anthropic::body(request, beginning),
            ModelProtocol::Responses => {
                let plain = ["gpt-3", "gpt-4", "chatgpt-4"];
                let plain = plain.iter().any(|name| request.model.starts_with(name));
                let reasons = !plain || request.reasoning_effort.is_some();
                let encrypted = reasons && !concessions.no_encrypted_reasoning;
                responses::body(request, beginning, encrypted)
            }
        }
    }

    fn reader(&self, beginning: Option<&ReplyBeginning>, context: &FailureContext) -> AnswerReader {
        let protocol = self.config.protocol;
        let decoder: Box<dyn AnswerDecoder> = match protocol {
            ModelProtocol::Chat => Box::new(ChatDecoder::default()),
            ModelProtocol::Responses => Box::new(ResponsesDecoder::default()),
            ModelProtocol::Anthropic => Box::new(AnthropicDecoder::default()),
        };
        let max = self.config.max_reply_bytes;
        let mut reply = ReplyBuilder::new(protocol, max);
        if let Some(beginning) = beginning {
            reply = reply.continuing(beginning.message.clone(), beginning.cut());
        }
        AnswerReader::new(decoder, reply, context.clone(), 2 * max)
    }

    fn context(&self, model: &str) -> FailureContext {
        let headers = self.config.headers.iter().map(|(_, value)| value);
        let mut endpoint = self.endpoint.url.to_string();
        endpoint.truncate(endpoint.find('?').unwrap_or(endpoint.len()));
        FailureContext {
            model: model.to_owned(),
            endpoint,
            secrets: self.config.key.iter().chain(headers).cloned().collect(),
        }
    }
}

/// A response of success that is not a stream: an error, or the page of something else.
fn no_stream(kind: &str, body: &[u8], context: &FailureContext) -> ModelError {
    let error = serde_json::from_slice::<Value>(body).ok();
    let error = error.filter(|body| !body["error"].is_null());
    match error {
        Some(body) => context.reported(&body["error"]),
        None => ModelError::Malformed {
            detail: format!("{kind} in place of a stream"),
        },
    }
}

impl Concessions {
    /// More of them, if the endpoint may then accept the request.
    fn after(mut self, error: &ModelError, beginning: Option<&ReplyBeginning>) -> Option<Self> {
        let ModelError::BadRequest { detail } = error else {
            return None;
        };
        let detail = detail.to_lowercase();
        let prefilled = beginning.is_some_and(|it| it.way != ContinuationWay::Ask);
        if prefilled {
            // Some refuse to continue in words that are hard to foresee.
            self.only_ask = true;
        } else if detail.contains("encrypted") && !self.no_encrypted_reasoning {
            self.no_encrypted_reasoning = true;
        } else {
            return None;
        }
        Some(self)
    }
}
