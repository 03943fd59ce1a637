//! B10: an answer that is ready does not wait for what is told that a session ends.

use serde_json::json;
use tempfile::TempDir;

use crate::support::http::prompt;
use crate::support::{Client, Served, until};

#[tokio::test]
async fn b10_a_turns_answer_comes_before_the_release_hook_has_ended() {
    let dir = TempDir::new().expect("a temporary directory");
    let [told, may_end] = ["told", "may-end"].map(|name| dir.path().join(name));
    let hook = format!(
        "touch {}; until test -e {}; do sleep 0.05; done",
        told.display(),
        may_end.display()
    );
    let baton = Served::start_with(&["--on-release", &hook]).await;
    let client = Client::initialize(&baton.url()).await;
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    let text = "/bind sandbox vm-1\n/count 1\n/sleep 2000";
    client.post(prompt(json!(1), &session, text)).await;
    while stream.next().await.expect("an event").chunk().is_none() {}
    let params = json!({ "sessionId": session });
    let close = json!({ "jsonrpc": "2.0", "id": 2, "method": "session/close", "params": params });
    client.post(close).await;
    // The hook waits, and would do so for ever.
    until("the hook is told", async || told.exists().then_some(())).await;
    let answer = stream.response(&json!(1)).await;
    assert!(answer.get("result").is_some(), "{answer}");
    std::fs::write(&may_end, "").expect("the directory is writable");
    let answer = stream.response(&json!(2)).await;
    assert!(answer.get("result").is_some(), "{answer}");
}
