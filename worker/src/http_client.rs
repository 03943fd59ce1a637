//! Requests to servers that an operator or a client has named: model endpoints, MCP servers. On
//! the binary's one HTTP stack, HTTP/1.1, through the proxy that the environment names, with
//! certificates of the system and of the operator. Every wait and every body is bounded.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::{Builder, Client};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use thiserror::Error;
use tokio::time::timeout;

use self::bounded_connect::BoundedConnect;

pub use self::body_reader::BodyReader;
pub use self::checked_resolver::AddressRule;
use self::checked_resolver::CheckedResolver;
pub use self::sse_parser::{SseEvent, SseParser, SseTooLarge};

mod body_reader;
mod bounded_connect;
mod checked_resolver;
mod sse_parser;
mod tls;

/// Load balancers close connections that are idle for a minute.
const IDLE_TIMEOUT: Duration = Duration::from_secs(45);
/// Connections are kept for the next request, so many and no more.
const MAX_IDLE: usize = 32;
/// What a connection may hold of a response that nobody reads.
const MAX_BUFFER: usize = 64 << 10;

#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// Certificates to trust beside those of the system, PEM.
    pub ca: Option<Vec<u8>>,
    pub proxy: ProxyRule,
    /// With the TLS handshake.
    pub connect_timeout: Duration,
    /// Where names may lead. Behind a proxy it is the proxy that resolves them.
    pub addresses: AddressRule,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProxyRule {
    /// `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, but never to this machine itself.
    #[default]
    Environment,
    Never,
    Always(String),
}

/// Requests to one server, on connections that are kept.
pub struct HttpClient {
    carrier: HttpCarrier,
    connect_timeout: Duration,
}

type RequestBody = Full<Bytes>;

enum HttpCarrier {
    Straight(Client<BoundedConnect<HttpsConnector<HttpConnector<CheckedResolver>>>, RequestBody>),
    /// Through a proxy, by CONNECT.
    Tunnelled(Client<BoundedConnect<HttpsConnector<Tunnel<HttpConnector>>>, RequestBody>),
}

/// Why there is no response, or not all of it. Contains neither headers nor a body.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum HttpFailure {
    #[error("{0}")]
    Unreachable(String),
    #[error("no connection within {0:?}")]
    ConnectTimeout(Duration),
    #[error("no answer within {0:?}")]
    AnswerTimeout(Duration),
    #[error("silent for {0:?}")]
    Silence(Duration),
    /// The request may have been received.
    #[error("the connection broke: {0}")]
    Broken(String),
}

impl HttpClient {
    /// `url` decides whether there is a proxy on the way. Does not connect.
    pub fn new(url: &Uri, options: &HttpOptions) -> Result<Self, String> {
        let tls = tls::client_config(url, options.ca.as_deref())?;
        let bounded = options.connect_timeout;
        let carrier = match proxy(url, &options.proxy)? {
            None => {
                let resolver = CheckedResolver::new(options.addresses.clone());
                let tcp = prepared(HttpConnector::new_with_resolver(resolver), bounded);
                let connector = HttpsConnector::from((tcp, tls));
                HttpCarrier::Straight(builder().build(BoundedConnect::new(connector, bounded)))
            }
            Some(proxy) => {
                let tcp = prepared(HttpConnector::new(), bounded);
                let mut tunnel = Tunnel::new(proxy.uri().clone(), tcp);
                if let Some(login) = proxy.basic_auth() {
                    tunnel = tunnel.with_auth(login.clone());
                }
                let connector = HttpsConnector::from((tunnel, tls));
                HttpCarrier::Tunnelled(builder().build(BoundedConnect::new(connector, bounded)))
            }
        };
        Ok(Self {
            carrier,
            connect_timeout: bounded,
        })
    }

    /// Returns when the head of the response is there. Redirects are not followed: the server is
    /// where it was said to be.
    pub async fn send(
        &self,
        request: Request<RequestBody>,
        answer_timeout: Duration,
    ) -> Result<Response<Incoming>, HttpFailure> {
        let sent = timeout(answer_timeout, self.carrier.request(request)).await;
        let response = sent.map_err(|_| HttpFailure::AnswerTimeout(answer_timeout))?;
        response.map_err(|error| {
            if bounded_connect::is_timeout(&error) {
                HttpFailure::ConnectTimeout(self.connect_timeout)
            } else if error.is_connect() {
                HttpFailure::Unreachable(causes(&error))
            } else {
                HttpFailure::Broken(causes(&error))
            }
        })
    }
}

impl HttpCarrier {
    async fn request(
        &self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, hyper_util::client::legacy::Error> {
        match self {
            Self::Straight(client) => client.request(request).await,
            Self::Tunnelled(client) => client.request(request).await,
        }
    }
}

fn prepared<R>(mut tcp: HttpConnector<R>, connect_timeout: Duration) -> HttpConnector<R> {
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(Duration::from_secs(30)));
    tcp.set_connect_timeout(Some(connect_timeout));
    tcp
}

fn builder() -> Builder {
    let mut builder = Client::builder(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(MAX_IDLE)
        .http1_max_buf_size(MAX_BUFFER);
    builder
}

fn proxy(url: &Uri, rule: &ProxyRule) -> Result<Option<Intercept>, String> {
    match rule {
        ProxyRule::Never => Ok(None),
        ProxyRule::Environment if is_loopback(url) => Ok(None),
        ProxyRule::Environment => Ok(Matcher::from_env().intercept(url)),
        ProxyRule::Always(proxy) => {
            let found = Matcher::builder().all(proxy.as_str()).build();
            let found = found.intercept(url);
            found
                .map(Some)
                .ok_or_else(|| "the proxy must be a URL such as http://proxy:3128".to_owned())
        }
    }
}

fn is_loopback(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let address = address.parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// An error of the HTTP stack with its causes, since the first alone says little.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}
