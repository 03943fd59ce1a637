//! Agents are told what their client can do, and never ask it for anything else.

use std::path::Path;

use serde_json::{Value, json};

use super::{Staged, Visit, served_by};
use crate::support::http::prompt;
use crate::support::{Client, Served};

pub(super) fn clientele(arguments: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agents/clientele.py");
    format!("stdio:python3 {} {arguments}", file.display())
}

/// Where clients are strangers: on loopback, everything passes.
const STRANGERS: [&str; 2] = ["--allow-agent-meta", "none"];

fn editor() -> Value {
    json!({
        "protocolVersion": 1,
        "clientInfo": { "name": "some-editor", "title": "Some Editor", "version": "1.2" },
        "clientCapabilities": {
            "fs": { "readTextFile": true, "writeTextFile": false },
            "elicitation": { "form": {}, "url": {} },
            "auth": { "terminal": true, "_meta": { "gateway": { "url": "http://x" } } },
            "_meta": { "terminal_output": true, "claudeCode": { "options": { "env": { "A": "b" } } } },
        },
    })
}

fn terminal() -> Value {
    json!({ "protocolVersion": 1, "clientInfo": { "name": "some-terminal", "version": "2" } })
}

async fn open(url: &str, params: Value) -> Client {
    let (client, answer) = Client::open(url, params).await.expect("an answer");
    assert!(answer["result"].is_object(), "{answer}");
    client
}

async fn visit(url: &str, params: Value) -> Visit {
    let client = open(url, params).await;
    let session = client.new_session().await;
    Visit::of(client, session).await
}

/// Another client in the same session, which reads along until it prompts.
async fn joins(url: &str, params: Value, session: &str) -> Visit {
    let client = open(url, params).await;
    let observe = json!({ "baton/observe": true });
    let resume = json!({ "sessionId": session, "_meta": observe });
    let id = json!("r");
    let resume =
        json!({ "jsonrpc": "2.0", "id": id, "method": "session/resume", "params": resume });
    let mut body = client.one_shot(resume).await;
    let answer = body.response(&id).await;
    assert!(answer["result"].is_object(), "{answer}");
    Visit::of(client, session.to_owned()).await
}

async fn told(visit: &mut Visit) -> Value {
    let said = visit.says("client").await;
    serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"))
}

/// What is said in a turn of this client, which answers what the agent asks.
async fn answering(visit: &mut Visit, text: &str, result: Value) -> String {
    visit.prompts += 1;
    let id = json!(format!("one-{}", visit.prompts));
    let asked = prompt(id.clone(), &visit.session, text);
    let mut body = visit.client.one_shot(asked).await;
    let mut said = String::new();
    loop {
        let event = body.next().await.expect("the stream goes on");
        let message = event.message();
        said.extend(event.chunk());
        if message["method"].is_string() && message["id"].is_string() {
            let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
            visit.client.post(answer).await;
        } else if message["id"] == id {
            assert_eq!(message["result"]["stopReason"], "end_turn", "{message}");
            return said;
        }
    }
}

/// The same for one that is asked nothing.
async fn says(visit: &mut Visit, text: &str) -> String {
    answering(visit, text, json!(null)).await
}

async fn served() -> Served {
    served_by(&clientele(""), &STRANGERS).await
}

#[tokio::test]
async fn an_agent_is_told_what_its_client_has_said() {
    let baton = served().await;
    let mut visit = visit(&baton.url(), editor()).await;
    let told = told(&mut visit).await;
    let expected = json!({
        "fs": { "readTextFile": true, "writeTextFile": false },
        "elicitation": { "form": {}, "url": {} },
        "auth": { "terminal": true },
        "_meta": { "terminal_output": true },
    });
    assert_eq!(told["clientCapabilities"], expected);
    let info = &told["clientInfo"];
    assert_eq!(info["name"], "some-editor");
    assert_eq!(info["title"], "Some Editor");
    assert_eq!(info["version"], "1.2");
    assert_eq!(info["_meta"]["baton/via"]["name"], "baton");
    assert_eq!(visit.says("output").await, "shown");
    let accepted = answering(&mut visit, "link", json!({ "action": "accept" })).await;
    assert!(accepted.contains("accept"), "{accepted}");
}

#[tokio::test]
async fn every_worker_knows_what_the_client_of_another_gateway_has_said() {
    let staged = Staged::with("clientele", &clientele(""), &[]).await;
    for _ in 0..3 {
        let mut visit = visit(&staged.url(), editor()).await;
        let told = told(&mut visit).await;
        assert_eq!(told["clientInfo"]["name"], "some-editor");
        assert_eq!(told["clientCapabilities"]["elicitation"]["url"], json!({}));
        assert_eq!(
            told["clientCapabilities"]["_meta"],
            json!({ "terminal_output": true })
        );
    }
}

#[tokio::test]
async fn operators_log_in_beforehand_and_clients_are_not_offered_to() {
    let baton = served().await;
    let (_, answer) = Client::open(&baton.url(), editor())
        .await
        .expect("an answer");
    let result = &answer["result"];
    assert_eq!(result["authMethods"], json!([]), "{answer}");
    let capabilities = &result["agentCapabilities"];
    assert!(capabilities["auth"]["logout"].is_null(), "{answer}");
    assert!(capabilities["providers"].is_null(), "{answer}");
}

#[tokio::test]
async fn a_client_that_says_too_much_is_heard_as_far_as_it_makes_sense() {
    let baton = served().await;
    let long = "x".repeat(1 << 20);
    let said = json!({
        "protocolVersion": 1,
        "clientInfo": { "name": format!("{}\u{1b}[2J", "n".repeat(100)), "version": long, "title": 5 },
        "clientCapabilities": {
            "fs": { "readTextFile": true },
            "terminal": { "no": "boolean" },
            "backdoor": { "command": "rm" },
            "_meta": { "terminal_output": true, "long": long, "baton/via": { "name": "x" } },
        },
    });
    let mut hostile = visit(&baton.url(), said).await;
    let told = told(&mut hostile).await;
    assert!(told.to_string().len() < 8 << 10, "{told}");
    let capabilities = &told["clientCapabilities"];
    assert_eq!(capabilities["fs"]["readTextFile"], true);
    assert_eq!(capabilities["_meta"], json!({ "terminal_output": true }));
    assert!(capabilities["backdoor"].is_null(), "{told}");
    let name = told["clientInfo"]["name"].as_str().expect("a name");
    assert!(!name.contains('\u{1b}'), "{name}");
    assert_eq!(told["clientInfo"]["_meta"]["baton/via"]["name"], "baton");
    // Many fields that nobody knows: the token has what matters.
    let many: serde_json::Map<_, _> = (0..5000)
        .map(|n| (format!("n{n}"), json!({ "a": n })))
        .collect();
    let mut capabilities = Value::Object(many);
    capabilities["fs"] = json!({ "readTextFile": true });
    let said = json!({ "protocolVersion": 1, "clientCapabilities": capabilities });
    let mut visit = visit(&baton.url(), said).await;
    let told = self::told(&mut visit).await;
    assert_eq!(
        told["clientCapabilities"],
        json!({ "fs": { "readTextFile": true, "writeTextFile": false }, "terminal": false })
    );
}

#[tokio::test]
async fn a_client_is_asked_for_what_it_can_whoever_has_opened_the_session() {
    for scope in ["session", "turn", "shared"] {
        let agent = clientele("");
        let baton = served_by(
            &agent,
            &[&STRANGERS[..], &["--agent-scope", scope]].concat(),
        )
        .await;
        let url = baton.url();
        let mut phone = visit(&url, terminal()).await;
        assert_eq!(says(&mut phone, "read").await, "cannot read", "{scope}");
        let mut desk = joins(&url, editor(), &phone.session).await;
        let content = json!({ "content": "of a file" });
        let read = answering(&mut desk, "read", content.clone()).await;
        assert!(read.contains("of a file"), "{scope}: {read}");
        // And back, also without a prompt of another kind between.
        assert_eq!(says(&mut phone, "read").await, "cannot read", "{scope}");
        let read = answering(&mut desk, "read", content).await;
        assert!(read.contains("of a file"), "{scope}: {read}");
    }
}

#[tokio::test]
async fn an_agent_goes_on_for_a_client_that_can_the_same() {
    let baton = served().await;
    let url = baton.url();
    let mut one = visit(&url, terminal()).await;
    let pid = says(&mut one, "pid").await;
    let another = json!({
        "protocolVersion": 1,
        "clientInfo": { "name": "another", "version": "7" },
        "clientCapabilities": { "fs": { "readTextFile": false }, "terminal": false },
    });
    let mut two = joins(&url, another, &one.session).await;
    assert_eq!(says(&mut two, "pid").await, pid);
    assert_eq!(says(&mut one, "pid").await, pid);
    let mut three = joins(&url, editor(), &one.session).await;
    assert_ne!(says(&mut three, "pid").await, pid);
}

#[tokio::test]
async fn who_takes_over_during_a_turn_is_not_asked_for_what_it_cannot() {
    let staged = Staged::with("clientele", &clientele(""), &[]).await;
    let url = staged.url();
    let mut desk = visit(&url, editor()).await;
    // The first question is open when the other takes over.
    for text in ["read\nread", "ask\nread"] {
        let asked = desk.ask(text).await;
        loop {
            let message = desk
                .stream
                .next()
                .await
                .expect("the stream goes on")
                .message();
            if message["id"].is_string() && message["method"].is_string() {
                break;
            }
        }
        let mut phone = joins(&url, terminal(), &desk.session).await;
        phone
            .client
            .post(prompt(json!("p"), &desk.session, "say next"))
            .await;
        let mut asked_phone = Vec::new();
        let mut said = String::new();
        loop {
            let event = phone.stream.next().await.expect("the stream goes on");
            let message = event.message();
            said.extend(event.chunk());
            if message["id"].is_string() && message["method"].is_string() {
                asked_phone.push(message["method"].clone());
                let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": {
                    "outcome": { "outcome": "selected", "optionId": "yes" },
                } });
                phone.client.post(answer).await;
            } else if message["id"] == "p" {
                break;
            }
        }
        assert!(
            !asked_phone.contains(&json!("fs/read_text_file")),
            "{asked_phone:?}"
        );
        assert!(said.contains("has not announced"), "{said}");
        let (_, answer) = desk.end_of(&asked).await;
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    }
}
