//! Hands metrics to the collector, by the protocol that it speaks.

use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use opentelemetry_http::{HttpClient as _, Request};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse, metrics_service_client,
};
use prost::Message as _;
use tonic::metadata::MetadataMap;
use tonic::transport::{ClientTlsConfig, Endpoint};

use crate::telemetry::collector::{OtlpCollector, OtlpProtocol};
use crate::telemetry::https::{self, HttpsClient};

pub struct MetricsPush {
    way: PushTransport,
    headers: HeaderMap,
    timeout: Duration,
}

enum PushTransport {
    Http {
        https: Box<HttpsClient>,
        url: String,
    },
    Grpc(Box<Endpoint>),
}

impl MetricsPush {
    /// Connects when there is something to send.
    pub fn open(collector: &OtlpCollector) -> Result<Self, String> {
        let way = match collector.protocol {
            OtlpProtocol::Http => PushTransport::Http {
                https: Box::new(https::open(collector.timeout)?),
                url: collector.url.clone(),
            },
            OtlpProtocol::Grpc => {
                let endpoint = endpoint(&collector.url);
                let endpoint = endpoint.map_err(|error| format!("metrics: {error}"))?;
                PushTransport::Grpc(Box::new(endpoint))
            }
        };
        Ok(Self {
            way,
            headers: collector.headers.clone(),
            timeout: collector.timeout,
        })
    }

    pub async fn send(&self, metrics: ExportMetricsServiceRequest) -> anyhow::Result<()> {
        let sent = tokio::time::timeout(self.timeout, async {
            match &self.way {
                PushTransport::Http { https, url } => self.over_http(https, url, metrics).await,
                PushTransport::Grpc(endpoint) => self.over_grpc(endpoint, metrics).await,
            }
        });
        taken(sent.await.context("no answer in time")??)
    }

    /// Of an answer that says no only the status is told: the rest is the collector's own words.
    async fn over_http(
        &self,
        https: &HttpsClient,
        url: &str,
        metrics: ExportMetricsServiceRequest,
    ) -> anyhow::Result<ExportMetricsServiceResponse> {
        let mut request = Request::post(url).body(metrics.encode_to_vec().into())?;
        *request.headers_mut() = self.headers.clone();
        let kind = HeaderValue::from_static("application/x-protobuf");
        request.headers_mut().insert(CONTENT_TYPE, kind);
        let sent = https.send_bytes(request).await;
        let response = sent.map_err(|error| anyhow!(error))?;
        let status = response.status();
        ensure!(status.is_success(), "HTTP status {status}");
        // It was taken; what else the answer says may be in a language of its own.
        Ok(ExportMetricsServiceResponse::decode(response.into_body()).unwrap_or_default())
    }

    /// On a connection of its own: one that broke without a word would be kept for minutes.
    async fn over_grpc(
        &self,
        endpoint: &Endpoint,
        metrics: ExportMetricsServiceRequest,
    ) -> anyhow::Result<ExportMetricsServiceResponse> {
        let mut request = tonic::Request::new(metrics);
        *request.metadata_mut() = MetadataMap::from_headers(self.headers.clone());
        let channel = endpoint.connect_lazy();
        let mut client = metrics_service_client::MetricsServiceClient::new(channel);
        match client.export(request).await {
            Ok(response) => Ok(response.into_inner()),
            Err(status) => Err(anyhow!("gRPC status {:?}", status.code())),
        }
    }
}

/// A collector may take some and refuse others.
fn taken(answer: ExportMetricsServiceResponse) -> anyhow::Result<()> {
    let refused = answer.partial_success.map(|part| part.rejected_data_points);
    let refused = refused.unwrap_or_default();
    ensure!(refused == 0, "{refused} data points were refused");
    Ok(())
}

fn endpoint(url: &str) -> Result<Endpoint, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(url.to_owned())?;
    if url.starts_with("https") {
        endpoint.tls_config(ClientTlsConfig::new().with_native_roots())
    } else {
        Ok(endpoint)
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsPartialSuccess;

    use super::*;

    #[test]
    fn what_is_refused_in_part_was_not_taken() {
        let answer = |rejected_data_points| ExportMetricsServiceResponse {
            partial_success: Some(ExportMetricsPartialSuccess {
                rejected_data_points,
                error_message: "the collector's own words".to_owned(),
            }),
        };
        assert!(taken(ExportMetricsServiceResponse::default()).is_ok());
        assert!(taken(answer(0)).is_ok());
        let error = taken(answer(3)).expect_err("some were not");
        assert_eq!(error.to_string(), "3 data points were refused");
    }
}
