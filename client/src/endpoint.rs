//! Requests to a gateway, and what its answers mean.

use std::error::Error as _;
use std::io;
use std::time::Duration;

use baton_protocol::limits::MAX_MESSAGE;
use baton_protocol::{ErrorCode, header};
use bytes::Bytes;
use futures_util::{Stream, TryStreamExt as _};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use serde::Deserialize;
use tokio::time::timeout;

use crate::credential::Credential;
use crate::error::{RequestFailure, SetupError};
use crate::options::ClientOptions;
use crate::transport::{HttpTransport, RequestBody};

/// Of every request after `initialize`.
pub const CONNECTION_ID: HeaderName = HeaderName::from_static(header::CONNECTION_ID);
/// A gateway waits for its store for 5 seconds before it says that it is away.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// A slow network carries at least so many bytes a second.
const BYTES_A_SECOND: u64 = 32 * 1024;

pub struct Endpoint {
    url: Uri,
    transport: HttpTransport,
    credential: Credential,
}

/// A connection that was opened.
pub struct OpenedConnection {
    /// The connection token, sent with every later request.
    pub token: HeaderValue,
    pub answer: Bytes,
}

/// An answer of any length.
pub struct Download(Incoming);

impl Download {
    /// `None` at its end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, RequestFailure> {
        let frame = self.0.frame().await.transpose();
        let frame =
            frame.map_err(|error| RequestFailure::away(format!("it broke off: {error}")))?;
        Ok(frame.map(|frame| frame.into_data().unwrap_or_default()))
    }
}

impl Endpoint {
    pub fn new(options: ClientOptions) -> Result<Self, SetupError> {
        Ok(Self {
            transport: HttpTransport::new(&options)?,
            url: options.url,
            credential: options.credential,
        })
    }

    pub fn url(&self) -> &Uri {
        &self.url
    }

    /// Any answer of the server opens a connection, also an error.
    pub async fn initialize(&self, message: Bytes) -> Result<OpenedConnection, RequestFailure> {
        let headers = json(None);
        let response = self.send(Method::POST, &self.url, &headers, message);
        let response = response.await?;
        let (head, body) = response.into_parts();
        let token = head.headers.get(CONNECTION_ID).cloned();
        let body = timeout(ANSWER_TIMEOUT, read(body)).await;
        let answer = body.map_err(|_| RequestFailure::away("the answer broke off"))??;
        match token.filter(|_| head.status == StatusCode::OK) {
            Some(token) => Ok(OpenedConnection { token, answer }),
            None => Err(RequestFailure::Refused {
                code: ErrorCode::InternalError.value(),
                text: format!(
                    "{} is not an endpoint of Baton: is its path right?",
                    self.url
                ),
            }),
        }
    }

    /// Returns when the message is stored.
    pub async fn post(
        &self,
        connection: &HeaderValue,
        message: Bytes,
    ) -> Result<(), RequestFailure> {
        let headers = json(Some(connection));
        let response = self.send(Method::POST, &self.url, &headers, message);
        let response = response.await?;
        match response.status() {
            StatusCode::ACCEPTED => Ok(()),
            // A page that some network shows to those who have not paid.
            other => Err(RequestFailure::away(format!(
                "{} answered {other}",
                self.url
            ))),
        }
    }

    pub async fn detach(&self, connection: &HeaderValue) -> Result<(), RequestFailure> {
        let headers = HeaderMap::from_iter([(CONNECTION_ID, connection.clone())]);
        self.send(Method::DELETE, &self.url, &headers, Bytes::new())
            .await?;
        Ok(())
    }

    /// A request whose answer comes in the body of its POST, as a stream.
    pub async fn one_shot(
        &self,
        connection: &HeaderValue,
        message: Bytes,
    ) -> Result<Response<Incoming>, RequestFailure> {
        let mut headers = json(Some(connection));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        self.send(Method::POST, &self.url, &headers, message).await
    }

    pub async fn get(&self, headers: &HeaderMap) -> Result<Response<Incoming>, RequestFailure> {
        self.send(Method::GET, &self.url, headers, Bytes::new())
            .await
    }

    /// Something else of the same server.
    pub async fn download(&self, path: &str) -> Result<Download, RequestFailure> {
        let (url, headers) = (self.beside(path)?, HeaderMap::new());
        let answer = self.send(Method::GET, &url, &headers, Bytes::new());
        Ok(Download(answer.await?.into_body()))
    }

    /// The body is read once, so nothing is tried again, and it may take its time.
    pub async fn upload(
        &self,
        path: &str,
        kind: &'static str,
        body: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
    ) -> Result<Bytes, RequestFailure> {
        let credential = self.credential(None).await?;
        let kind = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]);
        let url = self.beside(path)?;
        let body = StreamBody::new(body.map_ok(Frame::data)).boxed_unsync();
        let request = request(Method::POST, &url, &kind, credential.as_ref(), body);
        let answer = self.transport.request(request).await;
        let answer = answer.map_err(|error| transport_failure(&error))?;
        read(check_status(answer).await?.into_body()).await
    }

    fn beside(&self, path: &str) -> Result<Uri, RequestFailure> {
        let mut parts = self.url.clone().into_parts();
        let path = path.parse();
        parts.path_and_query = Some(path.map_err(|_| RequestFailure::invalid("not a path"))?);
        Uri::from_parts(parts).map_err(|_| RequestFailure::invalid("not a URL"))
    }

    async fn credential(
        &self,
        refused: Option<&HeaderValue>,
    ) -> Result<Option<HeaderValue>, RequestFailure> {
        let credential = self.credential.header(refused).await;
        credential.map_err(|error| unauthenticated(&error.to_string()))
    }

    /// Up to the head of the answer. A credential that is refused is renewed once.
    async fn send(
        &self,
        method: Method,
        url: &Uri,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, RequestFailure> {
        let mut refused: Option<HeaderValue> = None;
        loop {
            let credential = self.credential(refused.as_ref()).await?;
            if refused.is_some() && refused == credential {
                return Err(unauthenticated("the server turned the credential down"));
            }
            let held = Full::new(body.clone()).map_err(|never| match never {});
            let held = held.boxed_unsync();
            let request = request(method.clone(), url, headers, credential.as_ref(), held);
            let patience = ANSWER_TIMEOUT + Duration::from_secs(body.len() as u64 / BYTES_A_SECOND);
            let answer = timeout(patience, self.transport.request(request)).await;
            let answer = answer.map_err(|_| RequestFailure::away("no answer came in time"))?;
            let answer = answer.map_err(|error| transport_failure(&error))?;
            if answer.status() == StatusCode::UNAUTHORIZED
                && refused.is_none()
                && credential.is_some()
            {
                refused = credential;
                continue;
            }
            return check_status(answer).await;
        }
    }
}

fn request(
    method: Method,
    url: &Uri,
    headers: &HeaderMap,
    credential: Option<&HeaderValue>,
    body: RequestBody,
) -> Request<RequestBody> {
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = url.clone();
    *request.headers_mut() = headers.clone();
    let credential = credential.map(|credential| (AUTHORIZATION, credential.clone()));
    request.headers_mut().extend(credential);
    request
}

fn json(connection: Option<&HeaderValue>) -> HeaderMap {
    let json = HeaderValue::from_static("application/json");
    let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, json.clone()), (ACCEPT, json)]);
    headers.extend(connection.map(|token| (CONNECTION_ID, token.clone())));
    headers
}

fn unauthenticated(why: &str) -> RequestFailure {
    RequestFailure::Refused {
        code: ErrorCode::Unauthenticated.value(),
        text: format!("{why}. Give baton a valid credential"),
    }
}

/// The last cause says most: "connection refused".
fn transport_failure(error: &hyper_util::client::legacy::Error) -> RequestFailure {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    let why = match error.source() {
        Some(step) if !std::ptr::eq(cause, error) && step.to_string() != cause.to_string() => {
            format!("{step}: {cause}")
        }
        _ => cause.to_string(),
    };
    RequestFailure::Away {
        why,
        pause: None,
        unconnected: error.is_connect(),
    }
}

#[derive(Deserialize)]
struct ErrorBody {
    error: ErrorObject,
}

#[derive(Deserialize)]
struct ErrorObject {
    code: i64,
    message: String,
}

/// An answer that is a success, or why it is none.
async fn check_status(response: Response<Incoming>) -> Result<Response<Incoming>, RequestFailure> {
    let status = response.status();
    if status.is_success() || status == StatusCode::SWITCHING_PROTOCOLS {
        return Ok(response);
    }
    let pause = retry_after(response.headers());
    let body = timeout(ANSWER_TIMEOUT, read(response.into_body())).await;
    let body = body.ok().and_then(Result::ok).unwrap_or_default();
    let said = serde_json::from_slice::<ErrorBody>(&body).map(|problem| problem.error);
    let said = said.ok();
    let text = match &said {
        Some(said) => format!("{} (HTTP {})", said.message, status.as_u16()),
        None => format!("the server answered {status}"),
    };
    let code = said.as_ref().map(|said| said.code);
    let code = code.unwrap_or(ErrorCode::InternalError.value());
    let later = matches!(status.as_u16(), 408 | 425 | 429) || !status.is_client_error();
    match status {
        StatusCode::NOT_FOUND if code == ErrorCode::UnknownConnection.value() => {
            Err(RequestFailure::Lost)
        }
        StatusCode::UNAUTHORIZED => Err(RequestFailure::Refused {
            code: ErrorCode::Unauthenticated.value(),
            text: text
                + ". Give a credential with --credential-file, BATON_CREDENTIAL or \
                   --credential-command",
        }),
        _ if later => Err(RequestFailure::Away {
            why: text,
            pause,
            unconnected: false,
        }),
        _ => Err(RequestFailure::Refused { code, text }),
    }
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

async fn read(body: Incoming) -> Result<Bytes, RequestFailure> {
    let whole = Limited::new(body, MAX_MESSAGE).collect().await;
    let whole =
        whole.map_err(|error| RequestFailure::away(format!("the answer broke off: {error}")))?;
    Ok(whole.to_bytes())
}
