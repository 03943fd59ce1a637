//! What must not be told: tokens and credentials stay out of everything a process writes down.

use jsonwebtoken::Algorithm;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::auth::Guarded;
use crate::auth::provider::{self, Provider, claims};
use crate::browser::{bearer, login};
use crate::dpop::{self, Holder};
use crate::support::auth::ALICE;
use crate::support::cluster::{address, ready, url};
use crate::support::http::{JSON, ONE_SHOT, load, new_session, prompt};
use crate::support::process::{Process, baton, free_port};
use crate::support::websocket::{Socket, initialize};
use crate::support::{Client, Cluster, Collector, Stream};

/// What the collector wants to see is nobody else's business.
const COLLECTOR: &str = "a-key-for-the-collector-that-nobody-may-read-000";
const KEY: &str = "bk_a-key-that-nobody-may-ever-read-in-a-log-000";

const WORDS: &str = "what is said is said to the agent alone";

/// Everything secret that came by.
#[derive(Default)]
struct Seen(Vec<String>);

impl Seen {
    fn note(&mut self, value: &str) {
        self.0.push(value.to_owned());
    }

    fn note_answer(&mut self, answer: &Value) {
        let token = &answer["result"]["_meta"]["baton/session"]["token"];
        self.0.extend(token.as_str().map(str::to_owned));
    }
}

/// What MCP servers want to see is for the agent to keep.
fn servers(seen: &mut Seen) -> Value {
    let (key, variable) = (
        "an-mcp-servers-key-in-a-header",
        "another-in-its-environment",
    );
    seen.note(key);
    seen.note(variable);
    json!([
        { "type": "http", "name": "near", "url": "http://localhost:9/mcp",
          "headers": [{ "name": "authorization", "value": key }] },
        { "name": "own", "command": "/bin/true", "args": [],
          "env": [{ "name": "KEY", "value": variable }] },
    ])
}

#[tokio::test]
async fn row_22_leakage_in_logs() {
    let collector = Collector::start().await;
    let dir = TempDir::new().expect("a temporary directory");
    let hash = Sha256::digest(KEY);
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    let keys = json!({ "keys": [{ "principal": "alice", "sha256": hash }] });
    std::fs::write(dir.path().join("api-keys.json"), keys.to_string()).unwrap();
    let port = free_port();
    let mut command = baton();
    command.current_dir(dir.path()).env("BATON_LOG", "trace");
    command.args(["serve", "--data-dir", "data", "--listen", &address(port)]);
    command.args(["--auth", "keys", "--auth-keys", "api-keys.json"]);
    command.args(["--allow-origin", "http://localhost:3000"]);
    command.args(["--otlp-endpoint", &collector.endpoint]);
    command.args(["--allow-mcp-stdio", "/bin/true", "--allow-mcp-env", "KEY"]);
    command.args(["--allow-mcp-url", "http://localhost:9"]);
    let header = format!("authorization=Bearer {COLLECTOR}");
    command.env("OTEL_EXPORTER_OTLP_HEADERS", header);
    let mut process = Process::start(dir.path(), "serve", &mut command);
    ready(port).await;

    let mut seen = Seen::default();
    seen.note(KEY);
    seen.note(COLLECTOR);
    seen.note(WORDS);
    let http = reqwest::Client::new();
    let send = async |method: Method, headers: &[(&str, &str)], body: Option<Value>| {
        let mut request = http.request(method, url(port)).bearer_auth(KEY);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json");
            request = request.body(body.to_string());
        }
        request.send().await.expect("the gateway answers")
    };
    let opened = send(Method::POST, &[], Some(initialize())).await;
    let connection = opened.headers()["acp-connection-id"]
        .to_str()
        .unwrap()
        .to_owned();
    seen.note(&connection);
    let page = "http://localhost:3000";
    let one_shot = [
        ("acp-connection-id", connection.as_str()),
        ("accept", "text/event-stream"),
        ("origin", page),
    ];
    let mut token = String::new();
    let mut session = String::new();
    for id in ["a", "b"] {
        let mut message = match id {
            "a" => new_session(json!(id)),
            _ => load(json!(id), &session),
        };
        message["params"]["mcpServers"] = servers(&mut seen);
        let response = send(Method::POST, &one_shot, Some(message)).await;
        for name in ["acp-session-token", "set-cookie"] {
            let value = response.headers()[name].to_str().unwrap();
            let value = value.split(';').next().unwrap().rsplit('=').next().unwrap();
            seen.note(value);
            value.clone_into(&mut token);
        }
        let answer = Stream::unchecked(response).response(&json!(id)).await;
        seen.note_answer(&answer);
        if let Some(named) = answer["result"]["sessionId"].as_str() {
            named.clone_into(&mut session);
        }
    }
    // By itself, in the payload, and wrong.
    let alone = [
        ("acp-session-token", token.as_str()),
        ("accept", "text/event-stream"),
    ];
    let response = send(
        Method::POST,
        &alone,
        Some(prompt(json!(1), &session, WORDS)),
    )
    .await;
    Stream::unchecked(response).turn(&json!(1)).await;
    let mut message = prompt(json!(2), &session, WORDS);
    message["params"]["_meta"] = json!({ "baton/session": { "token": token } });
    let response = send(Method::POST, &one_shot, Some(message)).await;
    Stream::unchecked(response).turn(&json!(2)).await;
    let http2 = reqwest::Client::builder().http2_prior_knowledge().build();
    let request = http2.unwrap().post(url(port)).bearer_auth(KEY);
    let request = request.header("acp-session-token", &token);
    let request = request.header("content-type", "application/json");
    let request = request.header("accept", "text/event-stream");
    let message = prompt(json!(3), &session, WORDS).to_string();
    let response = request.body(message).send().await.expect("an answer");
    Stream::unchecked(response).turn(&json!(3)).await;
    for value in [&connection, &token] {
        let wrong = format!("{}AAAAAAAAAAAAAAAAAAAAAAAA", &value[..value.len() - 24]);
        seen.note(&wrong);
        let headers = [
            ("acp-connection-id", wrong.as_str()),
            ("accept", "text/event-stream"),
        ];
        let response = send(Method::GET, &headers, None).await;
        assert_eq!(response.status(), StatusCode::NOT_FOUND);
        let headers = [
            ("acp-session-token", wrong.as_str()),
            ("accept", "text/event-stream"),
        ];
        let response = send(Method::GET, &headers, None).await;
        assert_eq!(response.status(), StatusCode::NOT_FOUND);
    }
    // Where they don't belong.
    for secret in [KEY, &connection, &token] {
        let lost = json!({ "jsonrpc": "2.0", "id": secret, "method": secret, "params": { "sessionId": secret } });
        let headers = [
            ("acp-connection-id", connection.as_str()),
            ("acp-session-id", secret),
            ("traceparent", secret),
        ];
        send(Method::POST, &headers, Some(lost)).await;
        let path = format!("/v1/sessions/{secret}/export");
        let export = http.get(url(port).replace("/acp", &path)).bearer_auth(KEY);
        assert_eq!(export.send().await.unwrap().status(), StatusCode::NOT_FOUND);
    }
    let stranger = "bk_a-key-that-is-not-in-the-file-00000000000000";
    seen.note(stranger);
    let refused = http.get(url(port)).bearer_auth(stranger).send().await;
    assert_eq!(refused.unwrap().status(), StatusCode::UNAUTHORIZED);

    // What stands for the key, asked for and used.
    let base = url(port).replace("/acp", "");
    let post = |path: &str| http.post(format!("{base}{path}")).header(JSON.0, JSON.1);
    let asked = post("/v1/tickets").bearer_auth(KEY);
    let answer = asked.send().await.unwrap().text().await.unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let ticket = answer["ticket"].as_str().unwrap();
    seen.note(ticket);
    let offered = format!("acp, baton.ticket.{ticket}");
    let offered = [("sec-websocket-protocol", offered.as_str())];
    let mut socket = Socket::try_open(&url(port), &offered)
        .await
        .expect("let in");
    assert!(Socket::try_open(&url(port), &offered).await.is_err());
    seen.note(socket.connection());
    socket.send(initialize()).await;
    socket.next().await;
    let mut message = load(json!(4), &session);
    message["params"]["mcpServers"] = servers(&mut seen);
    message["params"]["_meta"] = json!({ "baton/session": { "token": token } });
    socket.send(message).await;
    loop {
        let heard = socket.next().await;
        seen.note_answer(&heard);
        if heard["id"] == 4 {
            break;
        }
    }
    let login = post("/v1/login").bearer_auth(KEY);
    let login = login.send().await.unwrap();
    let cookie = login.headers()["set-cookie"].to_str().unwrap();
    let cookie = cookie.split(';').next().unwrap();
    seen.note(cookie.rsplit('=').next().unwrap());
    for expected in [StatusCode::NO_CONTENT, StatusCode::UNAUTHORIZED] {
        let logout = post("/v1/logout");
        let logout = logout.header("cookie", cookie).header("origin", page);
        assert_eq!(logout.send().await.unwrap().status(), expected);
    }

    let metrics = reqwest::get(url(port).replace("/acp", "/metrics")).await;
    let metrics = metrics.unwrap().text().await.unwrap();
    process.signal("TERM");
    process.exit_status().await;
    let told = process.output();
    assert!(told.contains("TRACE"), "it tells all it can");
    let traced = collector.bytes();
    let traced = String::from_utf8_lossy(&traced);
    let spans = collector.spans();
    for name in ["POST /acp", "GET /acp", "session.turn", "deliver"] {
        assert!(spans.iter().any(|span| span.name == name), "{name}");
    }
    assert!(traced.contains(&session), "what is no secret can be found");
    for secret in &seen.0 {
        assert!(secret.len() > 20, "something was noted: {secret}");
        assert!(!told.contains(secret), "in the log: {secret}");
        // Nor the part that makes it good.
        let signature = secret.rsplit('.').next().unwrap();
        assert!(!told.contains(signature), "in the log: {signature}");
        assert!(!metrics.contains(signature), "in the metrics: {signature}");
        assert!(!traced.contains(signature), "in the traces: {signature}");
    }
}

/// Those of an identity provider, good and bad ones, and the proofs that go with them.
#[tokio::test]
async fn bearers_and_proofs_are_not_told_either() {
    let collector = Collector::start().await;
    let provider = Provider::new("k1");
    let holder = Holder::new(Algorithm::ES256);
    let dir = TempDir::new().expect("a temporary directory");
    provider.publish(dir.path());
    let arguments = [
        &provider::arguments("jwks.json")[..],
        &["--otlp-endpoint", &collector.endpoint],
    ];
    let mut guarded = Guarded::start_in(dir, &arguments.concat(), |command| {
        command.env("BATON_LOG", "trace");
    })
    .await;
    let mut seen = Seen::default();
    let plain = provider.token("k1", &claims("alice"));
    let unknown = provider.token("k2", &claims("alice"));
    let bound = holder.token(&provider);
    let proof = holder.proof("POST", &guarded.url, &bound);
    for (expected, scheme, token, proof) in [
        (200, "Bearer", &plain, "a.proof.that-nobody-has-asked-for"),
        (401, "Bearer", &unknown, "a.proof.that-nobody-has-asked-for"),
        (401, "DPoP", &bound, "a.proof.that-is-not-good-at-all"),
        (200, "DPoP", &bound, &proof),
        (401, "DPoP", &bound, &proof),
    ] {
        let credential = format!("{scheme} {token}");
        let headers = [("authorization", credential.as_str()), ("dpop", proof)];
        let answer = dpop::open(&guarded.url, &headers).await;
        assert_eq!(answer.status().as_u16(), expected, "{scheme} {proof}");
        seen.note(token);
        seen.note(proof);
        if let Some(connection) = answer.headers().get("acp-connection-id") {
            seen.note(connection.to_str().unwrap());
        }
    }
    guarded.process.signal("TERM");
    guarded.process.exit_status().await;
    let told = guarded.process.output();
    assert!(told.contains("TRACE"), "it tells all it can");
    let traced = collector.bytes();
    let traced = String::from_utf8_lossy(&traced);
    assert!(traced.contains("POST /acp"), "spans have come");
    for secret in &seen.0 {
        let signature = secret.rsplit('.').next().unwrap();
        assert!(signature.len() > 20, "something was noted: {secret}");
        assert!(!told.contains(signature), "in the log: {secret}");
        assert!(!traced.contains(signature), "in the traces: {secret}");
    }
}

#[tokio::test]
async fn row_24_leakage_to_agents() {
    let cluster = Cluster::start_with_keys().await;
    let url = cluster.gateway_url(0);
    let mut seen = Seen::default();
    let client = Client::with_key(&url, ALICE).await;
    seen.note(ALICE);
    seen.note(&client.token);
    let response = client
        .send(&[JSON, ONE_SHOT], new_session(json!("a")).to_string())
        .await;
    let token = response.headers()["acp-session-token"]
        .to_str()
        .unwrap()
        .to_owned();
    seen.note(&token);
    let answer = client.stream(response).response(&json!("a")).await;
    seen.note_answer(&answer);
    let session = answer["result"]["sessionId"].as_str().unwrap().to_owned();
    let cookie = login(&url, &bearer(ALICE)).await;
    seen.note(cookie.split_once('=').unwrap().1);
    let secret = "only-between-the-client-and-the-gateway";
    seen.note(secret);
    let headers = [
        JSON,
        ONE_SHOT,
        ("acp-session-token", token.as_str()),
        ("cookie", &cookie),
        ("x-secret", secret),
        ("user-agent", secret),
    ];
    // In the header and in the message, with every kind of command.
    let carrying = |mut message: Value| {
        let carried = json!({ "baton/session": { "token": token }, "kept": "for the agent" });
        message["params"]["_meta"] = carried;
        message
    };
    let about = json!({ "sessionId": session });
    let request = |id: u64, method: &str, more: Value| {
        let mut params = about.clone();
        params
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
    };
    let script = "a word that is kept\n/servers\n/bound";
    for message in [
        prompt(json!(1), &session, script),
        request(2, "session/set_mode", json!({ "modeId": "ask" })),
        load(json!(3), &session),
        request(
            4,
            "session/fork",
            json!({ "cwd": "/tmp", "mcpServers": [] }),
        ),
        request(5, "_extension", json!({})),
        request(6, "session/close", json!({})),
    ] {
        let id = message["id"].clone();
        let response = client.send(&headers, carrying(message).to_string()).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert!(!response.headers().contains_key("set-cookie"));
        let renewed = response.headers().get("acp-session-token");
        if let Some(renewed) = renewed {
            seen.note(renewed.to_str().unwrap());
        }
        let (before, answer) = client.stream(response).until_response(&id).await;
        seen.note_answer(&answer);
        for event in before {
            assert!(
                !event.data.contains(secret) && !event.data.contains(&token),
                "{event:?}"
            );
        }
    }
    let key = bearer(ALICE);
    let upgrade = [
        ("authorization", key.as_str()),
        ("acp-session-token", &token),
    ];
    let mut socket = Socket::try_open(&url, &upgrade).await.expect("let in");
    seen.note(socket.connection());
    socket.send(initialize()).await;
    socket.next().await;
    socket.send(carrying(load(json!(7), &session))).await;
    while socket.next().await["id"] != 7 {}

    // Whatever a worker gets, it gets from Redis.
    let stored = cluster.redis.written();
    let has = |text: &str| memchr::memmem::find(&stored, text.as_bytes()).is_some();
    assert!(has("a word that is kept") && has("for the agent"));
    for secret in &seen.0 {
        let signature = secret.rsplit('.').next().unwrap();
        assert!(
            !has(secret) && !has(signature),
            "a worker could see {secret}"
        );
        for worker in &cluster.workers {
            assert!(
                !worker.output().contains(signature),
                "a worker told {secret}"
            );
        }
    }
}
