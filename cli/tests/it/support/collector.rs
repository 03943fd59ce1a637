//! A collector that keeps what it is sent, over both protocols on one port.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Response, Uri};
use axum::routing::post;
use http_body_util::{BodyExt as _, Full};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::Span as Raw;
use prost::Message as _;
use tokio::net::TcpListener;

use self::metrics::Reading;
use super::until;

pub mod metrics;

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<Sent>>>);

#[derive(Clone)]
struct Sent {
    /// Metrics, or else traces.
    metrics: bool,
    headers: HeaderMap,
    body: Bytes,
}

pub struct Collector {
    kept: Kept,
    pub endpoint: String,
}

#[derive(Clone, Debug)]
pub struct Span {
    /// `service.name` of who sent it.
    pub service: String,
    /// Everything about who sent it.
    pub resource: BTreeMap<String, String>,
    pub name: String,
    pub trace: String,
    pub id: String,
    pub parent: String,
    pub state: String,
    pub links: usize,
    pub attributes: BTreeMap<String, String>,
}

impl Collector {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let kept = Kept::default();
        let mut router = Router::new();
        for path in ["/v1/traces", "/v1/metrics"] {
            router = router.route(path, post(over_http));
        }
        for service in ["trace.v1.TraceService", "metrics.v1.MetricsService"] {
            let path = format!("/opentelemetry.proto.collector.{service}/Export");
            router = router.route(&path, post(over_grpc));
        }
        let router = router.with_state(kept.clone());
        // Ends with the test's runtime.
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self {
            kept,
            endpoint: format!("http://{address}"),
        }
    }

    fn sent(&self) -> Vec<Sent> {
        let kept = self.kept.0.lock();
        kept.expect("nobody panics with the lock").clone()
    }

    /// Every byte of every message.
    pub fn bytes(&self) -> Vec<u8> {
        self.sent().iter().flat_map(|it| it.body.to_vec()).collect()
    }

    pub fn spans(&self) -> Vec<Span> {
        let sent = self.sent().into_iter().filter(|sent| !sent.metrics);
        let requests = sent.map(|sent| {
            ExportTraceServiceRequest::decode(sent.body).expect("a request of the protocol")
        });
        let of_resources = requests.flat_map(|request| request.resource_spans);
        of_resources
            .flat_map(|sent| {
                let resource = attributes(sent.resource.expect("a resource").attributes);
                let spans = sent.scope_spans.into_iter().flat_map(|scope| scope.spans);
                spans.map(move |span| Span::read(&resource, span))
            })
            .collect()
    }

    /// All metrics, as often as they came.
    pub fn readings(&self) -> Vec<Reading> {
        let sent = self.sent().into_iter().filter(|sent| sent.metrics);
        sent.map(Reading::read).collect()
    }

    /// Metrics that were read after this was called.
    pub async fn next_reading(&self) -> Reading {
        // The next one may have been on its way already.
        let next = self.readings().len() + 1;
        until("metrics come", async || {
            self.readings().into_iter().nth(next)
        })
        .await
    }

    /// The one span of this name in this trace, once it has come.
    pub async fn span(&self, trace: &str, name: &str) -> Span {
        let what = format!("the span {name} of {trace}");
        until(&what, async || {
            let spans = self.spans();
            let mut fits = spans
                .into_iter()
                .filter(|span| span.trace == trace && span.name == name);
            let found = fits.next();
            assert!(fits.next().is_none(), "two spans {name}");
            found
        })
        .await
    }
}

impl Span {
    fn read(resource: &BTreeMap<String, String>, span: Raw) -> Self {
        Self {
            service: resource["service.name"].clone(),
            resource: resource.clone(),
            name: span.name,
            trace: hex(&span.trace_id),
            id: hex(&span.span_id),
            parent: hex(&span.parent_span_id),
            state: span.trace_state,
            links: span.links.len(),
            attributes: attributes(span.attributes),
        }
    }

    pub fn says(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).map(String::as_str)
    }
}

fn attributes(list: Vec<KeyValue>) -> BTreeMap<String, String> {
    let text = |pair: KeyValue| {
        let value = match pair.value.and_then(|value| value.value) {
            Some(any_value::Value::StringValue(text)) => text,
            Some(any_value::Value::IntValue(number)) => number.to_string(),
            Some(any_value::Value::BoolValue(truth)) => truth.to_string(),
            other => format!("{other:?}"),
        };
        (pair.key, value)
    };
    list.into_iter().map(text).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Kept {
    fn keep(&self, path: &Uri, headers: HeaderMap, body: Bytes) {
        let metrics = path.path().contains("metrics");
        self.0.lock().expect("held for moments only").push(Sent {
            metrics,
            headers,
            body,
        });
    }
}

async fn over_http(State(kept): State<Kept>, path: Uri, headers: HeaderMap, body: Bytes) {
    assert_eq!(headers["content-type"], "application/x-protobuf");
    assert!(!headers.contains_key("content-encoding"), "read as it is");
    kept.keep(&path, headers, body);
}

/// One message: whether it is compressed, its length, and itself. The answer is an empty one.
async fn over_grpc(
    State(kept): State<Kept>,
    path: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    assert_eq!(
        body[0], 0,
        "not compressed, so that it can be read as it is"
    );
    let length = u32::from_be_bytes(body[1..5].try_into().expect("four bytes")) as usize;
    assert_eq!(body.len(), 5 + length);
    kept.keep(&path, headers, body.slice(5..));
    let trailers = HeaderMap::from_iter([(
        "grpc-status".parse().expect("a name"),
        HeaderValue::from_static("0"),
    )]);
    let empty = Full::new(Bytes::from_static(&[0; 5]));
    let whole = empty.with_trailers(async { Some(Ok(trailers)) });
    let mut answer = Response::new(Body::new(whole));
    let grpc = HeaderValue::from_static("application/grpc");
    answer.headers_mut().insert("content-type", grpc);
    answer
}
