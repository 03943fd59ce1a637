//! Names and values of a request's headers.

use axum::http::{HeaderMap, HeaderName, header};
use baton_protocol::header as names;
use tower_http::timeout::TimeoutError;

use crate::error::GatewayError;

pub const CONNECTION_ID: HeaderName = HeaderName::from_static(names::CONNECTION_ID);
pub const SESSION_ID: HeaderName = HeaderName::from_static(names::SESSION_ID);
pub const GATEWAY: HeaderName = HeaderName::from_static(names::GATEWAY);
pub const RESUME: HeaderName = HeaderName::from_static(names::RESUME);
pub const LAST_EVENT_ID: HeaderName = HeaderName::from_static(names::LAST_EVENT_ID);
pub const MCP_SESSION_ID: HeaderName = HeaderName::from_static(names::MCP_SESSION_ID);
pub const MCP_PROTOCOL_VERSION: HeaderName = HeaderName::from_static(names::MCP_PROTOCOL_VERSION);
pub const MCP_METHOD: HeaderName = HeaderName::from_static(names::MCP_METHOD);
pub const MCP_NAME: HeaderName = HeaderName::from_static(names::MCP_NAME);

/// The one value of a header; two are refused rather than chosen from.
pub fn single<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a str>, GatewayError> {
    let mut values = headers.get_all(name).iter();
    let Some(first) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(GatewayError::Header(
            "an Acp or Mcp header or Last-Event-ID was sent twice",
        ));
    }
    let text = first
        .to_str()
        .map_err(|_| GatewayError::Header("a header has characters beyond visible ASCII"))?;
    Ok(Some(text))
}

pub fn wants_websocket(headers: &HeaderMap) -> bool {
    let upgrade = headers
        .get(header::UPGRADE)
        .and_then(|value| value.to_str().ok());
    upgrade.is_some_and(|value| value.eq_ignore_ascii_case("websocket"))
}

/// The values of all `Cookie` headers.
pub fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let cookies = headers.get_all(header::COOKIE).iter();
    cookies.filter_map(|cookie| cookie.to_str().ok())
}

pub const JSON: &str = "application/json";

pub fn is_json(headers: &HeaderMap) -> bool {
    is_type(headers, JSON)
}

/// A page from elsewhere can send other types without asking.
pub fn require(headers: &HeaderMap, expected: &'static str) -> Result<(), GatewayError> {
    if is_type(headers, expected) {
        Ok(())
    } else {
        Err(GatewayError::ContentType(expected))
    }
}

/// One that names two kinds may be read as either by whoever stands in between.
pub fn is_type(headers: &HeaderMap, expected: &str) -> bool {
    let mut values = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return false;
    };
    let essence = value
        .to_str()
        .ok()
        .and_then(|value| value.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case(expected))
}

/// A body broke off because nothing more of it came in time, rather than for any other reason.
pub fn too_slow(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    causes.any(|cause| cause.is::<TimeoutError>())
}

/// The content types that a client accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptedTypes {
    pub json: bool,
    /// Named, not merely covered by a wildcard.
    pub event_stream: bool,
    pub anything: bool,
}

pub fn accepts(headers: &HeaderMap) -> AcceptedTypes {
    let values = headers.get_all(header::ACCEPT);
    let mut accepts = AcceptedTypes {
        json: false,
        event_stream: false,
        anything: values.iter().next().is_none(),
    };
    let lines = values.iter().filter_map(|value| value.to_str().ok());
    for range in lines.flat_map(|line| line.split(',')) {
        let essence = range
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase();
        match essence.as_str() {
            "application/json" | "application/*" => accepts.json = true,
            "text/event-stream" => accepts.event_stream = true,
            "text/*" => accepts.anything = true,
            "*/*" => accepts.anything = true,
            _ => {}
        }
    }
    accepts
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::body::{Body, Bytes, to_bytes};
    use axum::http::HeaderValue;
    use futures_util::stream;
    use tower_http::timeout::TimeoutBody;

    use super::*;

    fn headers(name: HeaderName, values: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(&name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn a_header_is_there_once_or_not_at_all() {
        let read = |values: &[&'static str]| {
            let headers = headers(SESSION_ID, values);
            single(&headers, &SESSION_ID).map(|value| value.map(str::to_owned))
        };
        assert!(read(&[]).is_ok_and(|value| value.is_none()));
        assert!(read(&["one"]).is_ok_and(|value| value.as_deref() == Some("one")));
        assert!(read(&["one", "one"]).is_err());
    }

    #[test]
    fn what_a_request_is_stands_in_its_headers() {
        let upgrade = |values: &[&'static str]| wants_websocket(&headers(header::UPGRADE, values));
        assert!(upgrade(&["websocket"]) && upgrade(&["WebSocket"]));
        assert!(!upgrade(&[]) && !upgrade(&["h2c"]));
        let json = |values: &[&'static str]| is_json(&headers(header::CONTENT_TYPE, values));
        assert!(json(&["application/json"]) && json(&["Application/JSON ; charset=utf-8"]));
        assert!(!json(&[]) && !json(&["text/plain"]) && !json(&["application/jsonl"]));
        assert!(!json(&["application/json", "application/json"]));
        let presented = headers(header::COOKIE, &["a=1; b=2", "c=3"]);
        assert!(cookies(&presented).eq(["a=1; b=2", "c=3"]));
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_body_that_stopped_coming_was_too_slow() {
        let silent = Body::from_stream(stream::pending::<std::io::Result<Bytes>>());
        let patient = Body::new(TimeoutBody::new(Duration::from_secs(1), silent));
        assert!(too_slow(&to_bytes(patient, 10).await.unwrap_err()));
        let lost = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        let broken = Body::from_stream(stream::iter([Err::<Bytes, _>(lost)]));
        assert!(!too_slow(&to_bytes(broken, 10).await.unwrap_err()));
    }

    #[test]
    fn only_a_named_event_stream_asks_for_one() {
        let read = |value: &'static str| accepts(&headers(header::ACCEPT, &[value]));
        assert!(!read("*/*").event_stream);
        assert!(read("text/event-stream").event_stream);
        assert!(read("application/json, Text/Event-Stream;q=0.9").event_stream);
        assert!(accepts(&HeaderMap::new()).anything);
        assert!(!read("text/html").anything && !read("text/html").json);
        assert!(read("application/json").json && read("application/*").json);
        assert!(read("text/*").anything && read("*/*").anything);
    }
}
