//! HTTP to a process nearby, such as a probe or an administrator's port: one request on a
//! connection of its own, over TCP or a Unix socket, without TLS and without proxies.

use std::io;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http::header::HOST;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use url::Url;

/// The longest answer that is read as a whole.
const MAX_ANSWER: usize = 1 << 20;

pub enum LocalServer {
    Unix(PathBuf),
    Tcp(Url),
}

pub struct LocalAnswer(Response<Incoming>);

impl LocalServer {
    /// `unix:PATH` or a URL of http.
    pub fn parse(address: &str) -> Option<Self> {
        match address.strip_prefix("unix:") {
            Some(path) => Some(Self::Unix(path.into())),
            None => Url::parse(address).ok().and_then(Self::of),
        }
    }

    pub fn of(url: Url) -> Option<Self> {
        let is_http = url.scheme() == "http" && url.has_host();
        is_http.then_some(Self::Tcp(url))
    }

    /// The path and query of the request are those that it has.
    pub async fn send(&self, mut request: Request<Full<Bytes>>) -> anyhow::Result<LocalAnswer> {
        let host = HeaderValue::from_str(&self.host())?;
        request.headers_mut().insert(HOST, host);
        match self {
            Self::Unix(path) => exchange(UnixStream::connect(path).await, request).await,
            Self::Tcp(url) => {
                let addresses = url.socket_addrs(|| None)?;
                exchange(TcpStream::connect(&addresses[..]).await, request).await
            }
        }
    }

    fn host(&self) -> String {
        match self {
            Self::Unix(_) => "localhost".into(),
            Self::Tcp(url) => {
                let host = url.host_str().unwrap_or_default();
                let port = url.port().map(|port| format!(":{port}"));
                format!("{host}{}", port.unwrap_or_default())
            }
        }
    }
}

async fn exchange(
    connected: io::Result<impl AsyncRead + AsyncWrite + Unpin + Send + 'static>,
    request: Request<Full<Bytes>>,
) -> anyhow::Result<LocalAnswer> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(connected?)).await?;
    // It ends with the answer, or when nobody reads that any more.
    tokio::spawn(connection);
    Ok(LocalAnswer(sender.send_request(request).await?))
}

impl LocalAnswer {
    pub fn status(&self) -> StatusCode {
        self.0.status()
    }

    /// The next part of the body; `None` at its end.
    pub async fn chunk(&mut self) -> anyhow::Result<Option<Bytes>> {
        let frame = self.0.body_mut().frame().await.transpose()?;
        Ok(frame.map(|frame| frame.into_data().unwrap_or_default()))
    }

    pub async fn whole(self) -> anyhow::Result<Bytes> {
        match Limited::new(self.0.into_body(), MAX_ANSWER).collect().await {
            Ok(whole) => Ok(whole.to_bytes()),
            Err(error) => bail!("the answer broke off: {error}"),
        }
    }

    /// The answer, if it is not a refusal; `from` is who gave it.
    pub async fn checked(self, from: &str) -> anyhow::Result<Self> {
        let status = self.status();
        if status.is_success() {
            return Ok(self);
        }
        let body = self.whole().await.unwrap_or_default();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        let said = body["error"]["message"].as_str();
        let said = said.with_context(|| format!("{from} answered {status}"))?;
        bail!("{said}")
    }
}
