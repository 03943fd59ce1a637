//! Bad input gets a clear error, and only what is wrong with the request as such gets a status.

use std::time::Duration;

use baton_session::token::KeyRing;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::support::http::{JSON, new_session, prompt};
use crate::support::process::{baton, free_port};
use crate::support::{Client, Cluster, Served, within};

async fn refusal(
    client: &Client,
    headers: &[(&str, &str)],
    body: impl Into<reqwest::Body>,
) -> (StatusCode, Value) {
    let response = client.send(headers, body).await;
    let status = response.status();
    let text = response.text().await.expect("a body");
    (
        status,
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text:?}")),
    )
}

/// The error that comes on the stream for a message that was accepted.
async fn error_on_stream(client: &Client, message: Value) -> Value {
    let mut stream = client.connection_stream(None).await;
    let id = message["id"].clone();
    client.post(message).await;
    stream.response(&id).await["error"].clone()
}

fn message(error: &Value) -> &str {
    error["message"].as_str().expect("errors have a message")
}

#[tokio::test]
async fn a_body_that_is_not_json() {
    let baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    for body in ["", "hello", "{\"jsonrpc\":\"2.0\",", "[1,"] {
        let (status, answer) = refusal(&client, &[JSON], body).await;
        assert_eq!(
            (status, &answer["error"]["code"]),
            (StatusCode::BAD_REQUEST, &json!(-32700)),
            "{body:?}"
        );
    }
}

#[tokio::test]
async fn a_batch_or_something_that_is_no_message() {
    let baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    let bodies = [
        "[]",
        r#"[{"jsonrpc":"2.0","id":1,"method":"session/list"}]"#,
        "{}",
        "17",
        r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#,
        r#"{"jsonrpc":"2.0","id":[],"method":"x"}"#,
    ];
    for body in bodies {
        let (status, answer) = refusal(&client, &[JSON], body).await;
        assert_eq!(
            (status, &answer["error"]["code"]),
            (StatusCode::BAD_REQUEST, &json!(-32600)),
            "{body:?}"
        );
    }
}

#[tokio::test]
async fn session_new_names_the_field_and_what_to_send() {
    let baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    let new = |id: u64, params: Value| json!({ "jsonrpc": "2.0", "id": id, "method": "session/new", "params": params });
    let cases = [
        (json!({ "cwd": "/tmp" }), "params.mcpServers", "[]"),
        (
            json!({ "cwd": "/tmp", "mcpServers": {} }),
            "params.mcpServers",
            "[]",
        ),
        (
            json!({ "cwd": "project", "mcpServers": [] }),
            "params.cwd",
            "absolute",
        ),
        (json!({ "mcpServers": [] }), "params.cwd", "absolute"),
        (json!([]), "params", "object"),
    ];
    for (number, (params, field, advice)) in cases.into_iter().enumerate() {
        let error = error_on_stream(&client, new(number as u64, params)).await;
        assert_eq!(error["code"], -32602);
        assert!(
            message(&error).contains(field) && message(&error).contains(advice),
            "{error}"
        );
    }
}

#[tokio::test]
async fn an_unknown_session_is_accepted_and_answered_on_the_stream() {
    let baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    for (number, session) in ["000-AAAAAAAAAAAAAAAAAAAAAA", "no such thing"]
        .into_iter()
        .enumerate()
    {
        let error = error_on_stream(&client, prompt(json!(number), session, "hello")).await;
        assert_eq!(error["code"], -32002);
        assert!(message(&error).contains(session), "{error}");
    }
}

#[tokio::test]
async fn an_unknown_method_and_an_unknown_directive_value() {
    let baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    let error = error_on_stream(
        &client,
        json!({ "jsonrpc": "2.0", "id": 1, "method": "session/dance", "params": {} }),
    )
    .await;
    assert_eq!(error["code"], -32601);
    let session = client.new_session().await;
    let mode = json!({ "sessionId": session, "modeId": "dance" });
    let mut stream = client
        .one_shot(
            json!({ "jsonrpc": "2.0", "id": 2, "method": "session/set_mode", "params": mode }),
        )
        .await;
    let error = stream.response(&json!(2)).await["error"].clone();
    assert_eq!(error["code"], -32602);
    assert!(message(&error).contains("ask, code, architect"), "{error}");
}

#[tokio::test]
async fn forged_and_foreign_tokens_get_one_answer() {
    let baton = Served::start().await;
    let elsewhere = Served::start().await;
    let good = Client::initialize(&baton.url()).await;
    let foreign = Client::initialize(&elsewhere.url()).await.at(&baton.url());
    let mut forged = good.at(&baton.url());
    let last = forged.token.pop().expect("a token");
    forged.token.push(if last == 'A' { 'B' } else { 'A' });
    let mut unsigned = good.at(&baton.url());
    unsigned.token = "eyJ0eXAiOiJiYXRvbi1jb25uZWN0aW9uK2p3dCIsImFsZyI6Im5vbmUifQ.e30.".into();
    let mut answers = Vec::new();
    for client in [&foreign, &forged, &unsigned] {
        let post = client
            .send(&[JSON], new_session(json!(1)).to_string())
            .await;
        let get = client.get(&[]).await;
        for response in [post, get] {
            assert_eq!(response.status(), StatusCode::NOT_FOUND);
            answers.push(response.text().await.expect("a body"));
        }
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
}

#[tokio::test]
async fn an_expired_token_gets_the_answer_of_an_unknown_one() {
    let cluster = Cluster::start().await;
    let mut client = Client::initialize(&cluster.url()).await;
    let good = client.token.clone();
    let keys = KeyRing::parse(&cluster.keys()).expect("the gateways' keys");
    let connection = keys.verify_connection(&good).expect("a good token");
    let expired = keys.sign_connection(&connection, Duration::ZERO);
    client.token = expired.expose().to_owned();
    let (expired, body) = refusal(&client, &[JSON], new_session(json!(1)).to_string()).await;
    client.token = good.replace('.', "");
    let (unknown, other) = refusal(&client, &[JSON], new_session(json!(1)).to_string()).await;
    assert_eq!(
        (expired, unknown),
        (StatusCode::NOT_FOUND, StatusCode::NOT_FOUND)
    );
    assert_eq!(body, other);
}

/// Announces a body of this size and returns the status line that comes before any of it was sent.
async fn announce(url: &str, token: &str, size: usize) -> String {
    let address = url.trim_start_matches("http://").trim_end_matches("/acp");
    let mut socket = TcpStream::connect(address)
        .await
        .expect("the gateway listens");
    let head = format!(
        "POST /acp HTTP/1.1\r\nHost: {address}\r\nContent-Type: \
         application/json\r\nAcp-Connection-Id: {token}\r\nContent-Length: {size}\r\n\r\n"
    );
    socket
        .write_all(head.as_bytes())
        .await
        .expect("the gateway reads");
    let mut line = String::new();
    let mut reader = BufReader::new(socket);
    within("a status line", reader.read_line(&mut line))
        .await
        .expect("the gateway answers");
    line.trim_end().to_owned()
}

#[tokio::test]
async fn wrong_content_type_accept_size_and_method() {
    let baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    let body = new_session(json!(1)).to_string();
    let text = refusal(&client, &[("content-type", "text/plain")], body.clone()).await;
    assert_eq!(text.0, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let html = refusal(&client, &[JSON, ("accept", "text/html")], body).await;
    assert_eq!(html.0, StatusCode::NOT_ACCEPTABLE);
    let http = reqwest::Client::new();
    let get = http
        .get(baton.url())
        .header("acp-connection-id", &client.token)
        .header("accept", "application/json");
    assert_eq!(
        get.send().await.expect("an answer").status(),
        StatusCode::NOT_ACCEPTABLE
    );
    let put = http.put(baton.url()).send().await.expect("an answer");
    assert_eq!(put.status(), StatusCode::METHOD_NOT_ALLOWED);
    let too_large = announce(&baton.url(), &client.token, (16 << 20) + 1).await;
    assert_eq!(too_large, "HTTP/1.1 413 Payload Too Large");
    let announced = client
        .send(
            &[JSON, ("expect", "100-continue")],
            vec![b' '; (16 << 20) - 1],
        )
        .await;
    assert_eq!(
        announced.status(),
        StatusCode::BAD_REQUEST,
        "just below the limit it is read, and is not JSON"
    );
}

#[tokio::test]
async fn ids_come_back_byte_for_byte() {
    let baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    let session = client.new_session().await;
    for id in [
        "9223372036854775807",
        "-1",
        "\"\"",
        "\"\\u00e9\\n\"",
        "\"0\"",
    ] {
        let body = prompt(json!("ID"), &session, "hi")
            .to_string()
            .replacen("\"ID\"", id, 1);
        let mut stream = client.stream(
            client
                .send(&[JSON, ("accept", "text/event-stream")], body)
                .await,
        );
        let mut last = String::new();
        while let Some(event) = stream.next().await {
            last = event.data;
        }
        assert_eq!(
            last,
            format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"stopReason\":\"end_turn\"}}}}"
            )
        );
    }
}

#[tokio::test]
async fn without_a_worker_initialize_says_so_and_still_opens_a_connection() {
    let redis = crate::support::Redis::start().await;
    let dir = tempfile::TempDir::new().expect("a temporary directory");
    let keys = dir.path().join("keys.json");
    std::fs::write(
        &keys,
        baton()
            .args(["token", "keygen"])
            .output()
            .expect("baton runs")
            .stdout,
    )
    .expect("writable");
    let address = format!("127.0.0.1:{}", free_port());
    let mut command = baton();
    command
        .args([
            "gateway",
            "--store",
            &redis.store(),
            "--listen",
            &address,
            "--keys",
        ])
        .arg(&keys);
    let _gateway = crate::support::process::Process::start(dir.path(), "gateway", &mut command);
    let url = format!("http://{address}/acp");
    let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": { "protocolVersion": 1 } }).to_string();
    let response = crate::support::until("the gateway listens", async || {
        reqwest::Client::new()
            .post(&url)
            .header(JSON.0, JSON.1)
            .body(body.clone())
            .send()
            .await
            .ok()
    })
    .await;
    assert_eq!(response.status(), StatusCode::OK);
    assert!(response.headers().contains_key("acp-connection-id"));
    let answer: Value =
        serde_json::from_str(&response.text().await.expect("a body")).expect("JSON");
    assert_eq!(answer["error"]["code"], 5001);
    assert!(
        message(&answer["error"]).contains("baton worker"),
        "{answer}"
    );
}
