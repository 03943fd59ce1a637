//! MCP servers that live in the client: what the agent and they say to each other travels through any
//! replica, both ways.

use serde_json::{Value, json};

use crate::support::auth::{ALICE, BOB};
use crate::support::http::prompt;
use crate::support::{Client, Cluster, Served, Stream};

async fn opened(client: &Client) -> String {
    let server = json!({ "type": "acp", "name": "clock", "serverId": "srv-1" });
    let params = json!({ "cwd": "/tmp", "mcpServers": [server] });
    let message =
        json!({ "jsonrpc": "2.0", "id": "new", "method": "session/new", "params": params });
    let answer = client.one_shot(message).await.response(&json!("new")).await;
    let session = answer["result"]["sessionId"].as_str();
    session.unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// The agent's next request of this method.
async fn asked(stream: &mut Stream) -> Value {
    loop {
        let message = stream.next().await.expect("the stream goes on").message();
        if message["method"] == "mcp/message" {
            return message;
        }
    }
}

/// What the agent says or thinks next.
async fn said(stream: &mut Stream) -> String {
    loop {
        let message = stream.next().await.expect("the stream goes on").message();
        if let Some(text) = message["params"]["update"]["content"]["text"].as_str() {
            return text.to_owned();
        }
    }
}

fn progress(request: &Value) -> Value {
    let params = json!({
        "serverId": "srv-1", "requestId": request, "method": "notifications/progress",
        "params": { "progress": 1 },
    });
    json!({ "jsonrpc": "2.0", "method": "mcp/message", "params": params })
}

fn tools(id: &Value) -> Value {
    let result = json!({ "result": { "tools": [{ "name": "now" }, { "name": "later" }] } });
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

#[tokio::test]
async fn an_agent_uses_a_server_that_lives_in_the_client_through_any_replica() {
    let mut cluster = Cluster::start().await;
    let client = Client::initialize(&cluster.url()).await;
    let session = opened(&client).await;
    let here = client.at(&cluster.gateway_url(0));
    let there = client.at(&cluster.gateway_url(1));
    let mut stream = here.session_stream(&session, None).await;
    there.post(prompt(json!("1"), &session, "/mcp clock")).await;
    let request = asked(&mut stream).await;
    assert_eq!(request["params"]["serverId"], "srv-1");
    assert_eq!(request["params"]["method"], "tools/list");
    // The notification names no session, and goes to a gateway that knows nothing of the request.
    let id = &request["params"]["requestId"];
    there.post(progress(id)).await;
    assert_eq!(
        said(&mut stream).await,
        "notifications/progress for tools-1 "
    );
    // The question survives the worker that asked it.
    cluster.workers.iter_mut().for_each(|worker| worker.kill());
    cluster.workers = vec![cluster.worker(2)];
    there.post(tools(&request["id"])).await;
    assert_eq!(said(&mut stream).await, "tools of clock: now, later ");
    // Also when no turn runs.
    stream.response(&json!("1")).await;
    here.post(progress(id)).await;
    assert_eq!(
        said(&mut stream).await,
        "notifications/progress for tools-1 "
    );
}

#[tokio::test]
async fn an_error_of_such_a_server_is_the_agents_to_read() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let client = Client::initialize(&baton.url()).await;
    let session = opened(&client).await;
    let mut stream = client.session_stream(&session, None).await;
    client
        .post(prompt(json!("1"), &session, "/mcp clock\n/mcp other"))
        .await;
    let request = asked(&mut stream).await;
    let result = json!({ "error": { "code": -32000, "message": "no time" } });
    client
        .post(json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }))
        .await;
    assert_eq!(
        said(&mut stream).await,
        "clock answers with an error: no time "
    );
    assert_eq!(
        said(&mut stream).await,
        "no MCP server \"other\" in the client "
    );
}

/// Whoever it comes from, it reaches only sessions of their own, and breaks nothing.
#[tokio::test]
async fn what_names_somebody_elses_request_reaches_nobody() {
    let cluster = Cluster::start_with_keys().await;
    let alice = Client::with_key(&cluster.url(), ALICE).await;
    let bob = Client::with_key(&cluster.url(), BOB).await;
    let session = opened(&alice).await;
    let mut stream = alice.connection_stream(None).await;
    for id in [
        json!(format!("{session}:x")),
        json!("x"),
        json!(7),
        json!(null),
        json!("nobody:x"),
    ] {
        bob.post(progress(&id)).await;
    }
    for id in [json!("x"), json!(session), json!(7)] {
        alice.post(progress(&id)).await;
    }
    alice
        .post(progress(&json!(format!("{session}:mine"))))
        .await;
    assert_eq!(said(&mut stream).await, "notifications/progress for mine ");
    // There is no such request of a client's.
    let mut request = progress(&json!(format!("{session}:x")));
    request["id"] = json!("r");
    let answer = alice.one_shot(request).await.response(&json!("r")).await;
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
}
