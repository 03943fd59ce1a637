//! Hands metrics to the collector, by the protocol that it speaks.

use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use opentelemetry_http::{HttpClient as _, Request};
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use prost::Message as _;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};

use crate::telemetry::collector::{Collector, Protocol};
use crate::telemetry::https::{self, Https};

#[derive(Clone)]
pub struct Push {
    way: Way,
    headers: HeaderMap,
    timeout: Duration,
}

#[derive(Clone)]
enum Way {
    Http { https: Https, url: String },
    Grpc(MetricsServiceClient<Channel>),
}

impl Push {
    /// Connects when there is something to send.
    pub fn open(collector: &Collector) -> Result<Self, String> {
        let way = match collector.protocol {
            Protocol::Http => Way::Http {
                https: https::open(collector.timeout)?,
                url: collector.url.clone(),
            },
            Protocol::Grpc => {
                let channel = channel(&collector.url);
                let channel = channel.map_err(|error| format!("metrics: {error}"))?;
                Way::Grpc(MetricsServiceClient::new(channel))
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
                Way::Http { https, url } => self.over_http(https, url, metrics).await,
                Way::Grpc(client) => self.over_grpc(client.clone(), metrics).await,
            }
        });
        let answer = sent.await.context("no answer in time")??;
        let refused = answer.partial_success.map(|part| part.rejected_data_points);
        let refused = refused.unwrap_or_default();
        ensure!(refused == 0, "{refused} data points were refused");
        Ok(())
    }

    /// Of an answer that says no only the status is told: the rest is the collector's own words.
    async fn over_http(
        &self,
        https: &Https,
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

    async fn over_grpc(
        &self,
        mut client: MetricsServiceClient<Channel>,
        metrics: ExportMetricsServiceRequest,
    ) -> anyhow::Result<ExportMetricsServiceResponse> {
        let mut request = tonic::Request::new(metrics);
        *request.metadata_mut() = MetadataMap::from_headers(self.headers.clone());
        match client.export(request).await {
            Ok(response) => Ok(response.into_inner()),
            Err(status) => Err(anyhow!("gRPC status {:?}", status.code())),
        }
    }
}

fn channel(url: &str) -> Result<Channel, tonic::transport::Error> {
    let mut endpoint = Endpoint::from_shared(url.to_owned())?;
    if url.starts_with("https") {
        endpoint = endpoint.tls_config(ClientTlsConfig::new().with_native_roots())?;
    }
    Ok(endpoint.connect_lazy())
}
