//! How identity providers are asked: over https, or on this machine; in bounded time and size, and
//! without following redirects. What the provider has is where the operator said it is.

use std::time::Duration;

use axum::http::{Method, Request, Uri, header, uri::Scheme};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use tokio::time::timeout;

const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_BYTES: usize = 1 << 20;

pub struct ProviderHttp(Client<HttpsConnector<HttpConnector>, Full<Bytes>>);

impl ProviderHttp {
    pub fn new() -> Result<Self, String> {
        let connector = HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(rustls::crypto::ring::default_provider())
            .map_err(|error| format!("the system's certificates: {error}"))?
            .https_or_http()
            .enable_http1()
            .build();
        Ok(Self(Client::builder(TokioExecutor::new()).build(connector)))
    }

    pub async fn get(&self, url: &Uri) -> Result<Bytes, String> {
        let request = Request::get(url).body(Full::default());
        self.ask(request.map_err(|error| error.to_string())?).await
    }

    /// The answer may be a refusal that says why; that is the caller's to read.
    pub async fn post_form(
        &self,
        url: &Uri,
        form: String,
        authorization: Option<&str>,
    ) -> Result<Bytes, String> {
        let mut request = Request::post(url)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(header::ACCEPT, "application/json");
        if let Some(authorization) = authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let request = request.body(Full::from(form));
        self.ask(request.map_err(|error| error.to_string())?).await
    }

    async fn ask(&self, request: Request<Full<Bytes>>) -> Result<Bytes, String> {
        let url = request.uri().clone();
        let answered = timeout(FETCH_TIMEOUT, self.answer(request)).await;
        answered.unwrap_or_else(|_| Err(format!("{url}: no answer within {FETCH_TIMEOUT:?}")))
    }

    async fn answer(&self, request: Request<Full<Bytes>>) -> Result<Bytes, String> {
        let (url, method) = (request.uri().clone(), request.method().clone());
        let response = self.0.request(request).await;
        let response = response.map_err(|error| format!("{url}: {error}"))?;
        let status = response.status();
        let refuses = method == Method::POST && status.is_client_error();
        if !status.is_success() && !refuses {
            return Err(format!("{url} answered {status}"));
        }
        let body = Limited::new(response.into_body(), MAX_BYTES)
            .collect()
            .await;
        let body = body.map_err(|error| format!("{url}: {error}"))?;
        Ok(body.to_bytes())
    }
}

/// Where nobody can read along.
pub fn is_private(url: &Uri) -> bool {
    url.scheme() == Some(&Scheme::HTTPS) || is_loopback(url)
}

/// Where nobody listens in between.
fn is_loopback(url: &Uri) -> bool {
    url.scheme() == Some(&Scheme::HTTP)
        && matches!(url.host(), Some("localhost" | "127.0.0.1" | "[::1]"))
}
