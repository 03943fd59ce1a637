//! The stream as server-sent events.

use baton_protocol::compose::one_line;
use baton_protocol::header;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde::Deserialize;
use tokio::time::{Duration, timeout};

use super::events::{SseEvent, SseParser};
use super::{FIRST_EVENT_TIMEOUT, MAX_MESSAGE, StreamEvent, StreamItem};
use crate::endpoint::{CONNECTION_ID, Endpoint};
use crate::error::RequestFailure;

const SESSION_ID: HeaderName = HeaderName::from_static(header::SESSION_ID);
const LAST_EVENT_ID: HeaderName = HeaderName::from_static(header::LAST_EVENT_ID);
const EVENT_STREAM: &str = "text/event-stream";
/// A silent stream has a comment every 15 seconds.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(40);

/// Reads a stream of events, or the body of a one-shot request.
pub struct SseStream {
    body: Incoming,
    events: SseParser,
    first: Option<StreamItem>,
}

#[derive(Deserialize)]
struct ResetNotice {
    reason: String,
}

impl SseStream {
    pub async fn open(
        endpoint: &Endpoint,
        connection: &HeaderValue,
        cursor: &str,
    ) -> Result<Self, RequestFailure> {
        let cursor = HeaderValue::from_str(cursor).map_err(RequestFailure::away)?;
        let headers = HeaderMap::from_iter([
            (ACCEPT, HeaderValue::from_static(EVENT_STREAM)),
            (CONNECTION_ID, connection.clone()),
            (LAST_EVENT_ID, cursor),
        ]);
        let mut stream = Self::of(endpoint.get(&headers).await?)?;
        // It begins with its cursor; if not even that comes, something keeps it back.
        let first = timeout(FIRST_EVENT_TIMEOUT, stream.next()).await;
        let first =
            first.map_err(|_| RequestFailure::away("the stream was opened and stays silent"))?;
        stream.first = Some(first?);
        Ok(stream)
    }

    /// The stream of one session; from where the connection joins it, if there is no cursor.
    pub async fn of_session(
        endpoint: &Endpoint,
        connection: &HeaderValue,
        session: &str,
        cursor: Option<&str>,
    ) -> Result<Self, RequestFailure> {
        let value = |text| {
            let value = HeaderValue::from_str(text);
            value.map_err(|_| RequestFailure::invalid("not an id that a session can have"))
        };
        let mut headers = HeaderMap::from_iter([
            (ACCEPT, HeaderValue::from_static(EVENT_STREAM)),
            (CONNECTION_ID, connection.clone()),
            (SESSION_ID, value(session)?),
        ]);
        if let Some(cursor) = cursor {
            headers.insert(LAST_EVENT_ID, value(cursor)?);
        }
        Self::of(endpoint.get(&headers).await?)
    }

    /// The answer to a request, after all that comes before it.
    pub async fn one_shot(
        endpoint: &Endpoint,
        connection: &HeaderValue,
        message: Bytes,
    ) -> Result<Self, RequestFailure> {
        Self::of(endpoint.one_shot(connection, message).await?)
    }

    fn of(response: Response<Incoming>) -> Result<Self, RequestFailure> {
        let kind = response.headers().get(CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.starts_with(EVENT_STREAM) {
            return Err(RequestFailure::away(format!(
                "a stream was asked for, {kind:?} came"
            )));
        }
        Ok(Self {
            body: response.into_body(),
            events: SseParser::default(),
            first: None,
        })
    }

    pub async fn next(&mut self) -> Result<StreamItem, RequestFailure> {
        if let Some(first) = self.first.take() {
            return Ok(first);
        }
        loop {
            if let Some(event) = self.events.next() {
                return Ok(item(event));
            }
            if self.events.unfinished() > MAX_MESSAGE {
                return Err(RequestFailure::away("a message was too large"));
            }
            let bytes = timeout(SILENCE_TIMEOUT, self.piece()).await;
            let bytes = bytes.map_err(|_| RequestFailure::away("the stream fell silent"))??;
            self.events.push(&bytes);
        }
    }

    async fn piece(&mut self) -> Result<Bytes, RequestFailure> {
        let frame = self.body.frame().await;
        let frame = frame.ok_or_else(|| RequestFailure::away("the stream ended"))?;
        let frame =
            frame.map_err(|error| RequestFailure::away(format!("the stream broke: {error}")))?;
        Ok(frame.into_data().unwrap_or_default())
    }
}

fn item(event: SseEvent) -> StreamItem {
    let news = event.data.map(|data| match event.name.as_str() {
        "reset" => {
            let reset = serde_json::from_slice::<ResetNotice>(&data);
            StreamEvent::Reset(
                reset.map_or_else(|_| "no reason given".into(), |reset| reset.reason),
            )
        }
        _ => StreamEvent::Message(one_line(data)),
    });
    StreamItem {
        cursor: event.id,
        news,
    }
}
