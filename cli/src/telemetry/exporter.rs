//! The way to the collector. Whatever becomes of it, nobody waits: spans are sent by a thread of their own,
//! from a queue that has an end.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::tonic_types::transport::ClientTlsConfig;
use opentelemetry_otlp::{
    SpanExporter as Otlp, WithExportConfig as _, WithHttpConfig as _, WithTonicConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use tokio::runtime::Handle;

/// How often a collector that cannot be used is talked about.
const PAUSE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Grpc,
    Http,
}

pub struct Collector {
    pub url: String,
    pub protocol: Protocol,
    pub timeout: Duration,
}

/// Headers and the rest of the standard's variables are read by the exporter itself.
pub fn open(collector: &Collector) -> Result<Reported, String> {
    let built = match collector.protocol {
        Protocol::Grpc => {
            let mut builder = Otlp::builder()
                .with_tonic()
                .with_endpoint(&collector.url)
                .with_timeout(collector.timeout);
            if collector.url.starts_with("https") {
                builder = builder.with_tls_config(ClientTlsConfig::new().with_native_roots());
            }
            builder.build()
        }
        Protocol::Http => Otlp::builder()
            .with_http()
            .with_protocol(opentelemetry_otlp::Protocol::HttpBinary)
            .with_endpoint(&collector.url)
            .with_timeout(collector.timeout)
            .with_http_client(Client::new(collector.timeout)?)
            .build(),
    };
    let exporter = built.map_err(|error| format!("traces: {error}"))?;
    Ok(Reported {
        exporter,
        failures: Mutex::default(),
    })
}

/// The thread that exports has no runtime; connections live on ours.
#[derive(Clone)]
struct Client {
    https: Arc<HyperClient<HttpsConnector<HttpConnector>>>,
    runtime: Handle,
}

impl Client {
    fn new(timeout: Duration) -> Result<Self, String> {
        let connector = HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(rustls::crypto::ring::default_provider())
            .map_err(|error| format!("the system's certificates: {error}"))?
            .https_or_http()
            .enable_http1()
            .build();
        Ok(Self {
            https: Arc::new(HyperClient::new(connector, timeout, None)),
            runtime: Handle::current(),
        })
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let https = self.https.clone();
        let sent = self
            .runtime
            .spawn(async move { https.send_bytes(request).await });
        sent.await?
    }
}

/// Says that spans are lost, but not over and over.
#[derive(Debug)]
pub struct Reported {
    exporter: Otlp,
    failures: Mutex<Failures>,
}

#[derive(Debug, Default)]
struct Failures {
    told: Option<Instant>,
    /// Since then.
    lost: usize,
}

impl Failures {
    /// How many spans were lost, if it is time to say so.
    fn add(&mut self, lost: usize, now: Instant) -> Option<usize> {
        self.lost += lost;
        if self.told.is_some_and(|told| now < told + PAUSE) {
            return None;
        }
        self.told = Some(now);
        Some(std::mem::take(&mut self.lost))
    }
}

impl SpanExporter for Reported {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let outcome = self.exporter.export(batch).await;
        if let Err(error) = &outcome {
            let mut failures = self.failures.lock().expect("held for moments only");
            if let Some(spans) = failures.add(spans, Instant::now()) {
                tracing::warn!(%error, spans, "the collector takes no traces: spans are lost");
            }
        }
        outcome
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_once_a_minute() {
        let (start, mut failures) = (Instant::now(), Failures::default());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(failures.add(3, at(0)), Some(3));
        assert_eq!(failures.add(4, at(1)), None);
        assert_eq!(failures.add(5, at(59)), None);
        assert_eq!(failures.add(6, at(60)), Some(15));
        assert_eq!(failures.add(7, at(61)), None);
    }
}
