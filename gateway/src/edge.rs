//! What a request must look like, and whose it is.

use axum::http::{HeaderMap, HeaderName, header};
use baton_session::token::{Connection, MAX_TOKEN_BYTES};

use crate::app::App;
use crate::auth::Caller;
use crate::error::Reject;

pub mod verified;

pub const CONNECTION_ID: HeaderName = HeaderName::from_static("acp-connection-id");
pub const SESSION_ID: HeaderName = HeaderName::from_static("acp-session-id");
pub const RESUME: HeaderName = HeaderName::from_static("acp-resume");
pub const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// A page from elsewhere must not drive a gateway that its user can reach. Only browsers send this
/// header, and until callers authenticate only pages from this machine are let in.
pub fn check_origin(headers: &HeaderMap) -> Result<(), Reject> {
    let Some(origin) = headers.get(header::ORIGIN) else {
        return Ok(());
    };
    let host = origin
        .to_str()
        .ok()
        .and_then(|origin| origin.split_once("://"))
        .map(|(_, host)| host);
    let name = host.map(|host| {
        host.rsplit_once(':')
            .filter(|(_, port)| port.parse::<u16>().is_ok())
            .map_or(host, |(name, _)| name)
    });
    match name {
        Some("localhost" | "127.0.0.1" | "[::1]") => Ok(()),
        _ => Err(Reject::Origin),
    }
}

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
    let connection = match app.connections.get(token) {
        Some(connection) => connection,
        None => {
            let connection = app.keys.verify_connection(token).map_err(|why| {
                tracing::debug!(%why, "refused a connection token");
                Reject::UnknownConnection
            })?;
            let expires = connection.expires;
            app.connections.put(token, connection.clone(), expires);
            connection
        }
    };
    if *connection.principal != *caller.principal {
        tracing::debug!("refused the connection token of somebody else");
        return Err(Reject::UnknownConnection);
    }
    let named = Some((&connection.id, connection.issued));
    if app.revoked.is_revoked(&connection.principal, named, None) {
        tracing::debug!("refused a connection token that was revoked");
        return Err(Reject::UnknownConnection);
    }
    Ok(connection)
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

    #[test]
    fn only_pages_of_this_machine_are_let_in() {
        let allowed = |origin: &'static str| {
            let headers =
                HeaderMap::from_iter([(header::ORIGIN, HeaderValue::from_static(origin))]);
            check_origin(&headers).is_ok()
        };
        assert!(check_origin(&HeaderMap::new()).is_ok());
        for origin in [
            "http://localhost:3000",
            "https://127.0.0.1",
            "http://[::1]:8080",
            "http://[::1]",
        ] {
            assert!(allowed(origin), "{origin}");
        }
        for origin in [
            "null",
            "https://evil.example",
            "http://localhost.evil.example",
            "http://127.0.0.1.evil:80",
            "",
        ] {
            assert!(!allowed(origin), "{origin}");
        }
    }
}
