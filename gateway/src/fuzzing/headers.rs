//! Requests from anybody: a line of the input is a header. An accepted request has a known host and
//! a known origin, and of a header that was sent twice none is chosen.

use std::net::{IpAddr, Ipv4Addr};

use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, header};
use baton_session::id::SessionId;
use baton_session::token::carriers;

use crate::http::headers::{self, CONNECTION_ID, LAST_EVENT_ID, SESSION_ID};
use crate::http::origins::AllowedOrigins;
use crate::net::forwarded;
use crate::net::peer::ClientPeer;
use crate::net::proxies::TrustedProxies;
use crate::{access, auth};

pub fn headers(data: &[u8]) {
    let headers = read(data);
    check_admission(&headers);
    check_proxies(&headers);
    let _ = (headers::accepts(&headers), headers::is_json(&headers));
    for name in [CONNECTION_ID, SESSION_ID, LAST_EVENT_ID] {
        if let Ok(Some(value)) = headers::single(&headers, &name) {
            assert_eq!(one(&headers, &name), Some(value));
        }
    }
    let _ = auth::credential(&headers);
    let session = SessionId::parse("07a-abcdefghijklmnopqrstuv").expect("an id");
    let _ = carriers::cookie_value(headers::cookies(&headers), &session);
    let _ = access::presented_token(&headers, None, Some(session.as_str()));
}

fn check_admission(headers: &HeaderMap) {
    let origins = AllowedOrigins {
        hosts: vec!["baton.example".into()],
        origins: vec!["https://app.example".into()],
    };
    let mut request = Request::new(());
    *request.headers_mut() = headers.clone();
    if origins.admit(&request, &[]).is_err() {
        return;
    }
    let host = one(headers, &header::HOST).expect("a name");
    let known = ["localhost", "127.0.0.1", "[::1]", "baton.example"];
    let by_a_known_name = known.iter().any(|name| {
        let rest = host.get(name.len()..).unwrap_or("x");
        let start = host.get(..name.len()).unwrap_or_default();
        start.eq_ignore_ascii_case(name) && (rest.is_empty() || rest.starts_with(':'))
    });
    assert!(by_a_known_name, "{host:?}");
    if headers.contains_key(header::ORIGIN) {
        let origin = one(headers, &header::ORIGIN).expect("one page");
        assert!(origin.starts_with("http"), "{origin:?}");
    }
}

fn check_proxies(headers: &HeaderMap) {
    let _ = (forwarded::standard(headers), forwarded::customary(headers));
    let nearest = ClientPeer {
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        secure: true,
    };
    // An unlisted proxy is not trusted, whatever it says.
    let stranger = TrustedProxies::default().arrival(nearest, headers);
    assert!(stranger.is_ok_and(|arrival| arrival.peer == nearest && arrival.hosts.is_empty()));
    let proxies =
        TrustedProxies::parse(&["127.0.0.0/8".into(), "10.0.0.0/8".into()]).expect("networks");
    let _ = proxies.arrival(nearest, headers);
}

fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

fn read(data: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in data.split(|byte| *byte == b'\n').take(64) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            continue;
        };
        let name = HeaderName::from_bytes(&line[..colon]);
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    headers
}
