//! What a request must look like, and whose it is.

use axum::http::{HeaderMap, HeaderName, header};
use baton_session::token::{Connection, MAX_TOKEN_BYTES};
use tower_http::timeout::TimeoutError;

use crate::app::App;
use crate::auth::Caller;
use crate::error::Reject;

pub mod forwarded;
pub mod hardening;
pub mod origins;
pub mod peer;
pub mod proxies;
pub mod verified;

pub const CONNECTION_ID: HeaderName = HeaderName::from_static("acp-connection-id");
pub const SESSION_ID: HeaderName = HeaderName::from_static("acp-session-id");
pub const RESUME: HeaderName = HeaderName::from_static("acp-resume");
pub const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The one value of a header; two are refused rather than chosen from.
pub fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Reject> {
    let mut values = headers.get_all(name).iter();
    let Some(first) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(Reject::Header(
            "an Acp header or Last-Event-ID was sent twice",
        ));
    }
    let text = first
        .to_str()
        .map_err(|_| Reject::Header("a header has characters beyond visible ASCII"))?;
    Ok(Some(text))
}

/// The connection a request belongs to, which must be its caller's.
pub fn connection(headers: &HeaderMap, app: &App, caller: &Caller) -> Result<Connection, Reject> {
    let token = single(headers, &CONNECTION_ID)?.ok_or(Reject::Header(
        "the Acp-Connection-Id header is missing: initialize answers with it",
    ))?;
    verify(token, app, caller)
}

/// One answer for a token that is forged, expired, revoked, or somebody else's.
pub fn verify(token: &str, app: &App, caller: &Caller) -> Result<Connection, Reject> {
    if token.len() > MAX_TOKEN_BYTES {
        return Err(Reject::Header("Acp-Connection-Id is longer than any token"));
    }
    // What was verified with other keys counts no more.
    let version = app.mint.keys.version();
    let connection = match app.connections.get(token, version) {
        Some(connection) => connection,
        None => {
            let connection = app
                .mint
                .keys
                .ring()
                .verify_connection(token)
                .map_err(|why| {
                    tracing::debug!(%why, "refused a connection token");
                    Reject::UnknownConnection
                })?;
            let expires = connection.expires;
            app.connections
                .put(token, connection.clone(), expires, version);
            connection
        }
    };
    if *connection.principal != *caller.principal {
        tracing::debug!("refused the connection token of somebody else");
        return Err(Reject::UnknownConnection);
    }
    let named = Some((&connection.id, connection.issued));
    if app
        .mint
        .revoked
        .is_revoked(&connection.principal, named, None)
    {
        tracing::debug!("refused a connection token that was revoked");
        return Err(Reject::UnknownConnection);
    }
    Ok(connection)
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

pub fn is_json(headers: &HeaderMap) -> bool {
    let value = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let essence = value
        .and_then(|value| value.split(';').next())
        .unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("application/json")
}

/// A body broke off because nothing more of it came in time, rather than for any other reason.
pub fn too_slow(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    causes.any(|cause| cause.is::<TimeoutError>())
}

/// What a client is ready to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepts {
    pub json: bool,
    /// Named, not merely covered by a wildcard.
    pub event_stream: bool,
    pub anything: bool,
}

pub fn accepts(headers: &HeaderMap) -> Accepts {
    let values = headers.get_all(header::ACCEPT);
    let mut accepts = Accepts {
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
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn only_a_named_event_stream_asks_for_one() {
        let read = |value: &'static str| {
            let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(value))]);
            accepts(&headers)
        };
        assert!(!read("*/*").event_stream);
        assert!(read("text/event-stream").event_stream);
        assert!(read("application/json, Text/Event-Stream;q=0.9").event_stream);
        assert!(accepts(&HeaderMap::new()).anything);
        assert!(!read("text/html").anything && !read("text/html").json);
    }
}
