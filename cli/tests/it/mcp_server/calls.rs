//! Calls that are repeated, left, cancelled and limited, and the sessions that they mean.

use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::llm::staged;
use crate::support::mcp::{McpPeer, McpStream, last};
use crate::support::model_server::ModelScript;
use crate::support::sse::counted;
use crate::support::{Cluster, Served, until};

#[tokio::test]
async fn a_call_that_is_repeated_joins() {
    let cluster = Cluster::start().await;
    let peers =
        [0, 1].map(|number| McpPeer::sessionless(&cluster.gateway_url(number), None, json!({})));
    let params = json!({ "name": "start", "arguments": { "prompt": "/count 10 delay=20" } });
    let message = peers[0].message(&json!("one"), "tools/call", params);
    let key = [("idempotency-key", "the same call")];
    let (first, second) = tokio::join!(
        async { last(peers[0].post(&key, &message).await).await },
        async { last(peers[1].post(&key, &message).await).await },
    );
    assert_eq!(first, second);
    let fields = &first["result"]["structuredContent"];
    assert_eq!(fields["text"], counted(10, 1).concat());
    let third = last(peers[0].post(&key, &message).await).await;
    assert_eq!(third, first, "also when it is over");
    let listed = peers[0].fields(2, "list_sessions", json!({})).await;
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(1));
    // Another call under the same key is a mistake.
    let mut other = message.clone();
    other["params"]["arguments"]["prompt"] = json!("/count 2");
    let refused = last(peers[0].post(&key, &other).await).await;
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    let status = json!({ "session": fields["session"] });
    let kept = peers[0].fields(3, "status", status).await;
    assert_eq!(kept["text"], fields["text"], "and takes nothing away");
}

/// The client of the revision that cannot go on with a stream calls again.
#[tokio::test]
async fn a_sessionless_call_is_repeated_when_its_gateway_is_killed() {
    let mut cluster = Cluster::start().await;
    let peers =
        [0, 1].map(|number| McpPeer::sessionless(&cluster.gateway_url(number), None, json!({})));
    let params = json!({
        "name": "start",
        "arguments": { "prompt": "/count 20 delay=100" },
        "_meta": { "progressToken": 1 },
    });
    let message = peers[0].message(&json!(1), "tools/call", params);
    let key = [("idempotency-key", "once")];
    let mut stream = McpStream::of(peers[0].post(&key, &message).await);
    stream.until("chunk 2").await;
    cluster.gateways[0].kill();
    let done = last(peers[1].post(&key, &message).await).await;
    let fields = &done["result"]["structuredContent"];
    assert_eq!(fields["text"], counted(20, 1).concat(), "{done}");
    let listed = peers[1].fields(2, "list_sessions", json!({})).await;
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn a_session_token_names_the_session() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let peer = McpPeer::sessionless(&baton.url(), None, json!({}));
    let start = json!({ "name": "start", "arguments": { "prompt": "/count 1" } });
    let message = peer.message(&json!(1), "tools/call", start);
    let started = peer.post(&[], &message).await;
    let token = started.headers()["acp-session-token"].to_str();
    let token = token.expect("visible ASCII").to_owned();
    let session = last(started).await["result"]["structuredContent"]["session"].clone();
    let next = json!({ "name": "continue", "arguments": { "prompt": "/count 1" } });
    let message = peer.message(&json!(2), "tools/call", next);
    let nameless = last(peer.post(&[], &message).await).await;
    assert_eq!(nameless["result"]["isError"], true, "{nameless}");
    let named = peer.post(&[("acp-session-token", &token)], &message).await;
    let named = last(named).await["result"]["structuredContent"].clone();
    assert_eq!(named["session"], session, "{named}");
    assert_eq!(named["text"], counted(1, 2).concat());
    // It is good for its own session, and for no other.
    let other = peer
        .fields(3, "start", json!({ "prompt": "/count 1" }))
        .await;
    let arguments = json!({ "session": other["session"] });
    let status = json!({ "name": "status", "arguments": arguments });
    let message = peer.message(&json!(4), "tools/call", status);
    let refused = last(peer.post(&[("acp-session-token", &token)], &message).await).await;
    assert!(
        refused.to_string().contains("there is no session"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_caller_at_a_limit_is_told_so_as_a_model_can_read_it() {
    let baton = Served::start_with(&["--ephemeral", "--limit-sessions", "1"]).await;
    let peer = McpPeer::open(&baton.url(), None, json!({})).await;
    peer.fields(1, "start", json!({ "prompt": "/count 1" }))
        .await;
    let refused = peer.call(2, "start", json!({ "prompt": "/count 1" })).await;
    assert_eq!(refused["isError"], true, "{refused}");
    let text = refused["content"][0]["text"].as_str().expect("a text");
    assert!(text.contains("as many sessions"), "{text}");
    let next = peer
        .fields(3, "continue", json!({ "prompt": "/count 1" }))
        .await;
    assert_eq!(next["text"], counted(1, 2).concat());
}

#[tokio::test]
async fn a_session_that_only_closes_is_waited_for_no_longer_than_that() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let peer = McpPeer::open(&baton.url(), None, json!({})).await;
    let started = peer
        .fields(1, "start", json!({ "prompt": "/count 1" }))
        .await;
    peer.fields(2, "close", json!({})).await;
    let wait = json!({ "waitSeconds": 3600 });
    let found = peer.fields(3, "status", wait).await;
    assert_eq!(found["session"], started["session"]);
    assert!(
        found["status"] == "idle" || found["status"] == "completed",
        "{found}"
    );
}

#[tokio::test]
async fn a_client_that_is_gone_finds_its_turn() {
    let cluster = Cluster::start().await;
    let peer = McpPeer::open(&cluster.url(), None, json!({})).await;
    let params = json!({
        "name": "start",
        "arguments": { "prompt": "/count 20 delay=50" },
        "_meta": { "progressToken": "words" },
    });
    let message = peer.message(&json!(1), "tools/call", params);
    let mut stream = McpStream::of(peer.post(&[], &message).await);
    for message in stream.until("chunk 2").await {
        assert_eq!(message["method"], "notifications/progress", "{message}");
        assert_eq!(message["params"]["progressToken"], "words");
    }
    drop(stream);
    // Another connection of its principal.
    let later = McpPeer::open(&cluster.url(), None, json!({})).await;
    let listed = later.fields(1, "list_sessions", json!({})).await;
    let session = &listed["sessions"][0]["session"];
    let wait = json!({ "session": session, "waitSeconds": 50 });
    let found = later.fields(2, "status", wait).await;
    assert_eq!(found["status"], "completed");
    assert_eq!(found["text"], counted(20, 1).concat());
}

#[tokio::test]
async fn a_client_without_forms_answers_by_a_tool() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let peer = McpPeer::open(&baton.url(), None, json!({})).await;
    let prompt = json!({ "prompt": "/permission" });
    let asked = peer.fields(1, "start", prompt).await;
    assert_eq!(asked["status"], "input_required", "{asked}");
    let question = &asked["questions"][0];
    assert_eq!(question["options"][0]["id"], "allow_once");
    let id = question["id"].as_str().expect("an id");
    let wrong = json!({ "answers": { id: "anything" } });
    assert_eq!(peer.call(2, "continue", wrong).await["isError"], true);
    let answers = json!({ "answers": { id: "allow_once" } });
    let done = peer.fields(3, "continue", answers).await;
    assert_eq!(done["text"], "permission allow_once ", "{done}");
}

#[tokio::test]
async fn a_scope_says_which_session_is_meant() {
    let cluster = Cluster::start().await;
    let url = cluster.url();
    // Of its own, and gone with the answer.
    let once = McpPeer::open(&format!("{url}?scope=request"), None, json!({})).await;
    let done = once
        .fields(1, "start", json!({ "prompt": "/count 1" }))
        .await;
    assert_eq!(done["text"], counted(1, 1).concat());
    until("it is gone", async || {
        let listed = once.fields(2, "list_sessions", json!({})).await;
        (listed["sessions"] == json!([])).then_some(())
    })
    .await;
    let none = once.call(3, "continue", json!({ "prompt": "x" })).await;
    assert_eq!(none["isError"], true);
    // The same for all connections.
    let shared = format!("{url}?scope=shared");
    let mut sessions = Vec::new();
    for prompt in 1..=2 {
        let peer = McpPeer::open(&shared, None, json!({})).await;
        let done = peer
            .fields(1, "start", json!({ "prompt": "/count 2" }))
            .await;
        assert_eq!(done["text"], counted(2, prompt).concat());
        sessions.push(done["session"].clone());
    }
    assert_eq!(sessions[0], sessions[1]);
    // Each its own.
    let peer = McpPeer::open(&url, None, json!({})).await;
    let nothing = peer.call(1, "continue", json!({ "prompt": "x" })).await;
    assert_eq!(nothing["isError"], true, "{nothing}");
    let first = peer
        .fields(2, "start", json!({ "prompt": "/count 1" }))
        .await;
    let second = peer
        .fields(3, "start", json!({ "prompt": "/count 1" }))
        .await;
    assert_ne!(first["session"], second["session"]);
    let next = peer
        .fields(4, "continue", json!({ "prompt": "/count 1" }))
        .await;
    assert_eq!(
        next["session"], second["session"],
        "the last that it has started"
    );
    let wrong = McpPeer::sessionless(&format!("{url}?scope=mine"), None, json!({}));
    let message = wrong.message(&json!(1), "tools/list", json!({}));
    let refused = wrong.post(&[], &message).await;
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn an_agent_has_a_path_and_the_model_its_words() {
    let (model, staged) = staged().await;
    let url = staged.cluster.url();
    model.then(ModelScript::text("Here I am."));
    let path = url.replace("/acp", "/mcp/llm");
    let peer = McpPeer::sessionless(&path, None, json!({}));
    let done = peer.fields(1, "start", json!({ "prompt": "Hello" })).await;
    assert_eq!(done["text"], "Here I am.", "{done}");
    let agents = peer.fields(2, "list_agents", json!({})).await;
    assert_eq!(agents["agents"][0]["name"], "llm", "{agents}");
    let missing = McpPeer::sessionless(&url.replace("/acp", "/mcp/painter"), None, json!({}));
    let refused = missing.call(3, "start", json!({ "prompt": "Hello" })).await;
    assert_eq!(refused["isError"], true, "{refused}");
}

#[tokio::test]
async fn a_cancelled_call_ends_its_turn_and_an_impatient_one_does_not() {
    let cluster = Cluster::start().await;
    let peer = McpPeer::open(&cluster.url(), None, json!({})).await;
    let params = json!({
        "name": "start",
        "arguments": { "prompt": "/sleep 600000" },
        "_meta": { "progressToken": 1 },
    });
    let message = peer.message(&json!("the call"), "tools/call", params);
    let stream = peer.post(&[], &message).await;
    for (reason, wait, expected) in [
        ("Request timed out", 1, "working"),
        ("the user has left", 50, "cancelled"),
    ] {
        let params = json!({ "requestId": "the call", "reason": reason });
        let method = "notifications/cancelled";
        let note = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        let taken = peer.send(Method::POST, &[], Some(&note)).await;
        assert_eq!(taken.status(), StatusCode::ACCEPTED);
        let found = peer
            .fields(2, "status", json!({ "waitSeconds": wait }))
            .await;
        assert_eq!(found["status"], expected, "{reason}: {found}");
    }
    let end = last(stream).await;
    assert_eq!(end["result"]["structuredContent"]["status"], "cancelled");
}
