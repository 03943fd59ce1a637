//! Exports spans to the collector. Nothing waits for it: spans are sent by a thread of their own,
//! from a bounded queue.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::tonic_types::transport::ClientTlsConfig;
use opentelemetry_otlp::{
    SpanExporter as Otlp, WithExportConfig as _, WithHttpConfig as _, WithTonicConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use tokio::runtime::Handle;

use super::collector::{OtlpCollector, OtlpProtocol};
use super::failures::ExportFailures;
use super::https::{self, HttpsClient};

/// Headers and the rest of the standard's variables are read by the exporter itself.
pub fn open(collector: &OtlpCollector) -> Result<ReportedExporter, String> {
    let built = match collector.protocol {
        OtlpProtocol::Grpc => {
            let mut builder = Otlp::builder()
                .with_tonic()
                .with_endpoint(&collector.url)
                .with_timeout(collector.timeout);
            if collector.url.starts_with("https") {
                builder = builder.with_tls_config(ClientTlsConfig::new().with_native_roots());
            }
            builder.build()
        }
        OtlpProtocol::Http => Otlp::builder()
            .with_http()
            .with_protocol(opentelemetry_otlp::Protocol::HttpBinary)
            .with_endpoint(&collector.url)
            .with_timeout(collector.timeout)
            .with_http_client(ExportClient::new(collector.timeout)?)
            .build(),
    };
    let exporter = built.map_err(|error| format!("traces: {error}"))?;
    Ok(ReportedExporter {
        exporter,
        failures: Mutex::default(),
    })
}

/// The thread that exports has no runtime; connections live on ours.
#[derive(Clone)]
struct ExportClient {
    https: Arc<HttpsClient>,
    runtime: Handle,
}

impl ExportClient {
    fn new(timeout: Duration) -> Result<Self, String> {
        Ok(Self {
            https: Arc::new(https::open(timeout)?),
            runtime: Handle::current(),
        })
    }
}

impl fmt::Debug for ExportClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}

#[async_trait]
impl HttpClient for ExportClient {
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
pub struct ReportedExporter {
    exporter: Otlp,
    failures: Mutex<ExportFailures>,
}

impl SpanExporter for ReportedExporter {
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
