//! The audit log: what is in it, what is not, and whether anybody has changed it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::auth::{A, B, Guarded, write_keys};
use crate::browser::{PAGE, bearer, enter, login, open, send, ticket};
use crate::support::http::{load, new_session, prompt};
use crate::support::process::baton;
use crate::support::websocket::initialize;
use crate::support::{Client, Cluster, metrics, until};

mod files;
mod page;
mod rare;

const ARGUMENTS: [&str; 6] = [
    "--auth",
    "keys",
    "--auth-keys",
    "api-keys.json",
    "--audit-log",
    "audit.log",
];

/// Alice with A and bob with B, on a gateway that keeps an audit log.
async fn audited(more: &[&str]) -> Guarded {
    let arguments = [&ARGUMENTS[..], more].concat();
    let keys = [("alice", A), ("bob", B)];
    Guarded::start(&arguments, |dir| write_keys(dir, &keys)).await
}

fn log_of(guarded: &Guarded) -> PathBuf {
    guarded.dir.path().join("audit.log")
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let whole = text
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'));
    whole
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

fn verify(arguments: &[&str], files: &[&Path]) -> Output {
    let mut command = baton();
    command
        .args(["audit", "verify"])
        .args(arguments)
        .args(files);
    command.output().expect("baton runs")
}

fn assert_whole(files: &[&Path]) {
    let output = verify(&[], files);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
}

/// Waits for the line, which is written beside everything else.
async fn line(path: &Path, decision: &str, fits: impl Fn(&Value) -> bool) -> Value {
    until(decision, async || {
        let mut lines = lines(path).into_iter();
        lines.find(|line| line["decision"] == decision && fits(line))
    })
    .await
}

/// Asks for permission, and has it answered.
async fn permission(client: &Client, session: &str, id: u64) {
    let mut turn = client.session_stream(session, None).await;
    client
        .post(prompt(json!(id), session, "/permission\n/count 1"))
        .await;
    let question = loop {
        let message = turn.next().await.expect("goes on").message();
        if message["method"] == "session/request_permission" {
            break message;
        }
    };
    let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": {
        "outcome": { "outcome": "selected", "optionId": "allow_once" } } });
    client.post(answer.clone()).await;
    // Only the first counts.
    client.post(answer).await;
    turn.turn(&json!(id)).await;
}

#[tokio::test]
async fn audit_says_who_did_what_and_what_was_refused() {
    let mut guarded = audited(&[]).await;
    let (url, path) = (guarded.url.clone(), log_of(&guarded));
    let alice = Client::with_key(&url, A).await;
    let session = alice.new_session().await;
    permission(&alice, &session, 1).await;
    let ask = async |client: &Client, method: &str| {
        let mut message = load(json!(method), &session);
        message["method"] = json!(method);
        let mut stream = client.one_shot(message).await;
        stream.response(&json!(method)).await
    };
    let fork = ask(&alice, "session/fork").await;
    let fork = fork["result"]["sessionId"].as_str().unwrap().to_owned();
    ask(&alice, "session/load").await;
    let bob = Client::with_key(&url, B).await;
    assert!(ask(&bob, "session/load").await["error"].is_object());
    let credential = bearer(A);
    let as_alice = [("authorization", credential.as_str())];
    let export = format!("/v1/sessions/{session}/export");
    let archive = send(&url, Method::GET, &export, &as_alice, None).await;
    let archive = archive.text().await.unwrap();
    let import = url.replace("/acp", "/v1/sessions/import");
    let import = reqwest::Client::new().post(import).bearer_auth(A);
    let import = import.header("content-type", "application/x-ndjson");
    assert_eq!(import.body(archive).send().await.unwrap().status(), 201);
    ask(&alice, "session/close").await;
    ask(&alice, "session/delete").await;
    let cookie = login(&url, &credential).await;
    ticket(&url, &as_alice).await;
    let page = [("cookie", cookie.as_str()), PAGE];
    send(&url, Method::POST, "/v1/logout", &page, None).await;
    assert_eq!(open(&url, &page).await, 401);
    assert_eq!(alice.delete().await, StatusCode::ACCEPTED);
    guarded.process.signal("TERM");
    guarded.process.exit_status().await;

    assert_whole(&[&path]);
    let all = lines(&path);
    let found = |decision: &str| {
        let found: Vec<&Value> = all
            .iter()
            .filter(|line| line["decision"] == decision)
            .collect();
        assert!(!found.is_empty(), "no {decision} in {all:#?}");
        found
    };
    for decision in [
        "session_created",
        "session_forked",
        "session_loaded",
        "session_exported",
        "session_imported",
        "session_closed",
        "session_deleted",
        "login",
        "logout",
        "ticket_issued",
        "connection_closed",
    ] {
        let [line] = found(decision)[..] else {
            panic!("several {decision}: {all:#?}");
        };
        assert_eq!(line["principal"], "key:alice", "{line}");
        assert_eq!(line["address"], "127.0.0.1", "{line}");
        let key = line["credential"].as_str().unwrap();
        assert!(key.starts_with("key:") && key.len() == 20, "{line}");
        assert_eq!(line["outcome"], "done", "{line}");
    }
    assert_eq!(found("session_created")[0]["session"], json!(session));
    assert_eq!(found("session_forked")[0]["session"], json!(fork));
    // One line for the question and one for the answer, by whoever has answered.
    let (asked, answered) = (found("permission_asked"), found("permission_answered"));
    assert_eq!((asked.len(), answered.len()), (1, 1), "{all:#?}");
    assert_eq!(answered[0]["option"], "allow_once");
    assert!(
        asked[0]["title"]
            .as_str()
            .is_some_and(|title| !title.is_empty())
    );
    assert_eq!(asked[0]["title"], answered[0]["title"]);
    let opened = found("connection_opened");
    let by = opened
        .iter()
        .find(|line| line["connection"] == answered[0]["connection"]);
    assert_eq!(by.expect("it is known")["principal"], "key:alice");
    let refused: Vec<_> = found("refused")
        .iter()
        .map(|line| line["reason"].clone())
        .collect();
    for reason in ["no_such_session", "unauthenticated"] {
        assert!(refused.contains(&json!(reason)), "{refused:?}");
    }
    let stranger = found("refused")
        .into_iter()
        .find(|line| line["principal"] == "key:bob");
    assert_eq!(stranger.expect("bob tried")["method"], "session/load");
}

#[tokio::test]
async fn audit_has_one_line_per_question_on_a_cluster() {
    let dir = TempDir::new().expect("a temporary directory");
    let keys = crate::support::auth::write_keys(dir.path());
    let cluster = Cluster::start_unused(&["--auth", "keys", "--auth-keys", &keys]).await;
    let files: Vec<PathBuf> = (2..4)
        .map(|number| dir.path().join(format!("{number}.log")))
        .collect();
    let [first, second] = [2, 3].map(|number: usize| {
        cluster.worker_with(number, |command| {
            command.env("BATON_AUDIT_LOG", &files[number - 2]);
            command.env("BATON_AGENT_NAME", "audited");
        })
    });
    let mut workers = [first, second];
    let url = format!("{}/audited", cluster.url());
    let alice = until("the agent is there", async || {
        Client::try_with_key(&url, crate::support::auth::ALICE).await
    })
    .await;
    let session = alice.new_session().await;
    let mut turn = alice.session_stream(&session, None).await;
    // Others look on, by the other gateway.
    let observer = Client::with_key(&cluster.gateway_url(1), crate::support::auth::ALICE).await;
    let mut observed = observer.session_stream(&session, None).await;
    let mut watch = load(json!("w"), &session);
    watch["params"]["_meta"] = json!({ "baton/observe": true });
    observer.post(watch).await;
    observed.response(&json!("w")).await;
    alice
        .post(prompt(json!(1), &session, "/permission\n/count 1"))
        .await;
    let question = loop {
        let message = turn.next().await.expect("goes on").message();
        if message["method"] == "session/request_permission" {
            break message;
        }
    };
    let all = || {
        files
            .iter()
            .flat_map(|file| lines(file))
            .collect::<Vec<_>>()
    };
    let count = |decision: &str| {
        all()
            .iter()
            .filter(|line| line["decision"] == decision)
            .count()
    };
    until("it is written down", async || {
        (count("permission_asked") == 1).then_some(())
    })
    .await;
    // The worker that holds it is killed: the other one goes on, and knows what was asked.
    let holder = files.iter().position(|file| {
        lines(file)
            .iter()
            .any(|line| line["decision"] == "permission_asked")
    });
    let holder = holder.unwrap();
    workers[holder].kill();
    // Whoever prompts next is asked in its place. By then the turn runs again, and has asked again.
    observer.post(prompt(json!(2), &session, "/count 1")).await;
    let again = loop {
        let message = observed.next().await.expect("goes on").message();
        if message["method"] == "session/request_permission" {
            break message;
        }
    };
    assert_eq!(again["id"], question["id"]);
    let answer = |option: &str| {
        json!({ "jsonrpc": "2.0", "id": question["id"], "result": {
            "outcome": { "outcome": "selected", "optionId": option } } })
    };
    observer.post(answer("reject_once")).await;
    turn.turn(&json!(1)).await;
    // Only the first counts.
    alice.post(answer("allow_once")).await;
    observed.response(&json!(2)).await;
    // It writes everything down before it ends.
    let other = &mut workers[1 - holder];
    other.signal("TERM");
    other.exit_status().await;
    for decision in ["permission_asked", "permission_answered"] {
        assert_eq!(count(decision), 1, "{decision}: {:#?}", all());
    }
    let answered = all()
        .into_iter()
        .find(|line| line["decision"] == "permission_answered");
    let answered = answered.unwrap();
    assert_eq!(answered["option"], "reject_once");
    assert_eq!(
        answered["title"],
        all()
            .iter()
            .find(|line| line["decision"] == "permission_asked")
            .unwrap()["title"]
    );
}

#[tokio::test]
async fn audit_has_no_secrets() {
    let mut guarded = audited(&[]).await;
    let (url, path) = (guarded.url.clone(), log_of(&guarded));
    let words = "words-that-only-the-agent-is-to-read";
    let mut secrets: Vec<String> = [A, B, words].map(str::to_owned).to_vec();
    let alice = Client::with_key(&url, A).await;
    secrets.push(alice.token.clone());
    let headers = [
        ("content-type", "application/json"),
        ("accept", "text/event-stream"),
        PAGE,
    ];
    let response = alice
        .send(&headers, new_session(json!("n")).to_string())
        .await;
    let token = response.headers()["acp-session-token"]
        .to_str()
        .unwrap()
        .to_owned();
    secrets.push(token.clone());
    let answer = { alice.stream(response) }.response(&json!("n")).await;
    let session = answer["result"]["sessionId"].as_str().unwrap().to_owned();
    secrets.push(
        answer["result"]["_meta"]["baton/session"]["token"]
            .as_str()
            .unwrap()
            .to_owned(),
    );
    { alice.one_shot(prompt(json!(1), &session, words)).await }
        .turn(&json!(1))
        .await;
    permission(&alice, &session, 2).await;
    let credential = bearer(A);
    let as_alice = [("authorization", credential.as_str())];
    let cookie = login(&url, &credential).await;
    secrets.push(cookie.split_once('=').unwrap().1.to_owned());
    let ticket = ticket(&url, &as_alice).await;
    let mut socket = enter(&url, &ticket).await.expect("let in");
    socket.send(initialize()).await;
    socket.next().await;
    secrets.push(ticket);
    // Where they don't belong, and wrong ones.
    let stranger = "bk_a-key-that-nobody-has-00000000000000000000000";
    secrets.push(stranger.to_owned());
    assert_eq!(
        open(&url, &[("authorization", &bearer(stranger))]).await,
        401
    );
    for secret in secrets.clone() {
        for (method, path) in [
            (Method::GET, format!("/v1/sessions/{secret}/export")),
            (Method::POST, format!("/acp/{secret}")),
            (Method::GET, format!("/acp?token={secret}")),
        ] {
            send(&url, method, &path, &as_alice, None).await;
        }
        let lost = json!({ "jsonrpc": "2.0", "id": secret, "method": secret, "params": { "sessionId": secret } });
        let headers = [
            as_alice[0],
            ("acp-connection-id", alice.token.as_str()),
            ("traceparent", secret.as_str()),
        ];
        send(&url, Method::POST, "/acp", &headers, Some(lost.clone())).await;
        let headers = [
            as_alice[0],
            ("acp-connection-id", secret.as_str()),
            ("acp-session-token", secret.as_str()),
        ];
        send(&url, Method::POST, "/acp", &headers, Some(lost)).await;
        let answer = json!({ "jsonrpc": "2.0", "id": format!("{session}:1.1"), "result": {
            "outcome": { "outcome": "selected", "optionId": secret } } });
        alice.post(answer).await;
    }
    guarded.process.signal("TERM");
    guarded.process.exit_status().await;
    let told = fs::read_to_string(&path).unwrap();
    assert!(told.contains(&session) && told.contains("permission_answered"));
    for secret in &secrets {
        let signature = secret.rsplit('.').next().unwrap();
        assert!(signature.len() > 20, "{secret}");
        assert!(!told.contains(signature), "{secret} is in the audit log");
    }
    assert_whole(&[&path]);
}

#[tokio::test]
async fn audit_tells_when_keys_are_read_again() {
    let guarded = audited(&[]).await;
    let path = log_of(&guarded);
    write_keys(guarded.dir.path(), &[("alice", A)]);
    line(&path, "keys_reloaded", |line| line["outcome"] == "done").await;
    fs::write(guarded.dir.path().join("api-keys.json"), "junk").unwrap();
    line(&path, "keys_reloaded", |line| line["outcome"] == "failed").await;
    let page = metrics::page(&guarded.url).await;
    assert!(metrics::value(&page, "baton_audit_lines_total") >= 3.0);
    assert_eq!(metrics::value(&page, "baton_audit_lost_total"), 0.0);
}

#[test]
fn audit_logs_that_cannot_be_used_are_named() {
    let dir = TempDir::new().expect("a temporary directory");
    fs::write(dir.path().join("notes"), "these are notes\n").unwrap();
    for (file, expected) in [
        ("/nowhere/audit.log", "No such file"),
        ("notes", "not one of an audit log"),
    ] {
        let mut command = baton();
        command.current_dir(dir.path());
        command.args(["serve", "--ephemeral", "--listen", "127.0.0.1:0"]);
        let output = command.args(["--audit-log", file]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{said}");
        assert!(
            said.contains("--audit-log") && said.contains(expected),
            "{said}"
        );
    }
    let missing = verify(&[], &[Path::new("/nowhere/audit.log")]);
    assert_eq!(missing.status.code(), Some(1));
    let decisions: BTreeSet<&str> = baton_session::audit::TABLE
        .iter()
        .map(|row| row.0)
        .collect();
    assert_eq!(decisions.len(), baton_session::audit::TABLE.len());
}
