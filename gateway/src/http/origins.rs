//! Under which names a gateway may be addressed, and by pages from where. A page that its user
//! visits must not drive a gateway which that user can reach: neither from its own origin, nor by a
//! name that it made to point here.

use std::net::{Ipv4Addr, Ipv6Addr};

use axum::http::uri::{Authority, Uri};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};

use crate::error::GatewayError;

/// The names of the machine itself.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];
/// Headers that a page may send.
const HEADERS: &str = "authorization, content-type, accept, acp-connection-id, acp-session-id, \
    acp-session-token, dpop, last-event-id, idempotency-key, mcp-session-id, mcp-protocol-version, \
    mcp-method, mcp-name, traceparent, tracestate, baggage";
/// Headers that a page may read.
const EXPOSED: &str = "acp-connection-id, acp-session-token, baton-gateway, mcp-session-id, \
    retry-after, www-authenticate";
/// Where a browser says the page is from that makes a request. No page can change it.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Loopback is always allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedOrigins {
    /// Host names without ports; `*` allows any.
    pub hosts: Vec<String>,
    /// As browsers write them: scheme, host, port if it is not the usual one.
    pub origins: Vec<String>,
}

impl AllowedOrigins {
    /// `forwarded`: the names by which trusted proxies were asked. They must be right as well.
    pub fn admit<B>(&self, request: &Request<B>, forwarded: &[String]) -> Result<(), GatewayError> {
        self.check_host(request, forwarded, |name| self.knows_host(name))?;
        self.check_origin(request.headers())
    }

    /// For probes, metrics and public keys. Those who watch a gateway ask for it by its address,
    /// and no page can: the name that it made to point here is a name, and no address.
    pub fn admit_probe<B>(
        &self,
        request: &Request<B>,
        forwarded: &[String],
    ) -> Result<(), GatewayError> {
        self.check_host(request, forwarded, |name| {
            is_address(name) || self.knows_host(name)
        })?;
        self.check_origin(request.headers())
    }

    /// Always, since a page that made its own name point here needs no other origin.
    fn check_host<B>(
        &self,
        request: &Request<B>,
        forwarded: &[String],
        knows: impl Fn(&str) -> bool,
    ) -> Result<(), GatewayError> {
        let known = |name: &String| {
            let authority = name.parse::<Authority>();
            authority.is_ok_and(|authority| host(&authority).is_some_and(&knows))
        };
        if !forwarded.iter().all(known) {
            return Err(GatewayError::Host);
        }
        // HTTP/2 has it in the request line.
        let named = request.uri().authority().cloned();
        let mut headers = request.headers().get_all(header::HOST).iter();
        let header = headers.next().map(|host| {
            let host = host.to_str().ok()?;
            host.parse::<Authority>().ok()
        });
        if headers.next().is_some() {
            return Err(GatewayError::Host);
        }
        let authorities = [named.map(Some), header];
        let mut given = authorities.iter().flatten().peekable();
        if given.peek().is_none() {
            return Err(GatewayError::Host);
        }
        let allowed = |authority: &Option<Authority>| {
            let name = authority.as_ref().and_then(host);
            name.is_some_and(&knows)
        };
        if given.all(allowed) {
            Ok(())
        } else {
            Err(GatewayError::Host)
        }
    }

    fn knows_host(&self, name: &str) -> bool {
        let same = |known: &&str| known.eq_ignore_ascii_case(name);
        let mut listed = self.hosts.iter().map(String::as_str);
        LOOPBACK.iter().any(same) || listed.any(|known| known == "*" || same(&known))
    }

    /// Only browsers send it.
    fn check_origin(&self, headers: &HeaderMap) -> Result<(), GatewayError> {
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let Some(origin) = origins.next() else {
            return Ok(());
        };
        let known = origin
            .to_str()
            .is_ok_and(|origin| self.knows_origin(origin));
        if known && origins.next().is_none() {
            Ok(())
        } else {
            Err(GatewayError::Origin)
        }
    }

    fn knows_origin(&self, origin: &str) -> bool {
        self.lists(origin) || loopback(origin).is_some()
    }

    fn lists(&self, origin: &str) -> bool {
        self.origins.iter().any(|known| known == origin)
    }

    /// Pages of this machine may come from anybody who serves some here, and browsers send cookies
    /// to every port of a host. So of those only the gateway's own may use them, and listed ones.
    fn may_use_cookies(&self, origin: &str, own: Option<&Authority>) -> bool {
        let is_own = || loopback(origin).is_some_and(|page| own == Some(&page));
        self.lists(origin) || is_own()
    }

    /// Whether a browser says that a page which may has made the request. Without it, a cookie
    /// proves nothing: any page can have it sent along.
    pub fn is_vouched_for(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let mut sites = headers.get_all(FETCH_SITE).iter();
        let site = sites.next().map(|site| site.as_bytes());
        if sites.next().is_some() {
            return false;
        }
        let Some(origin) = headers.get(header::ORIGIN) else {
            // Of a page that reads from where it came from itself no origin is sent.
            return site == Some(b"same-origin");
        };
        let elsewhere = matches!(site, Some(b"cross-site" | b"none"));
        let own = addressed_as(uri, headers);
        let may = |origin: &str| self.may_use_cookies(origin, own.as_ref());
        self.check_origin(headers).is_ok() && !elsewhere && origin.to_str().is_ok_and(may)
    }

    /// A browser's preflight before a request that a page may not make by itself.
    pub fn preflight(&self, headers: &HeaderMap) -> Option<Response<axum::body::Body>> {
        headers.get(header::ACCESS_CONTROL_REQUEST_METHOD)?;
        let mut response = Response::new(axum::body::Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        let answer = response.headers_mut();
        let put = |answer: &mut HeaderMap, name: HeaderName, value: &'static str| {
            answer.insert(name, HeaderValue::from_static(value));
        };
        put(
            answer,
            header::ACCESS_CONTROL_ALLOW_METHODS,
            "GET, POST, DELETE",
        );
        put(answer, header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS);
        put(answer, header::ACCESS_CONTROL_MAX_AGE, "600");
        Some(response)
    }

    /// For an origin that was admitted: exactly that one may read the answer, and with cookies only
    /// if they count.
    pub fn stamp(&self, page: Option<&RequestingPage>, answer: &mut HeaderMap) {
        let Some(page) = page else { return };
        answer.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, page.origin.clone());
        answer.append(header::VARY, HeaderValue::from_static("Origin"));
        let exposed = HeaderValue::from_static(EXPOSED);
        answer.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        if page.uses_cookies {
            let credentials = HeaderValue::from_static("true");
            answer.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, credentials);
        }
    }

    /// The page that makes the request, if a browser names one.
    pub fn page<B>(&self, request: &Request<B>) -> Option<RequestingPage> {
        let origin = request.headers().get(header::ORIGIN)?.clone();
        let own = addressed_as(request.uri(), request.headers());
        let may = |origin: &str| self.may_use_cookies(origin, own.as_ref());
        let uses_cookies = origin.to_str().is_ok_and(may);
        Some(RequestingPage {
            origin,
            uses_cookies,
        })
    }
}

/// A page that may use a gateway.
pub struct RequestingPage {
    origin: HeaderValue,
    uses_cookies: bool,
}

/// The authority of a page of this machine.
fn loopback(origin: &str) -> Option<Authority> {
    let authority = origin
        .strip_prefix("http://")
        .or_else(|| origin.strip_prefix("https://"))?;
    let authority = authority.parse::<Authority>().ok()?;
    let is_loopback = host(&authority).is_some_and(|name| LOOPBACK.contains(&name));
    is_loopback.then_some(authority)
}

/// By which name and port the gateway was asked; HTTP/2 has it in the request line.
fn addressed_as(uri: &Uri, headers: &HeaderMap) -> Option<Authority> {
    let header = || headers.get(header::HOST)?.to_str().ok()?.parse().ok();
    uri.authority().cloned().or_else(header)
}

fn is_address(name: &str) -> bool {
    let inner = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    match inner {
        Some(inner) => inner.parse::<Ipv6Addr>().is_ok(),
        None => name.parse::<Ipv4Addr>().is_ok(),
    }
}

/// Its name, if there is nothing but a port beside it. The parser is not that strict.
fn host(authority: &Authority) -> Option<&str> {
    let rest = authority.as_str().strip_prefix(authority.host())?;
    let port = |port: &str| port.parse::<u16>().is_ok();
    let only = rest.is_empty() || rest.strip_prefix(':').is_some_and(port);
    only.then(|| authority.host())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(origins: &AllowedOrigins, uri: &str, headers: &[(&str, &str)]) -> bool {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        origins.admit(&request.body(()).unwrap(), &[]).is_ok()
    }

    #[test]
    fn only_names_of_this_machine_and_listed_ones_are_answered_to() {
        let plain = AllowedOrigins::default();
        for host in [
            "localhost",
            "localhost:8080",
            "127.0.0.1:80",
            "[::1]:8080",
            "LocalHost",
        ] {
            assert!(admitted(&plain, "/acp", &[("host", host)]), "{host}");
        }
        let strange = [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "evil.example:80",
            "0.0.0.0",
            "",
            "localhost@evil.example",
            "evil.example@localhost",
        ];
        for host in strange {
            assert!(!admitted(&plain, "/acp", &[("host", host)]), "{host}");
        }
        assert!(!admitted(&plain, "/acp", &[]), "no name at all");
        assert!(!admitted(
            &plain,
            "/acp",
            &[("host", "localhost"), ("host", "localhost")]
        ));
        // As HTTP/2 has it; both must be right.
        assert!(admitted(&plain, "http://localhost:1/acp", &[]));
        assert!(!admitted(
            &plain,
            "http://evil.example/acp",
            &[("host", "localhost")]
        ));
        let listed = AllowedOrigins {
            hosts: vec!["baton.example".into()],
            origins: Vec::new(),
        };
        assert!(admitted(&listed, "/acp", &[("host", "baton.example:443")]));
        assert!(!admitted(&listed, "/acp", &[("host", "other.example")]));
        let any = AllowedOrigins {
            hosts: vec!["*".into()],
            origins: Vec::new(),
        };
        assert!(admitted(&any, "/acp", &[("host", "10.1.2.3:8080")]));
    }

    #[test]
    fn rows_18_and_19_a_cookie_counts_only_from_pages_that_may() {
        let listed = AllowedOrigins {
            hosts: Vec::new(),
            origins: vec!["https://app.example".into()],
        };
        let counts = |named: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in named {
                headers.append(*name, HeaderValue::from_static(value));
            }
            listed.is_vouched_for(&Uri::from_static("/acp"), &headers)
        };
        let (origin, site) = ("origin", "sec-fetch-site");
        let page = (origin, "https://app.example");
        assert!(counts(&[page]));
        assert!(counts(&[page, (site, "same-site")]));
        assert!(counts(&[page, (site, "same-origin")]));
        assert!(counts(&[(site, "same-origin")]));
        for named in [
            &[][..],
            &[(site, "same-site")],
            &[(site, "cross-site")],
            &[(site, "none")],
            &[(site, "Same-Origin")],
            &[(site, "same-origin"), (site, "same-origin")],
            &[page, (site, "cross-site")],
            &[page, page],
            &[(origin, "https://evil.example")],
            &[(origin, "https://evil.example"), (site, "same-origin")],
            &[(origin, "null"), (site, "same-origin")],
        ] {
            assert!(!counts(named), "{named:?}");
        }
        // Of pages of this machine only the gateway's own: cookies go to every port.
        let host = ("host", "localhost:8080");
        let port = |origin_value: &'static str| [host, (origin, origin_value)];
        assert!(counts(&port("http://localhost:8080")));
        for other in [
            "http://localhost:3000",
            "http://127.0.0.1:8080",
            "http://localhost",
        ] {
            assert!(!counts(&port(other)), "{other}");
        }
    }

    #[test]
    fn a_gateway_is_probed_by_its_address_or_by_its_names() {
        let listed = AllowedOrigins {
            hosts: vec!["baton.example".into()],
            origins: Vec::new(),
        };
        let answers = |host: &str| {
            let request = Request::builder().header(header::HOST, host);
            let request = request.body(()).unwrap();
            listed.admit_probe(&request, &[]).is_ok()
        };
        for host in [
            "10.1.2.3:8080",
            "[fd00::1]:8080",
            "localhost",
            "baton.example",
        ] {
            assert!(answers(host), "{host}");
        }
        for host in [
            "evil.example",
            "10.1.2.3.evil.example",
            "1.2.3",
            "[::1].x",
            "0x7f.1",
        ] {
            assert!(!answers(host), "{host}");
        }
    }

    #[test]
    fn only_pages_of_this_machine_and_listed_ones_are_let_in() {
        let listed = AllowedOrigins {
            hosts: Vec::new(),
            origins: vec!["https://app.example".into()],
        };
        let admitted = |origin: &str| {
            admitted(
                &listed,
                "/acp",
                &[("host", "localhost"), ("origin", origin)],
            )
        };
        for origin in [
            "http://localhost:3000",
            "https://127.0.0.1",
            "http://[::1]:8080",
            "https://app.example",
        ] {
            assert!(admitted(origin), "{origin}");
        }
        for origin in [
            "null",
            "https://evil.example",
            "http://app.example",
            "https://app.example:444",
            "https://app.example.evil",
            "http://localhost.evil.example",
            "http://127.0.0.1.evil:80",
            "file://localhost",
            "",
        ] {
            assert!(!admitted(origin), "{origin}");
        }
    }

    #[test]
    fn a_name_is_a_name_and_a_port_and_nothing_else() {
        let origins = AllowedOrigins::default();
        let answers = |host: &str| {
            let request = Request::builder().header(header::HOST, host);
            origins.admit(&request.body(()).unwrap(), &[]).is_ok()
        };
        assert!(answers("localhost") && answers("[::1]:80") && answers("127.0.0.1:8080"));
        for host in [
            "[::1];0.1",
            "[::1]x",
            "user@localhost",
            "localhost:",
            "localhost:99999",
        ] {
            assert!(!answers(host), "{host}");
        }
    }

    #[test]
    fn a_page_is_told_what_it_may_send_and_read() {
        let origins = AllowedOrigins::default();
        let mut asks = HeaderMap::new();
        assert!(origins.preflight(&asks).is_none());
        let method = HeaderValue::from_static("POST");
        asks.insert(header::ACCESS_CONTROL_REQUEST_METHOD, method);
        let answer = origins.preflight(&asks).unwrap();
        assert_eq!(answer.status(), StatusCode::NO_CONTENT);
        let sendable = answer.headers()[header::ACCESS_CONTROL_ALLOW_HEADERS].to_str();
        assert!(sendable.unwrap().contains("acp-connection-id"));

        let mut answer = HeaderMap::new();
        origins.stamp(None, &mut answer);
        assert!(answer.is_empty());
        let from = |origin: &str| {
            let request = Request::builder()
                .header(header::HOST, "localhost:8080")
                .header(header::ORIGIN, origin);
            origins.page(&request.body(()).unwrap())
        };
        let own = "http://localhost:8080";
        origins.stamp(from(own).as_ref(), &mut answer);
        assert_eq!(answer[header::ACCESS_CONTROL_ALLOW_ORIGIN], own);
        assert_eq!(answer[header::ACCESS_CONTROL_ALLOW_CREDENTIALS], "true");
        assert_eq!(answer[header::VARY], "Origin");
        let mut answer = HeaderMap::new();
        origins.stamp(from("http://localhost:3000").as_ref(), &mut answer);
        assert!(answer.contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN));
        assert!(!answer.contains_key(header::ACCESS_CONTROL_ALLOW_CREDENTIALS));
    }
}
