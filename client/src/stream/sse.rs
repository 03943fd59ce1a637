//! The stream as server-sent events.

use baton_protocol::compose::one_line;
use baton_protocol::header;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde::Deserialize;
use tokio::time::{Duration, timeout};

use super::events::{Event, Events};
use super::{Item, MAX_MESSAGE, News, OPENING};
use crate::endpoint::{CONNECTION_ID, Endpoint};
use crate::error::Failure;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static(header::LAST_EVENT_ID);
const EVENT_STREAM: &str = "text/event-stream";
/// A silent stream has a comment every 15 seconds.
const SILENCE: Duration = Duration::from_secs(40);

pub struct Sse {
    body: Incoming,
    events: Events,
    first: Option<Item>,
}

#[derive(Deserialize)]
struct Reset {
    reason: String,
}

impl Sse {
    pub async fn open(
        endpoint: &Endpoint,
        connection: &HeaderValue,
        cursor: &str,
    ) -> Result<Self, Failure> {
        let cursor = HeaderValue::from_str(cursor).map_err(Failure::away)?;
        let headers = HeaderMap::from_iter([
            (ACCEPT, HeaderValue::from_static(EVENT_STREAM)),
            (CONNECTION_ID, connection.clone()),
            (LAST_EVENT_ID, cursor),
        ]);
        let response = endpoint.get(&headers).await?;
        let kind = response.headers().get(CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.starts_with(EVENT_STREAM) {
            return Err(Failure::away(format!(
                "a stream was asked for, {kind:?} came"
            )));
        }
        let mut stream = Self {
            body: response.into_body(),
            events: Events::default(),
            first: None,
        };
        // It begins with its cursor; if not even that comes, something keeps it back.
        let first = timeout(OPENING, stream.next()).await;
        let first = first.map_err(|_| Failure::away("the stream was opened and stays silent"))?;
        stream.first = Some(first?);
        Ok(stream)
    }

    pub async fn next(&mut self) -> Result<Item, Failure> {
        if let Some(first) = self.first.take() {
            return Ok(first);
        }
        loop {
            if let Some(event) = self.events.next() {
                return Ok(item(event));
            }
            if self.events.unfinished() > MAX_MESSAGE {
                return Err(Failure::away("a message was too large"));
            }
            let bytes = timeout(SILENCE, self.piece()).await;
            let bytes = bytes.map_err(|_| Failure::away("the stream fell silent"))??;
            self.events.push(&bytes);
        }
    }

    async fn piece(&mut self) -> Result<Bytes, Failure> {
        let frame = self.body.frame().await;
        let frame = frame.ok_or_else(|| Failure::away("the stream ended"))?;
        let frame = frame.map_err(|error| Failure::away(format!("the stream broke: {error}")))?;
        Ok(frame.into_data().unwrap_or_default())
    }
}

fn item(event: Event) -> Item {
    let news = event.data.map(|data| match event.name.as_str() {
        "reset" => {
            let reset = serde_json::from_slice::<Reset>(&data);
            News::Reset(reset.map_or_else(|_| "no reason given".into(), |reset| reset.reason))
        }
        _ => News::Message(one_line(data)),
    });
    Item {
        cursor: event.id,
        news,
    }
}
