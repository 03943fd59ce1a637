//! Options of a client.

use std::net::IpAddr;
use std::time::Duration;

use http::Uri;

use crate::Credential;

pub struct ClientOptions {
    /// Where Baton's endpoint is, see [`endpoint`].
    pub url: Uri,
    pub transport: StreamTransport,
    pub credential: Credential,
    /// Certificates to trust instead of the system's, in PEM.
    pub ca: Option<Vec<u8>>,
    /// How long the server may be away before those who wait are told.
    pub give_up: Duration,
    /// Connections live for a day. One that is older than this is replaced when nothing is under
    /// way.
    pub renew_after: Duration,
}

pub const GIVE_UP: Duration = Duration::from_secs(5 * 60);
pub const RENEW_AFTER: Duration = Duration::from_secs(12 * 60 * 60);

/// How messages come from the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamTransport {
    /// A WebSocket, or SSE where something in between lets no WebSocket through.
    #[default]
    Auto,
    Sse,
    WebSocket,
}

/// The endpoint that is meant by a URL: `/acp`, unless it has a path of its own. `ws` is as good as
/// `http`.
pub fn endpoint(url: &str) -> Result<Uri, String> {
    let named = |why: &str| format!("{url:?}: {why}, as in https://baton.example.com/acp");
    let given: Uri = url.parse().map_err(|_| named("not a URL"))?;
    let scheme = match given.scheme_str() {
        Some("http" | "ws") => "http",
        Some("https" | "wss") => "https",
        _ => return Err(named("must begin with http:// or https://")),
    };
    let authority = given.authority().ok_or_else(|| named("names no host"))?;
    if authority.as_str().contains('@') {
        return Err(named(
            "must not hold a password: give the credential by file, variable or command",
        ));
    }
    let path = match given.path_and_query().map(|path| path.as_str()) {
        None | Some("/") => "/acp",
        Some(path) => path,
    };
    // The tunnel connector assumes port 443 if there is none.
    let port = match (scheme, authority.port()) {
        ("http", None) => ":80",
        _ => "",
    };
    let built = Uri::builder()
        .scheme(scheme)
        .authority(format!("{authority}{port}"))
        .path_and_query(path);
    built.build().map_err(|_| named("not a URL"))
}

/// Without TLS, unless it stays on this machine.
pub fn is_readable_on_its_way(url: &Uri) -> bool {
    url.scheme_str() != Some("https") && !is_loopback(url)
}

pub fn is_loopback(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let parsed = address.parse::<IpAddr>();
    host == "localhost" || parsed.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::endpoint;

    #[test]
    fn a_url_without_a_path_means_the_endpoint() {
        let meant = |url| endpoint(url).map(|url| url.to_string());
        let acp = Ok("http://127.0.0.1:8080/acp".to_owned());
        assert_eq!(meant("http://127.0.0.1:8080"), acp);
        assert_eq!(meant("ws://127.0.0.1:8080/"), acp);
        let plain = Ok("http://example.com:80/acp".to_owned());
        assert_eq!(meant("http://example.com"), plain);
        let own = Ok("https://example.com/agents/acp".to_owned());
        assert_eq!(meant("wss://example.com/agents/acp"), own);
    }

    #[test]
    fn what_is_no_url_is_named() {
        for wrong in [
            "",
            "example.com",
            "ftp://example.com",
            "http://me:secret@example.com",
        ] {
            assert!(endpoint(wrong).is_err(), "{wrong}");
        }
    }
}
