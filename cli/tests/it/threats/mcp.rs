//! What can be done by way of `/mcp`: no more than by any other door.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::{ASKS, guarded};
use crate::auth::{A, B, Guarded, told};
use crate::revocation::revoke;
use crate::support::Cluster;
use crate::support::auth::{ALICE, BOB};
use crate::support::mcp::{McpPeer, SESSIONLESS, last};

const MISSING: &str = "000-0123456789012345678901";

fn tools(session: &Value) -> Vec<(&'static str, Value)> {
    let named = json!({ "session": session });
    vec![
        (
            "continue",
            json!({ "session": session, "prompt": "/count 1" }),
        ),
        (
            "continue",
            json!({ "session": session, "prompt": "/count 1", "fork": true }),
        ),
        (
            "continue",
            json!({ "session": session, "answers": { "a": "b" } }),
        ),
        ("status", named.clone()),
        ("status", json!({ "session": session, "waitSeconds": 1 })),
        ("read", named.clone()),
        ("cancel", named.clone()),
        ("close", named),
    ]
}

/// Every byte of the answers, but for the name that was asked for.
async fn answers(peer: &McpPeer, session: &Value) -> Vec<String> {
    let name = session.as_str().expect("an id");
    let mut answers = Vec::new();
    for (id, (tool, arguments)) in tools(session).into_iter().enumerate() {
        let params = json!({ "name": tool, "arguments": arguments });
        let message = peer.message(&json!(id + 100), "tools/call", params);
        let (status, _, body) = told(peer.post(&[], &message).await).await;
        assert_eq!(status, StatusCode::OK);
        answers.push(body.replace(name, "NAME"));
    }
    let uri = json!({ "uri": format!("baton://sessions/{name}") });
    let message = peer.message(&json!(99), "resources/read", uri);
    let (_, _, body) = told(peer.post(&[], &message).await).await;
    answers.push(body.replace(name, "NAME"));
    answers
}

#[tokio::test]
async fn mcp_a_foreign_handle_is_an_unknown_one() {
    let guarded = guarded().await;
    let alice = McpPeer::open(&guarded.url, Some(A), json!({})).await;
    let started = alice
        .fields(1, "start", json!({ "prompt": "/count 1" }))
        .await;
    let session = &started["session"];
    for capabilities in [None, Some(json!({}))] {
        let bob = match capabilities {
            None => McpPeer::open(&guarded.url, Some(B), json!({})).await,
            Some(said) => McpPeer::sessionless(&guarded.url, Some(B), said),
        };
        let foreign = answers(&bob, session).await;
        assert_eq!(foreign, answers(&bob, &json!(MISSING)).await);
        for answer in &foreign[..8] {
            assert!(answer.contains("there is no session"), "{answer}");
        }
    }
    let alone = alice
        .fields(2, "status", json!({ "session": session }))
        .await;
    assert_eq!(alone["status"], "completed", "nobody has touched it");
}

#[tokio::test]
async fn mcp_a_session_is_its_callers_and_of_this_door() {
    let guarded = guarded().await;
    let alice = McpPeer::open(&guarded.url, Some(A), json!({})).await;
    let own = alice.session.clone().expect("it has one");
    let list = alice.message(&json!(1), "tools/list", json!({}));
    let bob = McpPeer::open(&guarded.url, Some(B), json!({})).await;
    let connection = guarded.open(A).await.connection;
    let mut forged = own.clone().into_bytes();
    let at = forged.len() / 2;
    forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
    let forged = String::from_utf8(forged).expect("ASCII");
    let mut said = Vec::new();
    for token in [
        forged.as_str(),
        &connection,
        "x.y.z",
        bob.session.as_deref().expect("one"),
    ] {
        let mut other = alice.clone();
        other.session = Some(token.to_owned());
        said.push(told(other.post(&[], &list).await).await);
        assert_eq!(other.send(Method::GET, &[], None).await.status(), 404);
        assert_eq!(other.send(Method::DELETE, &[], None).await.status(), 404);
    }
    assert_eq!(said[0].0, StatusCode::NOT_FOUND);
    assert!(said.iter().all(|it| *it == said[0]), "{said:?}");
    // Nor does what this door has opened open another.
    let headers = [
        ("acp-connection-id", own.as_str()),
        ("accept", "text/event-stream"),
    ];
    let answer = guarded.send(Method::GET, Some(A), &headers, None).await;
    assert_eq!(answer.status(), StatusCode::NOT_FOUND);
    // It ends for good.
    assert_eq!(alice.post(&[], &list).await.status(), StatusCode::OK);
    assert_eq!(
        alice.send(Method::DELETE, &[], None).await.status(),
        StatusCode::OK
    );
    assert_eq!(alice.post(&[], &list).await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn mcp_a_revoked_principal_is_out_on_every_gateway() {
    let cluster = Cluster::start_with_keys().await;
    let (admin, url) = (cluster.admin_url(0), cluster.gateway_url(1));
    let alice = McpPeer::open(&url, Some(ALICE), json!({})).await;
    let bob = McpPeer::open(&url, Some(BOB), json!({})).await;
    let list = alice.message(&json!(1), "tools/list", json!({}));
    assert_eq!(alice.post(&[], &list).await.status(), StatusCode::OK);
    let params = json!({
        "name": "start",
        "arguments": { "prompt": "/sleep 600000" },
        "_meta": { "progressToken": 1 },
    });
    let under_way = alice.message(&json!(2), "tools/call", params);
    let stream = alice.post(&[], &under_way).await;
    revoke(&admin, "--principal", "key:alice");
    // What is open ends, without an answer.
    let rest = stream.text().await.unwrap_or_default();
    assert!(!rest.contains("\"result\""), "{rest}");
    crate::support::until("it is out", async || {
        let status = alice.post(&[], &list).await.status();
        (status == StatusCode::NOT_FOUND).then_some(())
    })
    .await;
    assert_eq!(bob.post(&[], &list).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn mcp_who_may_only_watch_changes_nothing() {
    let guarded = Guarded::start(&ASKS, |dir| {
        crate::auth::write_keys(dir, &[("alice", A), ("bob", B)]);
        let path = dir.join("api-keys.json");
        let text = std::fs::read_to_string(&path).expect("just written");
        let mut file: Value = serde_json::from_str(&text).expect("JSON");
        let mut watcher = file["keys"][1].clone();
        watcher["principal"] = json!("alice");
        watcher["observe"] = json!(true);
        file["keys"][1] = watcher;
        std::fs::write(&path, file.to_string()).expect("writable");
    })
    .await;
    let alice = McpPeer::open(&guarded.url, Some(A), json!({})).await;
    let started = alice
        .fields(1, "start", json!({ "prompt": "/count 2" }))
        .await;
    let session = &started["session"];
    let watcher = McpPeer::open(&guarded.url, Some(B), json!({})).await;
    let read = watcher
        .fields(1, "read", json!({ "session": session }))
        .await;
    assert!(
        read["entries"]
            .as_array()
            .is_some_and(|entries| !entries.is_empty())
    );
    let seen = watcher
        .fields(2, "status", json!({ "session": session }))
        .await;
    assert_eq!(seen["text"], started["text"]);
    for (id, (tool, arguments)) in [
        ("start", json!({ "prompt": "/count 1" })),
        (
            "continue",
            json!({ "session": session, "prompt": "/count 1" }),
        ),
        ("cancel", json!({ "session": session })),
        ("close", json!({ "session": session })),
    ]
    .into_iter()
    .enumerate()
    {
        let refused = watcher.call(id as u64 + 3, tool, arguments).await;
        assert_eq!(refused["isError"], true, "{tool}: {refused}");
        assert!(refused.to_string().contains("only watch"), "{refused}");
    }
    let next = json!({ "session": session, "prompt": "/count 1" });
    let next = alice.fields(2, "continue", next).await;
    assert_eq!(next["status"], "completed", "it is open as before");
}

#[tokio::test]
async fn mcp_headers_that_say_something_else_are_refused() {
    let guarded = guarded().await;
    let peer = McpPeer::sessionless(&guarded.url, Some(A), json!({}));
    let params = json!({ "name": "start", "arguments": { "prompt": "/count 1" } });
    let message = peer.message(&json!(1), "tools/call", params);
    let right = [
        ("mcp-protocol-version", SESSIONLESS),
        ("mcp-method", "tools/call"),
        ("mcp-name", "start"),
    ];
    for (at, wrong) in [(0, "2025-11-25"), (1, "tools/list"), (2, "read")] {
        for value in [Some(wrong), None] {
            let mut headers = right.to_vec();
            match value {
                Some(value) => headers[at].1 = value,
                None => drop(headers.remove(at)),
            }
            let refused = peer.send(Method::POST, &headers, Some(&message)).await;
            assert_eq!(refused.status(), StatusCode::BAD_REQUEST, "{headers:?}");
            let code = last(refused).await["error"]["code"].clone();
            assert_eq!(code, -32020, "{headers:?}");
        }
    }
    let twice = [&right[..], &right[2..]].concat();
    let refused = peer.send(Method::POST, &twice, Some(&message)).await;
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    // Nothing was started, and with the right ones something is.
    let listed = peer.fields(2, "list_sessions", json!({})).await;
    assert_eq!(listed["sessions"], json!([]));
    let started = last(peer.send(Method::POST, &right, Some(&message)).await).await;
    assert_eq!(
        started["result"]["structuredContent"]["status"],
        "completed"
    );
    let unknown = [right[0], ("mcp-method", "tools/paint")];
    let paint = peer.message(&json!(3), "tools/paint", json!({}));
    let refused = peer.send(Method::POST, &unknown, Some(&paint)).await;
    assert_eq!(refused.status(), StatusCode::NOT_FOUND);
    assert_eq!(last(refused).await["error"]["code"], -32601);
}

#[tokio::test]
async fn mcp_what_is_too_large_or_from_elsewhere_stays_out() {
    let guarded = guarded().await;
    let alice = McpPeer::open(&guarded.url, Some(A), json!({})).await;
    let large = "x".repeat(17 << 20);
    let params = json!({ "name": "start", "arguments": { "prompt": large } });
    let message = alice.message(&json!(1), "tools/call", params);
    let refused = alice.post(&[], &message).await;
    assert_eq!(refused.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let list = |id: &str| alice.message(&json!(id), "tools/list", json!({}));
    let refused = alice.post(&[], &list(&"i".repeat(300))).await;
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    let small = list("small");
    for (header, value) in [("host", "evil.example"), ("origin", "https://evil.example")] {
        let refused = alice.post(&[(header, value)], &small).await;
        assert_eq!(refused.status(), StatusCode::FORBIDDEN, "{header}");
    }
    let nobody = McpPeer::sessionless(&guarded.url, None, json!({}));
    let message = nobody.message(&json!(1), "server/discover", json!({}));
    let refused = nobody.post(&[], &message).await;
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    // Names that look like ours, from somebody who wants to see what happens.
    for last in ["~", "e30~1.0", "AAAA~0.0", &"A".repeat(4000)] {
        let headers = [("last-event-id", last)];
        let answer = alice.send(Method::GET, &headers, None).await;
        assert_eq!(
            answer.status(),
            StatusCode::OK,
            "a stream on which nothing is said"
        );
    }
}
