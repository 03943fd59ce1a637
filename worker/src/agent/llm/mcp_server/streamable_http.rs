//! Servers on the network, by Streamable HTTP, on the worker's one HTTP stack: every answer is
//! bounded, no redirect is followed, and names lead only where the operator allows.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::service::RunningService;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::Sse;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::EntryFields;
use super::request_limit::RequestLimit;
use super::server_events::McpHandler;
use super::sse_transport::SseTransport;
use crate::http_client::{
    AddressRule, BodyReader, HttpClient, HttpFailure, HttpOptions, ProxyRule, SseParser,
};
use crate::mcp::AdmittedServer;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The answer to a call may begin only when the tool is done.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);
/// Streams are silent for as long as there is nothing to say.
const SILENCE: Duration = Duration::from_secs(24 * 3600);
/// As with servers that are programs.
const MAX_MESSAGE: usize = 16 << 20;
const MAX_REFUSAL: usize = 4 << 10;
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(10);
const SESSION_ID: &str = "mcp-session-id";
const LAST_EVENT_ID: &str = "last-event-id";
pub const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";

pub struct WebServer {
    url: Url,
    headers: HashMap<HeaderName, HeaderValue>,
    /// By the older transport: a stream of events, and an address for messages.
    is_sse: bool,
    admitted: AdmittedServer,
}

/// Requests to one server.
#[derive(Clone)]
pub struct McpHttp(Arc<HttpClient>);

type McpHttpError = StreamableHttpError<HttpFailure>;
type EventStream = BoxStream<'static, Result<Sse, SseError>>;

impl WebServer {
    pub(super) fn of(entry: EntryFields, admitted: AdmittedServer) -> Option<Self> {
        let headers = entry.headers.unwrap_or_default().into_iter();
        let headers = headers.map(|it| {
            let mut value = HeaderValue::from_str(&it.value).ok()?;
            value.set_sensitive(true);
            Some((HeaderName::from_bytes(it.name.as_bytes()).ok()?, value))
        });
        Some(Self {
            url: Url::parse(&entry.url?).ok()?,
            headers: headers.collect::<Option<_>>()?,
            is_sse: entry.r#type.as_deref() == Some("sse"),
            admitted,
        })
    }

    pub async fn connect(
        &self,
        handler: McpHandler,
    ) -> Result<RunningService<RoleClient, McpHandler>, String> {
        let http = self.http()?;
        // Its messages are posted one by one, and none of them waits for ever.
        let given_up = CancellationToken::new();
        let service = if self.is_sse {
            let admits = |url: &Url| self.admitted.admits_url(url);
            let transport = SseTransport::open(http, &self.url, &self.headers, admits).await?;
            rmcp::serve_client(handler, RequestLimit::new(transport, given_up)).await
        } else {
            let mut config = StreamableHttpClientTransportConfig::with_uri(self.url.as_str());
            config.custom_headers = self.headers.clone();
            config.max_sse_event_size = MAX_MESSAGE;
            let transport = StreamableHttpClientTransport::with_client(http, config);
            rmcp::serve_client(handler, RequestLimit::new(transport, given_up)).await
        };
        service.map_err(|error| error.to_string())
    }

    fn http(&self) -> Result<McpHttp, String> {
        let uri: Uri = self.url.as_str().parse().map_err(|_| "its URL is odd")?;
        let admitted = self.admitted.clone();
        let options = HttpOptions {
            ca: None,
            proxy: ProxyRule::Environment,
            connect_timeout: CONNECT_TIMEOUT,
            addresses: AddressRule::Where(Arc::new(move |it| admitted.admits_address(it))),
        };
        Ok(McpHttp(Arc::new(HttpClient::new(&uri, &options)?)))
    }
}

impl McpHttp {
    /// Sends a request and returns its answer's head.
    pub async fn send(
        &self,
        method: Method,
        url: &str,
        headers: &HashMap<HeaderName, HeaderValue>,
        body: Bytes,
    ) -> Result<Response<Incoming>, HttpFailure> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        let odd = |_| HttpFailure::Unreachable("the URL is odd".into());
        *request.uri_mut() = url.parse().map_err(odd)?;
        let all = headers.iter();
        request
            .headers_mut()
            .extend(all.map(|(name, value)| (name.clone(), value.clone())));
        let host = host_of(request.uri());
        if let Some(host) = host {
            request.headers_mut().insert(http::header::HOST, host);
        }
        self.0.send(request, ANSWER_TIMEOUT).await
    }
}

fn host_of(uri: &Uri) -> Option<HeaderValue> {
    HeaderValue::from_str(uri.authority()?.as_str()).ok()
}

/// The headers of a request, with those that the protocol has for every one.
pub fn with_protocol(
    headers: &HashMap<HeaderName, HeaderValue>,
    accept: &'static str,
    session: Option<&str>,
) -> HashMap<HeaderName, HeaderValue> {
    let mut all = headers.clone();
    all.insert(ACCEPT, HeaderValue::from_static(accept));
    all.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    if let Some(session) = session.and_then(|it| HeaderValue::from_str(it).ok()) {
        all.insert(HeaderName::from_static(SESSION_ID), session);
    }
    all
}

pub fn has_type(headers: &HeaderMap, kind: &str) -> bool {
    let found = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    found.is_some_and(|it| it.to_ascii_lowercase().starts_with(kind))
}

/// Why the server refuses, for the model and the log.
pub async fn refusal(response: Response<Incoming>) -> String {
    let status = response.status();
    let body = BodyReader::new(response.into_body(), REFUSAL_TIMEOUT);
    let body = body.beginning(MAX_REFUSAL, REFUSAL_TIMEOUT).await;
    format!("HTTP {status}: {}", String::from_utf8_lossy(&body).trim())
}

/// The events of a response.
pub struct EventReader {
    body: BodyReader<Incoming>,
    parser: SseParser,
}

impl EventReader {
    pub fn new(response: Response<Incoming>, max_event: usize) -> Self {
        Self {
            body: BodyReader::new(response.into_body(), SILENCE),
            parser: SseParser::new(max_event),
        }
    }

    /// `None` at the end. May be dropped while it waits.
    pub async fn next(&mut self) -> io::Result<Option<Sse>> {
        loop {
            if let Some(event) = self.parser.next_event().map_err(io::Error::other)? {
                return Ok(Some(Sse {
                    event: (!event.name.is_empty()).then_some(event.name),
                    data: Some(String::from_utf8_lossy(&event.data).into_owned()),
                    id: (!event.id.is_empty()).then_some(event.id),
                    retry: None,
                }));
            }
            match self.body.next().await.map_err(io::Error::other)? {
                Some(piece) => self.parser.push(&piece),
                None => return Ok(None),
            }
        }
    }

    fn stream(self) -> EventStream {
        let read = |mut reader: Self| async move {
            let next = reader.next().await.transpose()?;
            Some((next.map_err(|error| SseError::Body(error.into())), reader))
        };
        stream::unfold(self, read).boxed()
    }
}

pub const MAX_EVENT: usize = MAX_MESSAGE;

impl StreamableHttpClient for McpHttp {
    type Error = HttpFailure;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, McpHttpError> {
        let is_request = matches!(message, ClientJsonRpcMessage::Request(_));
        let body = Bytes::from(serde_json::to_vec(&message)?);
        let accept = "application/json, text/event-stream";
        let headers = with_protocol(&headers, accept, session.as_deref());
        let response = self.send(Method::POST, &uri, &headers, body).await;
        let response = response.map_err(StreamableHttpError::Client)?;
        let status = response.status();
        if status == StatusCode::NOT_FOUND && session.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        if !status.is_success() {
            let why = refusal(response).await;
            // A server that was started again, and says it in words of its own.
            let says_session = why.to_lowercase().contains("session");
            if status == StatusCode::BAD_REQUEST && session.is_some() && says_session {
                return Err(StreamableHttpError::SessionExpired);
            }
            return Err(StreamableHttpError::UnexpectedServerResponse(why.into()));
        }
        let is_empty = response
            .headers()
            .get(CONTENT_LENGTH)
            .is_some_and(|it| it == "0");
        let says_nothing = status == StatusCode::ACCEPTED || status == StatusCode::NO_CONTENT;
        if says_nothing || is_empty && !is_request {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        let given = response.headers().get(SESSION_ID);
        let given = given.and_then(|it| Some(it.to_str().ok()?.to_owned()));
        if has_type(response.headers(), EVENTS) {
            let events = EventReader::new(response, MAX_EVENT).stream();
            return Ok(StreamableHttpPostResponse::Sse(events, given));
        }
        if !is_request {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        let message = whole(response).await?;
        Ok(StreamableHttpPostResponse::Json(message, given))
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), McpHttpError> {
        let headers = with_protocol(&headers, JSON, Some(&session));
        let sent = self.send(Method::DELETE, &uri, &headers, Bytes::new());
        sent.await.map_err(StreamableHttpError::Client)?;
        Ok(())
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<EventStream, McpHttpError> {
        let mut headers = with_protocol(&headers, EVENTS, session.as_deref());
        if let Some(last) = last_event.and_then(|it| HeaderValue::from_str(&it).ok()) {
            headers.insert(HeaderName::from_static(LAST_EVENT_ID), last);
        }
        let sent = self.send(Method::GET, &uri, &headers, Bytes::new());
        let response = sent.await.map_err(StreamableHttpError::Client)?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => Err(StreamableHttpError::ServerDoesNotSupportSse),
            status if status.is_success() && has_type(response.headers(), EVENTS) => {
                Ok(EventReader::new(response, MAX_EVENT).stream())
            }
            _ => {
                let why = refusal(response).await;
                Err(StreamableHttpError::UnexpectedServerResponse(why.into()))
            }
        }
    }
}

/// An answer that is no stream.
async fn whole(response: Response<Incoming>) -> Result<ServerJsonRpcMessage, McpHttpError> {
    let mut body = BodyReader::new(response.into_body(), ANSWER_TIMEOUT);
    let mut read = Vec::new();
    while let Some(piece) = body.next().await.map_err(StreamableHttpError::Client)? {
        if read.len() + piece.len() > MAX_MESSAGE {
            let why = "an answer of more than 16 MiB";
            return Err(StreamableHttpError::UnexpectedServerResponse(why.into()));
        }
        read.extend_from_slice(&piece);
    }
    Ok(serde_json::from_slice(&read)?)
}
