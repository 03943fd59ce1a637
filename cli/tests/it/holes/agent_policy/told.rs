//! With an agent that repeats every line that it got.

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{call, employ, harmless, notify, poison};
use crate::stdio::{Visit, actor};
use crate::support::auth::{ALICE, BOB};
use crate::support::metrics::{page, value};
use crate::support::process::free_port;
use crate::support::{Client, Cluster};

/// The lines that the agent has got until now, this prompt included.
async fn lines(visit: &mut Visit) -> Vec<Value> {
    let said = visit.says("told").await;
    let lines: Vec<String> = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"));
    for line in &lines {
        for secret in ["evil", "claudeCode", "vm-17", "_test"] {
            assert!(!line.contains(secret), "{secret} reached the agent: {line}");
        }
    }
    let lines = lines.iter().map(|line| serde_json::from_str(line));
    lines.collect::<Result<_, _>>().expect("JSON")
}

/// The params by which the agent was called.
fn params<'a>(lines: &'a [Value], method: &str) -> &'a Value {
    let mut calls = lines.iter().filter(|line| line["method"] == method);
    &calls
        .next()
        .unwrap_or_else(|| panic!("no {method} in {lines:?}"))["params"]
}

/// What the agent asks.
async fn asked(visit: &mut Visit, method: &str) -> Value {
    loop {
        let event = visit.stream.next().await.expect("the stream goes on");
        if event.message()["method"] == method {
            return event.message();
        }
    }
}

async fn open(client: Client) -> Visit {
    let server = json!({ "type": "acp", "name": "clock", "serverId": "srv-1", "_meta": poison() });
    let new = json!({
        "cwd": "/tmp", "mcpServers": [server], "claudeCode": { "options": {} }, "evil": 1, "_meta": poison(),
    });
    let opened = call(&client, "new", "session/new", new).await;
    let session = opened["result"]["sessionId"].as_str();
    let session = session.unwrap_or_else(|| panic!("{opened}")).to_owned();
    Visit::of(client, session).await
}

#[tokio::test]
async fn f1_an_agent_is_told_what_the_protocol_names_and_nothing_else() {
    let mut cluster = Cluster::start_with_keys().await;
    let probes = format!("127.0.0.1:{}", free_port());
    let probed = [("BATON_PROBE_LISTEN", probes.as_str())];
    let url = employ(&mut cluster, "actor", &actor(""), &probed).await;
    let mut visit = open(Client::with_key(&url, ALICE).await).await;
    let session = visit.session.clone();
    let poisoned = |more: Value| {
        let mut params = json!({ "sessionId": session, "evil": 1, "_meta": poison() });
        let more = more.as_object().expect("an object").clone();
        params.as_object_mut().expect("an object").extend(more);
        params
    };

    let block = json!({ "type": "text", "text": "say hi", "annotations": { "_meta": poison() }, "_meta": poison() });
    let answer = call(
        &visit.client,
        "p",
        "session/prompt",
        poisoned(json!({ "prompt": [block] })),
    )
    .await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    for (id, method, more) in [
        ("m", "session/set_mode", json!({ "modeId": "two" })),
        (
            "c",
            "session/set_config_option",
            json!({ "configId": "a", "value": "b" }),
        ),
        ("o", "session/set_model", json!({ "modelId": "large" })),
    ] {
        call(&visit.client, id, method, poisoned(more)).await;
    }
    // Methods of the agent's own, called and notified.
    let answer = call(&visit.client, "e", "_test/echo", poisoned(json!({}))).await;
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("_test/echo") && message.contains("--allow-agent-methods"),
        "{message}"
    );
    notify(&visit.client, "_test/told", poisoned(json!({}))).await;

    // An answer to what the agent asked.
    let id = visit.ask("ask").await;
    let question = asked(&mut visit, "session/request_permission").await;
    let outcome = json!({ "outcome": "selected", "optionId": "yes", "_meta": poison() });
    let result = json!({ "outcome": outcome, "_meta": poison() });
    visit
        .client
        .post(json!({ "jsonrpc": "2.0", "id": question["id"], "result": result }))
        .await;
    visit.end_of(&id).await;
    let id = visit.ask("ask").await;
    let question = asked(&mut visit, "session/request_permission").await;
    let error = json!({ "code": 7, "message": "no", "data": { "why": "x", "_meta": poison() } });
    visit
        .client
        .post(json!({ "jsonrpc": "2.0", "id": question["id"], "error": error }))
        .await;
    visit.end_of(&id).await;
    // An MCP server in the client. What it says in its own protocol is between the two.
    let id = visit.ask("server srv-1").await;
    let question = asked(&mut visit, "mcp/message").await;
    let progress = json!({
        "serverId": "srv-1", "requestId": question["params"]["requestId"], "method": "notifications/progress",
        "params": { "_meta": { "own": 1 } }, "evil": 1, "_meta": poison(),
    });
    notify(&visit.client, "mcp/message", progress).await;
    let result = json!({ "result": { "tools": [], "_meta": { "own": 1 } }, "_meta": poison() });
    visit
        .client
        .post(json!({ "jsonrpc": "2.0", "id": question["id"], "result": result }))
        .await;
    visit.end_of(&id).await;
    // A cancel.
    let id = visit.ask("count 100000 5").await;
    visit.next_chunk().await;
    notify(&visit.client, "session/cancel", poisoned(json!({}))).await;
    visit.end_of(&id).await;

    let lines = lines(&mut visit).await;
    let inner = params(&lines, "session/prompt")["sessionId"].clone();
    let server =
        json!({ "type": "acp", "name": "clock", "serverId": "srv-1", "_meta": harmless() });
    for (method, expected) in [
        (
            "session/new",
            json!({ "cwd": "/tmp", "mcpServers": [server], "_meta": harmless() }),
        ),
        (
            "session/prompt",
            json!({ "sessionId": inner, "_meta": harmless(), "prompt": [
                { "type": "text", "text": "say hi", "annotations": { "_meta": harmless() }, "_meta": harmless() },
            ] }),
        ),
        (
            "session/set_mode",
            json!({ "sessionId": inner, "modeId": "two", "_meta": harmless() }),
        ),
        (
            "session/set_config_option",
            json!({ "sessionId": inner, "configId": "a", "value": "b", "_meta": harmless() }),
        ),
        (
            "session/set_model",
            json!({ "sessionId": inner, "modelId": "large", "_meta": harmless() }),
        ),
        (
            "mcp/message",
            json!({
                "serverId": "srv-1", "requestId": "r-1", "method": "notifications/progress",
                "params": { "_meta": { "own": 1 } }, "_meta": harmless(),
            }),
        ),
        ("session/cancel", json!({ "sessionId": inner })),
    ] {
        assert_eq!(*params(&lines, method), expected, "{method}");
    }
    let answers: Vec<&Value> = lines
        .iter()
        .filter(|line| line["method"].is_null())
        .collect();
    let outcome = json!({ "outcome": "selected", "optionId": "yes", "_meta": harmless() });
    assert_eq!(
        answers[0]["result"],
        json!({ "outcome": outcome, "_meta": harmless() })
    );
    assert_eq!(
        answers[1]["error"]["data"],
        json!({ "why": "x", "_meta": harmless() })
    );
    let tools = json!({ "tools": [], "_meta": { "own": 1 } });
    assert_eq!(
        answers[2]["result"],
        json!({ "result": tools, "_meta": harmless() })
    );

    // The operator hears of it: which method, how often, and nothing of what was in it.
    let log = cluster.workers.last().expect("ours").output();
    assert!(
        log.contains("_test/told") && !log.contains("claudeCode"),
        "{log}"
    );
    let page = page(&format!("http://{probes}/metrics")).await;
    let withheld = |what: &str| {
        value(
            &page,
            &format!("baton_worker_withheld_total{{what=\"{what}\"}}"),
        )
    };
    assert_eq!(withheld("method"), 2.0, "{page}");
    assert!(withheld("meta") > 0.0 && withheld("field") > 0.0, "{page}");
}

/// A session that another process goes on with is opened from what was stored.
#[tokio::test]
async fn f1_nor_when_a_session_is_brought_back_or_forked() {
    let mut cluster = Cluster::start_with_keys().await;
    let kept = TempDir::new().expect("a temporary directory");
    for ability in ["resume", "load", "nothing"] {
        let arguments = format!("--keep {} --ability {ability}", kept.path().display());
        let turn = [
            ("BATON_AGENT_SCOPE", "turn"),
            ("BATON_AGENT_SANDBOX", "none"),
        ];
        let url = employ(&mut cluster, ability, &actor(&arguments), &turn).await;
        let mut visit = open(Client::with_key(&url, BOB).await).await;
        visit.says("say one").await;
        let brought_back = lines(&mut visit).await;
        let method = match ability {
            "nothing" => "session/new".to_owned(),
            ability => format!("session/{ability}"),
        };
        let told = params(&brought_back, &method);
        assert_eq!(told["_meta"], harmless(), "{told}");
        assert_eq!(told.get("evil"), None, "{told}");

        let fork = json!({ "sessionId": visit.session, "cwd": "/tmp", "mcpServers": [], "_meta": poison() });
        let forked = call(&visit.client, "f", "session/fork", fork).await;
        let child = forked["result"]["sessionId"]
            .as_str()
            .unwrap_or_else(|| panic!("{forked}"));
        let mut child = Visit::of(Client::with_key(&url, BOB).await, child.to_owned()).await;
        let told = lines(&mut child).await;
        assert_eq!(
            params(&told, "session/new")["_meta"],
            harmless(),
            "{told:?}"
        );
    }
}
