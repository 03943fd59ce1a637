//! HTTP to the collector, with TLS if its address says so.

use std::time::Duration;

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use opentelemetry_http::hyper::HyperClient;

pub type HttpsClient = HyperClient<HttpsConnector<HttpConnector>>;

pub fn open(timeout: Duration) -> Result<HttpsClient, String> {
    let connector = HttpsConnectorBuilder::new()
        .with_provider_and_native_roots(rustls::crypto::ring::default_provider())
        .map_err(|error| format!("the system's certificates: {error}"))?
        .https_or_http()
        .enable_http1()
        .build();
    Ok(HyperClient::new(connector, timeout, None))
}
