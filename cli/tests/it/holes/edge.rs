//! What strangers, pages and odd requests could do at the edge.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::auth::{A, B, Guarded, write_keys};
use crate::browser::{bearer, login, open, send};
use crate::support::collector::Collector;
use crate::support::websocket::{Socket, initialize};
use crate::support::within;
use crate::traces::parent;

/// Bytes as they stand, on a connection of their own; returns the status line.
async fn raw(url: &str, request: &str) -> String {
    let address = url.trim_start_matches("http://").trim_end_matches("/acp");
    let mut socket = TcpStream::connect(address).await.expect("it listens");
    socket.write_all(request.as_bytes()).await.expect("written");
    let mut answer = vec![0; 4096];
    let read = within("an answer", socket.read(&mut answer)).await;
    let answer = String::from_utf8_lossy(&answer[..read.expect("an answer")]).into_owned();
    answer.lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn l_probes_are_not_read_by_a_page_that_made_its_name_point_here() {
    let guarded = Guarded::with_keys().await;
    for path in ["/metrics", "/healthz", "/readyz", "/.well-known/jwks.json"] {
        let ask = |host: &str| format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        for host in ["evil.example", "evil.example:8080", "10.0.0.1.evil.example"] {
            let answer = raw(&guarded.url, &ask(host)).await;
            assert_eq!(answer, "HTTP/1.1 403 Forbidden", "{path} as {host}");
        }
        // As a kubelet or Prometheus asks, and as people do.
        for host in ["10.0.0.1:8080", "[fd00::1]:8080", "localhost"] {
            let answer = raw(&guarded.url, &ask(host)).await;
            assert_eq!(answer, "HTTP/1.1 200 OK", "{path} as {host}");
        }
    }
}

#[tokio::test]
async fn l_a_page_of_another_port_of_this_machine_does_not_use_a_login() {
    let guarded = Guarded::with_keys().await;
    let url = &guarded.url;
    let cookie = login(url, &bearer(A)).await;
    let cookie = ("cookie", cookie.as_str());
    let own = url.trim_end_matches("/acp");
    let of_another = ("origin", "http://localhost:3001");
    let by_another_name = own.replace("127.0.0.1", "localhost");
    assert_eq!(open(url, &[cookie, ("origin", own)]).await, 200);
    for page in [of_another, ("origin", &by_another_name)] {
        assert_eq!(open(url, &[cookie, page]).await, 401, "{page:?}");
        let asked = send(url, Method::POST, "/v1/tickets", &[cookie, page], None).await;
        assert_eq!(asked.status(), 401, "{page:?}");
        let upgraded = Socket::try_open(url, &[cookie, page]).await;
        assert_eq!(upgraded.err().map(|refused| refused.0), Some(401));
    }
    // It may still show a credential of its own, and is not offered cookies.
    let key = bearer(A);
    let headers = [("authorization", key.as_str()), of_another];
    let answer = send(url, Method::POST, "/acp", &headers, Some(initialize())).await;
    assert_eq!(answer.status(), 200);
    let told = |name: &str| {
        answer
            .headers()
            .get(name)
            .map(|value| value.to_str().unwrap())
    };
    assert_eq!(told("access-control-allow-origin"), Some(of_another.1));
    assert_eq!(told("access-control-allow-credentials"), None);
}

#[tokio::test]
async fn l_two_content_types_are_none() {
    let guarded = Guarded::with_keys().await;
    let body = initialize().to_string();
    let post = |types: &str| {
        let length = body.len();
        format!(
            "POST /acp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \
             {A}\r\n{types}Content-Length: {length}\r\n\r\n{body}"
        )
    };
    let json = "Content-Type: application/json\r\n";
    let plain = "Content-Type: text/plain\r\n";
    assert_eq!(raw(&guarded.url, &post(json)).await, "HTTP/1.1 200 OK");
    for types in [
        format!("{json}{plain}"),
        format!("{plain}{json}"),
        format!("{json}{json}"),
    ] {
        let answer = raw(&guarded.url, &post(&types)).await;
        assert_eq!(answer, "HTTP/1.1 415 Unsupported Media Type", "{types}");
    }
}

#[tokio::test]
async fn l_no_path_has_a_nul() {
    let guarded = Guarded::with_keys().await;
    let alice = guarded.open(A).await;
    let session = alice.new_session().await;
    let nul = "/tmp\0/etc";
    let told = |answer: &Value| {
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        answer["error"]["message"].as_str().unwrap().to_owned()
    };
    for (id, method, params) in [
        (2, "session/new", json!({ "cwd": nul, "mcpServers": [] })),
        (
            3,
            "session/new",
            json!({ "cwd": "/tmp", "mcpServers": [], "additionalDirectories": ["/a", nul] }),
        ),
        (
            4,
            "session/load",
            json!({ "sessionId": session, "cwd": nul, "mcpServers": [] }),
        ),
        (
            5,
            "session/fork",
            json!({ "sessionId": session, "cwd": nul }),
        ),
        (
            6,
            "session/resume",
            json!({ "sessionId": session, "cwd": nul }),
        ),
        (7, "session/list", json!({ "cwd": nul })),
    ] {
        let message = told(&alice.call(id, method, params).await);
        let field = if id == 3 {
            "additionalDirectories"
        } else {
            "cwd"
        };
        assert!(message.contains(field), "{method}: {message}");
        assert!(message.contains("NUL"), "{method}: {message}");
    }
}

#[tokio::test]
async fn l_a_socket_ends_with_its_connection_before_it_says_anything() {
    let guarded = Guarded::with_keys().await;
    let key = bearer(A);
    let mut socket = Socket::try_open(&guarded.url, &[("authorization", &key)])
        .await
        .expect("an upgrade");
    let mut other = Socket::try_open(&guarded.url, &[("authorization", &key)])
        .await
        .expect("an upgrade");
    let named = [("acp-connection-id", socket.connection())];
    let deleted = guarded.send(Method::DELETE, Some(A), &named, None).await;
    assert_eq!(deleted.status(), StatusCode::ACCEPTED);
    assert_eq!(within("the end of the socket", socket.closed()).await, 1000);
    // Nobody else's does.
    other.send(initialize()).await;
    assert_eq!(other.next().await["result"]["protocolVersion"], 1);
}

#[tokio::test]
async fn l_strangers_do_not_decide_what_is_recorded() {
    let collector = Collector::start().await;
    let dir = tempfile::TempDir::new().expect("a temporary directory");
    write_keys(dir.path(), &[("alice", A), ("bob", B)]);
    let keys = ["--auth", "keys", "--auth-keys", "api-keys.json"];
    let guarded = Guarded::start_in(dir, &keys, |command| {
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint);
        command.env("BATON_TRACE_SAMPLE", "0");
        command.env("OTEL_BSP_SCHEDULE_DELAY", "50");
    })
    .await;
    let ask = async |credential: Option<&str>, trace: &str| {
        let headers = [("traceparent", trace)];
        let answer = guarded.send(Method::POST, credential, &headers, Some(initialize()));
        answer.await.status()
    };
    let (strange, strangers_trace) = parent('a', true);
    for wrong in [None, Some("bk_nobody-has-this-one-0000000000000000000000")] {
        assert_eq!(ask(wrong, &strange).await, 401);
    }
    let (known, callers_trace) = parent('b', true);
    assert_eq!(ask(Some(A), &known).await, 200);
    collector.span(&callers_trace, "POST /acp").await;
    let spans = collector.spans();
    let forced = spans.iter().any(|span| span.trace == strangers_trace);
    assert!(!forced, "a stranger had its requests recorded");
}
