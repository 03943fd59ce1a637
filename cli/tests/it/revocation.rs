//! What is revoked at one gateway is refused by all, now and after a restart.

use reqwest::{Response, StatusCode};
use serde_json::{Value, json};

use crate::support::auth::{ALICE, BOB, write_keys};
use crate::support::cluster::redis_cli;
use crate::support::http::{JSON, load, new_session, prompt};
use crate::support::process::{ADMIN_TOKEN, baton, free_port};
use crate::support::sse::counted;
use crate::support::websocket::{Socket, initialize};
use crate::support::{Client, Cluster, Served, Stream, within};

pub fn revoke(admin: &str, subject: &str, name: &str) {
    let output = baton()
        .args(["token", "revoke", "--admin", admin, subject, name])
        .output()
        .expect("baton runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

/// Reads whatever is left; only the end matters.
pub async fn ends(mut stream: Stream) {
    within("the stream ends", async {
        while stream.block().await.is_some() {}
    })
    .await;
}

/// All that a refusal says, but for when it did.
pub async fn said(response: Response) -> (StatusCode, Vec<(String, String)>, String) {
    let status = response.status();
    let headers = response.headers().iter();
    let headers = headers
        .filter(|(name, _)| *name != "date")
        .map(|(name, value)| (name.to_string(), format!("{value:?}")))
        .collect();
    (status, headers, response.text().await.expect("a body"))
}

pub async fn asked(client: &Client) -> Response {
    client
        .send(&[JSON], new_session(json!(77)).to_string())
        .await
}

pub async fn is_refused(client: &Client) {
    assert_eq!(asked(client).await.status(), StatusCode::NOT_FOUND);
    assert_eq!(client.get(&[]).await.status(), StatusCode::NOT_FOUND);
    assert_eq!(client.delete().await, StatusCode::NOT_FOUND);
}

pub async fn works(client: &Client) {
    let session = client.new_session().await;
    let turn = client.one_shot(prompt(json!("works"), &session, "/count 3"));
    assert_eq!(turn.await.turn(&json!("works")).await, counted(3, 1));
}

#[tokio::test]
async fn a_revoked_connection_ends_at_every_gateway() {
    let cluster = Cluster::start().await;
    let here = Client::initialize(&cluster.gateway_url(0)).await;
    let there = here.at(&cluster.gateway_url(1));
    let session = here.new_session().await;
    let (idle, reading) = (
        there.connection_stream(None).await,
        there.session_stream(&session, None).await,
    );
    // Always something to write, and then nothing for long.
    let busy = there
        .one_shot(prompt(json!(1), &session, "/count 1000000"))
        .await;
    let other = Client::initialize(&cluster.gateway_url(1)).await;
    let mut watched = other.connection_stream(None).await;

    revoke(&cluster.admin_url(0), "--connection", &here.token);
    is_refused(&here).await;
    ends(idle).await;
    ends(reading).await;
    ends(busy).await;
    is_refused(&there).await;

    other.post(new_session(json!(5))).await;
    let answer = watched.response(&json!(5)).await;
    assert!(answer.get("result").is_some(), "{answer}");
    let after = Client::initialize(&cluster.gateway_url(1)).await;
    works(&after).await;
}

#[tokio::test]
async fn a_revoked_socket_is_closed_while_it_is_idle() {
    let cluster = Cluster::start().await;
    let mut socket = Socket::open(&cluster.gateway_url(1), true).await;
    socket.send(initialize()).await;
    let opened = socket.next().await;
    let token = opened["message"]["result"]["_meta"]["baton/connection"]["token"].clone();
    let token = token.as_str().expect("a token");
    let mut other = Socket::open(&cluster.gateway_url(1), false).await;
    other.send(initialize()).await;
    assert_eq!(other.next().await["id"], 0);

    revoke(&cluster.admin_url(0), "--connection", token);
    // Pings would keep a socket that stays open from being missed.
    let code = within("the socket is closed", socket.closed()).await;
    assert_eq!(code, 4003);
    let mut again = Socket::open(&cluster.gateway_url(1), true).await;
    again
        .send(json!({ "resume": { "connection": token, "cursor": "0" } }))
        .await;
    assert_eq!(again.closed().await, 4001);
    other.send(new_session(json!(1))).await;
    assert_eq!(other.next().await["id"], 1);
}

#[tokio::test]
async fn a_revoked_session_is_out_of_reach_for_those_who_had_it() {
    let cluster = Cluster::start().await;
    let client = Client::initialize(&cluster.gateway_url(1)).await;
    let session = client.new_session().await;
    let reading = client.session_stream(&session, None).await;
    let mut connection = client.connection_stream(None).await;

    revoke(&cluster.admin_url(0), "--session", &session);
    ends(reading).await;
    // The connection and its other sessions go on.
    for message in [
        prompt(json!(1), &session, "/count 1"),
        load(json!(2), &session),
    ] {
        client.post(message.clone()).await;
        let answer = connection.response(&message["id"]).await;
        assert_eq!(answer["error"]["code"], -32002, "{answer}");
    }
    works(&client).await;

    // It is its owner's still: a connection from after that is let in.
    let until = async || {
        let again = Client::initialize(&cluster.gateway_url(0)).await;
        let mut loaded = again.one_shot(load(json!(1), &session)).await;
        let answer = loaded.response(&json!(1)).await;
        answer.get("result").map(drop)
    };
    crate::support::until("the session can be loaded", until).await;
}

#[tokio::test]
async fn what_no_signal_told_is_found_all_the_same() {
    let cluster = Cluster::start().await;
    let client = Client::initialize(&cluster.gateway_url(1)).await;
    let stream = client.connection_stream(None).await;
    let far = 4_000_000_000_u64;
    let line = format!("1 {far} 0 {far} p anonymous");
    let key = "baton:{revoked}:all";
    redis_cli(cluster.redis.port, &["hset", key, "p anonymous", &line]);
    ends(stream).await;
    is_refused(&client).await;
}

#[tokio::test]
async fn one_process_remembers_what_was_revoked() {
    let admin = format!("127.0.0.1:{}", free_port());
    let dir = tempfile::tempdir().expect("a temporary directory");
    let keys = write_keys(dir.path());
    let mut baton = Served::start_with(&[
        "--auth",
        "keys",
        "--auth-keys",
        &keys,
        "--admin-listen",
        &admin,
    ])
    .await;
    let url = baton.url();
    let (alice, bob) = (
        Client::with_key(&url, ALICE).await,
        Client::with_key(&url, BOB).await,
    );
    let (gone, kept) = (
        Client::with_key(&url, BOB).await,
        bob.connection_stream(None).await,
    );
    let stream = alice.connection_stream(None).await;
    let admin = format!("http://{admin}");
    revoke(&admin, "--principal", "key:alice");
    revoke(&admin, "--connection", &gone.token);
    ends(stream).await;
    drop(kept);
    for _ in 0..2 {
        is_refused(&alice).await;
        is_refused(&gone).await;
        works(&bob).await;
        baton.kill_and_restart().await;
    }
    works(&Client::with_key(&url, ALICE).await).await;
    let listed = reqwest::Client::new().get(format!("{admin}/revocations"));
    let listed = listed.bearer_auth(ADMIN_TOKEN).send().await;
    let listed = listed.expect("an answer").text().await.expect("a body");
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    let listed = listed["revocations"].as_array().expect("a list");
    assert_eq!(listed.len(), 2, "{listed:?}");
    assert!(listed.iter().any(|one| one["principal"] == "key:alice"));
}

#[tokio::test]
async fn administrators_have_a_port_of_their_own_and_are_told_what_is_wrong() {
    let port = free_port();
    let baton_one = Served::start_with(&["--admin-listen", &format!("127.0.0.1:{port}")]).await;
    let http = reqwest::Client::new();
    let url = format!("http://127.0.0.1:{port}/revocations");
    let post = async |url: &str, name: &str, value: &str, body: &str| {
        let request = http.post(url).header(name, value).body(body.to_owned());
        let request = request.bearer_auth(ADMIN_TOKEN);
        let response = request.send().await.expect("an answer");
        let status = response.status().as_u16();
        (status, response.text().await.expect("a body"))
    };
    for (body, reason) in [
        ("", "send one of"),
        ("[]", "send one of"),
        ("{}", "send one of"),
        (r#"{"principal":"a","session":"b"}"#, "send one of"),
        (r#"{"everything":"*"}"#, "send one of"),
        (r#"{"principal":7}"#, "send one of"),
        (r#"{"session":"a"}"#, "not a session id"),
        (r#"{"connection":"a.b.c"}"#, "nor a valid connection token"),
        (r#"{"principal":""}"#, "1 to 256 bytes"),
        ("{\"principal\":\"a\\nb\"}", "1 to 256 bytes"),
    ] {
        let (status, text) = post(&url, JSON.0, JSON.1, body).await;
        assert_eq!(status, 400, "{body}: {text}");
        assert!(text.contains(reason), "{body}: {text}");
    }
    let anonymous = r#"{"principal":"anonymous"}"#;
    assert_eq!(
        post(&url, "content-type", "text/plain", anonymous).await.0,
        415
    );
    assert_eq!(
        post(&url, "origin", "https://evil.example", anonymous)
            .await
            .0,
        403
    );
    let public = baton_one.url().replace("/acp", "/revocations");
    assert_eq!(post(&public, JSON.0, JSON.1, anonymous).await.0, 404);
    let listed = http.get(&url).bearer_auth(ADMIN_TOKEN).send().await;
    let listed = listed.expect("an answer");
    assert_eq!(
        listed.text().await.expect("a body"),
        r#"{"revocations":[]}"#
    );
    let health = reqwest::get(format!("http://127.0.0.1:{port}/healthz")).await;
    assert!(health.expect("an answer").status().is_success());

    let refused = baton()
        .args(["serve", "--ephemeral", "--listen", "127.0.0.1:0"])
        .args(["--admin-listen", "0.0.0.0:0"])
        .output()
        .expect("baton runs");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(64), "{said}");
    assert!(said.contains("--admin-listen 0.0.0.0:0"), "{said}");
}
