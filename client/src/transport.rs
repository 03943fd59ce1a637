//! Bytes to the gateway: sockets, TLS, and the proxy that the environment names (`HTTPS_PROXY`,
//! `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`). HTTP/1.1, since a WebSocket begins with it and there is
//! one stream to read.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

use crate::error::SetupError;
use crate::options::{ClientOptions, is_loopback};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Load balancers close connections that are idle for a minute.
const IDLE_TIMEOUT: Duration = Duration::from_secs(45);

/// Held in memory, or read while it is sent.
pub type RequestBody = UnsyncBoxBody<Bytes, io::Error>;

pub enum HttpTransport {
    Straight(Client<HttpsConnector<HttpConnector>, RequestBody>),
    /// Through a proxy, by CONNECT: what is carried is none of its business, and a WebSocket is no
    /// trouble.
    Tunnelled(Client<HttpsConnector<Tunnel<HttpConnector>>, RequestBody>),
}

impl HttpTransport {
    pub fn new(options: &ClientOptions) -> Result<Self, SetupError> {
        let tls = tls(options)?;
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        tcp.set_keepalive(Some(Duration::from_secs(30)));
        let mut client = Client::builder(TokioExecutor::new());
        client
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(1);
        Ok(match proxy(&options.url) {
            None => Self::Straight(client.build(HttpsConnector::from((tcp, tls)))),
            Some(proxy) => {
                let mut tunnel = Tunnel::new(proxy.uri().clone(), tcp);
                if let Some(login) = proxy.basic_auth() {
                    tunnel = tunnel.with_auth(login.clone());
                }
                Self::Tunnelled(client.build(HttpsConnector::from((tunnel, tls))))
            }
        })
    }

    pub async fn request(
        &self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, Error> {
        match self {
            Self::Straight(client) => client.request(request).await,
            Self::Tunnelled(client) => client.request(request).await,
        }
    }
}

/// No proxy leads to this machine itself.
fn proxy(url: &Uri) -> Option<Intercept> {
    if is_loopback(url) {
        return None;
    }
    Matcher::from_env().intercept(url)
}

fn tls(options: &ClientOptions) -> Result<ClientConfig, SetupError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions();
    let builder = builder.expect("the provider has what its versions need");
    let builder = match &options.ca {
        Some(pem) => builder.with_root_certificates(roots(pem)?),
        // A machine without certificates can still speak to one that has none either.
        None if options.url.scheme_str() == Some("http") => {
            builder.with_root_certificates(RootCertStore::empty())
        }
        None => {
            let native = builder.with_native_roots();
            native.map_err(|error| SetupError::SystemCa(error.to_string()))?
        }
    };
    Ok(builder.with_no_client_auth())
}

fn roots(pem: &[u8]) -> Result<RootCertStore, SetupError> {
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| SetupError::Ca(error.to_string()))?;
        let added = store.add(certificate);
        added.map_err(|error| SetupError::Ca(error.to_string()))?;
    }
    if store.is_empty() {
        Err(SetupError::Ca("there is none, in PEM".into()))
    } else {
        Ok(store)
    }
}
