//! What a balancer sends again when a gateway is lost in the middle of a request: only what does not
//! happen twice then.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::support::balancer::{Balancer, Kind};
use crate::support::cluster::{ready, url};
use crate::support::http::JSON;

/// Ready, but lost with every message it gets. Returns its port.
async fn failing_gateway(messages: Arc<AtomicUsize>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            tokio::spawn(serve(connection, messages.clone()));
        }
    });
    port
}

async fn serve(mut connection: TcpStream, messages: Arc<AtomicUsize>) {
    let mut request = Vec::new();
    while let Ok(count) = connection.read_buf(&mut request).await {
        let text = String::from_utf8_lossy(&request);
        if text.starts_with("POST") && text.ends_with("{}") {
            messages.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if text.starts_with("GET") && text.ends_with("\r\n\r\n") {
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            let _ = connection.write_all(answer).await;
            return;
        }
        if count == 0 {
            return;
        }
    }
}

pub async fn only_what_does_not_happen_twice_is_sent_again(kind: Kind) {
    let messages = Arc::new(AtomicUsize::new(0));
    let gateways = [
        failing_gateway(messages.clone()).await,
        failing_gateway(messages.clone()).await,
    ];
    let dir = TempDir::new().expect("a temporary directory");
    let balancer = Balancer::start(kind, dir.path(), &gateways);
    ready(balancer.port).await;
    let arrivals = async |headers: &[(&str, &str)]| {
        let before = messages.load(Ordering::Relaxed);
        // On a connection of its own: on an old one HAProxy leaves it to the client to try again.
        let http = reqwest::Client::new();
        let mut request = http.post(url(balancer.port)).body("{}");
        for (name, value) in [JSON].iter().chain(headers) {
            request = request.header(*name, *value);
        }
        let response = request.send().await.expect("the balancer answers");
        assert!(response.status().is_server_error(), "{response:?}");
        messages.load(Ordering::Relaxed) - before
    };
    // An initialize, or a message whose token is in its payload: nobody can tell.
    assert_eq!(arrivals(&[]).await, 1);
    assert_eq!(arrivals(&[("acp-session-id", "a")]).await, 1);
    assert!(arrivals(&[("acp-connection-id", "a")]).await > 1);
    assert!(arrivals(&[("idempotency-key", "a")]).await > 1);
}
