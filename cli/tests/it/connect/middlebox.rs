//! What stands between editors and servers in offices: a proxy that knows no WebSockets, and one that makes tunnels.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use bytes::Bytes;
use futures_util::stream;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;
use tokio::task::AbortHandle;

#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub upgrades: u64,
    pub streams: u64,
    pub initialized: u64,
    pub detached: u64,
}

/// Passes everything on but WebSockets.
pub struct Middlebox {
    pub url: String,
    seen: Arc<Mutex<Seen>>,
    injected: broadcast::Sender<Bytes>,
    task: AbortHandle,
}

#[derive(Clone)]
struct Way {
    target: String,
    http: reqwest::Client,
    seen: Arc<Mutex<Seen>>,
    injected: broadcast::Sender<Bytes>,
}

impl Middlebox {
    pub async fn start(target: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let address = listener.local_addr().expect("bound");
        let seen = Arc::new(Mutex::new(Seen::default()));
        let injected = broadcast::Sender::new(4);
        let way = Way {
            target: target.to_owned(),
            http: reqwest::Client::new(),
            seen: seen.clone(),
            injected: injected.clone(),
        };
        let router = Router::new().fallback(pass).with_state(way);
        let server = axum::serve(listener, router);
        let task = tokio::spawn(async move { server.await.expect("it serves") });
        Self {
            url: format!("http://{address}/acp"),
            seen,
            injected,
            task: task.abort_handle(),
        }
    }

    /// As a gateway does it whose store has lost events.
    pub fn reset_streams(&self) {
        let event = "id: 0\nevent: reset\ndata: {\"reason\":\"events were lost\"}\n\n";
        let sent = self.injected.send(event.into());
        sent.expect("there are streams");
    }

    pub fn seen(&self) -> Seen {
        self.seen.lock().expect("nobody panics with it").clone()
    }
}

impl Drop for Middlebox {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass(State(way): State<Way>, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    {
        let mut seen = way.seen.lock().expect("nobody panics with it");
        if parts.headers.contains_key("upgrade") {
            seen.upgrades += 1;
            let mut refused = Response::new(Body::from("<h1>Forbidden</h1>"));
            *refused.status_mut() = StatusCode::FORBIDDEN;
            return refused;
        }
        let anonymous = !parts.headers.contains_key("acp-connection-id");
        seen.streams += u64::from(parts.method == "GET");
        seen.detached += u64::from(parts.method == "DELETE");
        seen.initialized += u64::from(parts.method == "POST" && anonymous);
    }
    let body = reqwest::Body::wrap_stream(body.into_data_stream());
    let request = way.http.request(parts.method, &way.target);
    let answer = request.headers(parts.headers).body(body).send().await;
    let answer = answer.expect("the server answers");
    let mut response = Response::new(Body::empty());
    *response.status_mut() = answer.status();
    *response.headers_mut() = answer.headers().clone();
    *response.body_mut() = Body::from_stream(stream::unfold(
        (answer, way.injected.subscribe()),
        async |(mut answer, mut injected)| {
            let piece = tokio::select! {
                piece = answer.chunk() => piece.transpose()?,
                Ok(piece) = injected.recv() => Ok(piece),
            };
            Some((piece, (answer, injected)))
        },
    ));
    response
}

/// Knows one name, and where it leads.
pub struct Tunnel {
    pub url: String,
    opened: Arc<AtomicU64>,
    task: AbortHandle,
}

impl Tunnel {
    pub async fn start(name: &str, target: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let address = listener.local_addr().expect("bound");
        let target = target
            .trim_start_matches("http://")
            .trim_end_matches("/acp");
        let (name, target) = (name.to_owned(), target.to_owned());
        let opened = Arc::new(AtomicU64::new(0));
        let count = opened.clone();
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(carry(client, name.clone(), target.clone(), count.clone()));
            }
        });
        Self {
            url: format!("http://{address}"),
            opened,
            task: task.abort_handle(),
        }
    }

    pub fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn carry(mut client: TcpStream, name: String, target: String, opened: Arc<AtomicU64>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match client.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8(head).expect("text");
    assert!(head.starts_with(&format!("CONNECT {name} ")), "{head}");
    let Ok(mut server) = TcpStream::connect(target).await else {
        return;
    };
    opened.fetch_add(1, Ordering::Relaxed);
    let _ = client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
    let _ = copy_bidirectional(&mut client, &mut server).await;
}
