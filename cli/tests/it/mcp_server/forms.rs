//! Revisions of the protocol, and the forms of its messages.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::script;
use crate::support::mcp::{McpPeer, McpStream, last};
use crate::support::process::Process;
use crate::support::{Cluster, Served};

/// The models that the PyPI package makes of the published schema of each revision.
#[tokio::test]
async fn every_message_has_the_published_form() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let dir = TempDir::new().expect("a temporary directory");
    let elicits = json!({ "elicitation": {} });
    let with_session = McpPeer::open(&baton.url(), None, elicits.clone()).await;
    let without = McpPeer::sessionless(&baton.url(), None, elicits);
    let mut lines = String::new();
    let mut note = |revision: &str, kind: &str, value: &Value| {
        let line = json!({ "revision": revision, "type": kind, "value": value });
        lines.push_str(&format!("{line}\n"));
    };
    for (peer, revision) in [(&with_session, "2025-11-25"), (&without, "2026-07-28")] {
        let started = peer
            .fields(1, "start", json!({ "prompt": "/think\n/tool\n/count 2" }))
            .await;
        let session = &started["session"];
        let uri = json!({ "uri": format!("baton://sessions/{}", session.as_str().unwrap()) });
        for (id, (method, params, kind)) in [
            ("tools/list", json!({}), "ListToolsResult"),
            ("resources/list", json!({}), "ListResourcesResult"),
            (
                "resources/templates/list",
                json!({}),
                "ListResourceTemplatesResult",
            ),
            ("resources/read", uri, "ReadResourceResult"),
            ("server/discover", json!({}), "DiscoverResult"),
        ]
        .into_iter()
        .enumerate()
        {
            let answer = peer.request(10 + id as u64, method, params).await;
            match answer.get("result") {
                Some(result) => note(revision, kind, result),
                None => note(revision, "JSONRPCErrorResponse", &answer),
            }
        }
        for (id, (tool, arguments)) in [
            ("list_agents", json!({})),
            ("start", json!({ "prompt": "/fail" })),
            ("status", json!({ "session": session })),
            ("read", json!({ "session": session })),
            ("list_sessions", json!({})),
            ("cancel", json!({ "session": session })),
            ("close", json!({ "session": session })),
            ("status", json!({ "session": "nobody's" })),
        ]
        .into_iter()
        .enumerate()
        {
            let result = peer.call(20 + id as u64, tool, arguments).await;
            note(revision, "CallToolResult", &result);
        }
        let unknown = peer
            .request(40, "tools/call", json!({ "name": "paint" }))
            .await;
        note(revision, "JSONRPCErrorResponse", &unknown);
        let params = json!({
            "name": "start",
            "arguments": { "prompt": "/count 2\n/permission" },
            "_meta": { "progressToken": "words" },
        });
        let message = peer.message(&json!(50), "tools/call", params);
        let mut stream = McpStream::of(peer.post(&[], &message).await);
        for message in stream.until("elicitation/create").await {
            match message["method"].as_str() {
                Some("notifications/progress") => note(revision, "ProgressNotification", &message),
                Some(_) => note(revision, "ElicitRequest", &message),
                None => note(revision, "InputRequiredResult", &message["result"]),
            }
        }
    }
    let file = dir.path().join("messages");
    std::fs::write(&file, lines).expect("writable");
    let mut validate = script("mcp-python", "python", "validate.py");
    validate.arg(file);
    let mut validation = Process::start(dir.path(), "validate", &mut validate);
    let status = validation.exit_status().await;
    let said = validation.output();
    assert!(status.success() && said.starts_with("valid: "), "{said}");
    let count: usize = said["valid: ".len()..].trim().parse().expect("a number");
    assert!(count > 35, "{said}");
}

/// Opens a session by hand.
async fn initialized(url: &str, revision: &str) -> (McpPeer, Value) {
    let mut peer = McpPeer::sessionless(url, None, json!({}));
    let params = json!({
        "protocolVersion": revision,
        "capabilities": { "elicitation": {} },
        "clientInfo": { "name": "peer", "version": "1" },
    });
    let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let response = peer.send(Method::POST, &[], Some(&message)).await;
    let session = response.headers()["mcp-session-id"].to_str();
    peer.session = Some(session.expect("visible ASCII").to_owned());
    (peer, last(response).await["result"].clone())
}

#[tokio::test]
async fn each_revision_is_spoken_and_settled_by_initialize() {
    let cluster = Cluster::start().await;
    let url = cluster.url();
    for (asked, settled) in [
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2024-11-05", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
    ] {
        let (peer, result) = initialized(&url, asked).await;
        assert_eq!(result["protocolVersion"], settled, "{result}");
        let list = peer.message(&json!(1), "tools/list", json!({}));
        for (header, status) in [
            (settled, StatusCode::OK),
            ("2099-01-01", StatusCode::BAD_REQUEST),
        ] {
            let headers = [("mcp-protocol-version", header)];
            let answer = peer.post(&headers, &list).await;
            assert_eq!(answer.status(), status, "{asked}: {header}");
        }
        // Before there was such a header.
        assert_eq!(peer.post(&[], &list).await.status(), StatusCode::OK);
        let paint = peer.request(2, "tools/paint", json!({})).await;
        assert_eq!(paint["error"]["code"], -32601, "{paint}");
    }
}

#[tokio::test]
async fn a_question_on_a_stream_is_answered_at_another_gateway() {
    let cluster = Cluster::start().await;
    for (revision, choices) in [("2025-06-18", "enum"), ("2025-11-25", "oneOf")] {
        let (peer, _) = initialized(&cluster.gateway_url(0), revision).await;
        let params = json!({ "name": "start", "arguments": { "prompt": "/permission" } });
        let message = peer.message(&json!(1), "tools/call", params);
        let mut stream = McpStream::of(peer.post(&[], &message).await);
        let asked = stream.until("elicitation/create").await;
        let asked = asked.last().expect("a question");
        let choice = &asked["params"]["requestedSchema"]["properties"]["choice"];
        assert_eq!(choice[choices].as_array().map(Vec::len), Some(3), "{asked}");
        let mut elsewhere = peer.clone();
        elsewhere.url = cluster.gateway_url(1).replace("/acp", "/mcp");
        let result = json!({ "action": "accept", "content": { "choice": "allow_always" } });
        let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result });
        // Once more changes nothing.
        for _ in 0..2 {
            let taken = elsewhere.send(Method::POST, &[], Some(&answer)).await;
            assert_eq!(taken.status(), StatusCode::ACCEPTED);
        }
        let done = stream.until("structuredContent").await;
        let done = done.last().expect("a result");
        let said = &done["result"]["structuredContent"]["text"];
        assert_eq!(said, "permission allow_always ");
    }
}
