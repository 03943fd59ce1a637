//! What one caller may take. Rates are by the hour, so that what is over them stays so.

use reqwest::{Response, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::auth::{ALICE, BOB, write_keys};
use crate::support::http::{JSON, ONE_SHOT, new_session, prompt};
use crate::support::metrics::page as metrics;
use crate::support::process::baton;
use crate::support::{Client, Served, Stream};

mod rates;
mod shares;
mod storage;
mod streams;

/// A Baton where Alice has limits and Bob has none.
struct Limited {
    served: Served,
    _dir: TempDir,
}

impl Limited {
    async fn start(limits: Value) -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        let path = write_keys(dir.path());
        let text = std::fs::read_to_string(&path).expect("just written");
        let mut keys: Value = serde_json::from_str(&text).expect("JSON");
        keys["keys"][0]["limits"] = limits;
        std::fs::write(&path, keys.to_string()).expect("the directory is writable");
        let arguments = ["--ephemeral", "--auth", "keys", "--auth-keys", &path];
        Self {
            served: Served::start_with(&arguments).await,
            _dir: dir,
        }
    }

    fn url(&self) -> String {
        self.served.url()
    }

    async fn alice(&self) -> Client {
        Client::with_key(&self.url(), ALICE).await
    }

    /// Nobody else notices.
    async fn bob_is_served(&self) {
        let bob = Client::with_key(&self.url(), BOB).await;
        let session = bob.new_session().await;
        let mut stream = bob.session_stream(&session, None).await;
        for id in 1..=5 {
            bob.post(prompt(json!(id), &session, "/count 1")).await;
            stream.turn(&json!(id)).await;
        }
    }
}

async fn counted(url: &str, limit: &str) -> bool {
    let line = format!("baton_gateway_limited_total{{limit=\"{limit}\"}} ");
    metrics(url).await.contains(&line)
}

fn list(id: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "session/list", "params": {} })
}

fn retry_after(response: &Response) -> Option<u64> {
    let value = response.headers().get("retry-after")?;
    value.to_str().ok()?.parse().ok()
}

/// An answer that says which limit was reached, and that trying again later helps.
fn is_refused(answer: &Value, limit: &str) {
    let error = &answer["error"];
    assert_eq!(error["code"], 4004, "{answer}");
    assert_eq!(error["data"]["limit"], limit, "{answer}");
    assert_eq!(error["data"]["retryable"], true, "{answer}");
    assert!(error["data"]["retryAfterMs"].as_u64() > Some(0), "{answer}");
}

/// In the body of a POST.
async fn refused_in_body(client: &Client, message: Value, limit: &str) -> Value {
    let response = client.send(&[JSON, ONE_SHOT], message.to_string()).await;
    assert_eq!(response.status(), StatusCode::OK);
    let waits = retry_after(&response);
    let mut stream = client.stream(response);
    let answer = stream.response(&message["id"]).await;
    assert_eq!(answer["error"]["code"], 4004, "{answer}");
    assert_eq!(answer["error"]["data"]["limit"], limit, "{answer}");
    let retryable = answer["error"]["data"]["retryable"] == true;
    assert_eq!(waits.is_some(), retryable, "{answer}");
    answer
}

/// On the stream where the answer would have come.
async fn refused_on_stream(client: &Client, stream: &mut Stream, message: Value, limit: &str) {
    let response = client.send(&[JSON], message.to_string()).await;
    assert_eq!(response.status(), StatusCode::ACCEPTED);
    assert!(retry_after(&response) > Some(0), "{response:?}");
    is_refused(&stream.response(&message["id"]).await, limit);
}

/// With a status, since nothing else is understood.
async fn refused_with_429(response: Response, limit: &str) {
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(retry_after(&response) > Some(0), "{response:?}");
    let answer: Value =
        serde_json::from_str(&response.text().await.expect("a body")).expect("JSON");
    is_refused(&answer, limit);
}

#[test]
fn what_cannot_be_a_limit_is_named_all_at_once() {
    let mut command = baton();
    command.args(["serve", "--ephemeral", "--limit-requests", "many"]);
    command.args(["--limit-bytes", "1/1y", "--limit-streams", "0"]);
    command.args(["--limit-sessions", "0", "--limit-turns", "0"]);
    command.args(["--limit-storage", "0"]);
    let output = command.output().expect("baton runs");
    assert_eq!(output.status.code(), Some(64));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    for fault in [
        "--limit-requests many: must be",
        "--limit-bytes 1/1y: must be",
        "--limit-streams 0: must be",
        "--limit-sessions 0: must be",
        "--limit-turns 0: must be",
        "--limit-storage 0: must be",
    ] {
        assert!(text.contains(fault), "{text}");
    }
}

#[tokio::test]
async fn who_is_asked_for_no_name_shares_the_limits_with_everybody() {
    let baton = Served::start_with(&["--ephemeral", "--limit-requests", "3/1h"]).await;
    let one = Client::initialize(&baton.url()).await;
    let other = Client::initialize(&baton.url()).await;
    one.new_session().await;
    refused_in_body(&other, new_session(json!(1)), "requests").await;
}
