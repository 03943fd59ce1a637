//! What passes between a client and an agent.

use serde_json::json;

use super::{Visit, actor, served};
use crate::support::http::{cancel, load, new_session};
use crate::support::process::baton;
use crate::support::schema::CONVERSATIONS;
use crate::support::{Client, Event, Served};

#[tokio::test]
async fn words_questions_and_answers_are_carried_in_order() {
    let baton = served("--start noise", &[]).await;
    let mut visit = Visit::begin(&baton.url()).await;
    assert_eq!(
        visit.says("say one\nsay two\ncount 5").await,
        "onetwo1 2 3 4 5 "
    );
    // A question, its answer, and what the agent makes of it.
    let id = visit.ask("ask\nsay done").await;
    let question = visit.question().await;
    assert_eq!(question["params"]["sessionId"], visit.session.as_str());
    let outcome = json!({ "outcome": { "outcome": "selected", "optionId": "yes" } });
    let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": outcome });
    visit.client.post(answer).await;
    let (said, _) = visit.end_of(&id).await;
    assert_eq!(said, format!("{}done", python(&outcome.to_string())));
}

#[tokio::test]
async fn an_agent_speaks_and_asks_between_turns() {
    let baton = served("", &[]).await;
    let mut visit = Visit::begin(&baton.url()).await;
    visit.says("later").await;
    assert_eq!(visit.next_chunk().await, "later ");
    let question = visit.question().await;
    // Also while a turn runs, the answer finds its question.
    let id = visit.ask("count 100 5").await;
    visit.next_chunk().await;
    let outcome = json!({ "outcome": { "outcome": "selected", "optionId": "no" } });
    let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": outcome });
    visit.client.post(answer).await;
    let (said, _) = visit.end_of(&id).await;
    assert!(said.contains(&python(&outcome.to_string())), "{said}");
}

/// As the actor writes JSON.
fn python(text: &str) -> String {
    text.replace(':', ": ").replace(',', ", ")
}

#[tokio::test]
async fn the_agent_says_what_a_session_offers_and_hears_of_changes() {
    let baton = served("", &[]).await;
    let (client, initialized) = Client::open(&baton.url(), json!({
        "protocolVersion": 1,
        "clientCapabilities": { "fs": { "readTextFile": true, "writeTextFile": false }, "terminal": true },
    }))
    .await
    .expect("the gateway answers");
    assert_eq!(initialized["result"]["agentInfo"]["name"], "actor");
    // What Baton adds to an agent that cannot do it.
    assert_eq!(
        initialized["result"]["agentCapabilities"]["loadSession"],
        true
    );
    let mut stream = client.connection_stream(None).await;
    client.post(new_session(json!("n"))).await;
    let answer = stream.response(&json!("n")).await;
    assert_eq!(answer["result"]["modes"]["currentModeId"], "one");
    assert_eq!(answer["result"]["_meta"]["own"], true);
    let session = answer["result"]["sessionId"].as_str().expect("an id");
    // Said while the session was opened, before anybody could hear it.
    let early = stream.next().await.expect("the stream goes on").message();
    let kind = &early["params"]["update"]["sessionUpdate"];
    assert_eq!(kind, "available_commands_update");
    let mut visit = Visit::of(client, session.to_owned()).await;
    visit.says("say hello").await;
    let set = json!({ "sessionId": visit.session, "modeId": "two" });
    let set = json!({ "jsonrpc": "2.0", "id": "m", "method": "session/set_mode", "params": set });
    visit.client.post(set).await;
    let (events, _) = visit.stream.until_response(&json!("m")).await;
    let announced = |event: &Event| event.message()["params"]["update"]["currentModeId"] == "two";
    assert!(events.iter().any(announced), "others are told");
    visit.says("mode one").await;
    let load = load(json!("l"), &visit.session);
    let loaded = visit
        .client
        .one_shot(load)
        .await
        .response(&json!("l"))
        .await;
    assert_eq!(loaded["result"]["modes"]["currentModeId"], "one");
}

#[tokio::test]
async fn what_baton_does_not_know_passes_both_ways() {
    let baton = served("", &[]).await;
    let mut visit = Visit::begin(&baton.url()).await;
    let params = json!({ "sessionId": visit.session, "x": { "big": 9_007_199_254_740_993_u64 } });
    let call = json!({ "jsonrpc": "2.0", "id": "e", "method": "_test/echo", "params": params });
    visit.client.post(call).await;
    let answer = visit.stream.response(&json!("e")).await;
    assert_eq!(answer["result"]["x"], params["x"]);
    CONVERSATIONS.tolerate(&visit.client.token, "");
    let id = visit.ask("extend").await;
    let (events, _) = visit.stream.until_response(&id).await;
    let told = events
        .iter()
        .map(Event::message)
        .find(|m| m["method"] == "_test/told");
    let told = told.expect("the notification came");
    assert_eq!(told["params"]["sessionId"], visit.session.as_str());
    assert_eq!(told["params"]["big"], 9_007_199_254_740_993_u64);
}

#[tokio::test]
async fn an_agent_reaches_an_mcp_server_in_its_client() {
    let baton = served("", &[]).await;
    let client = Client::initialize(&baton.url()).await;
    let server = json!({ "type": "acp", "name": "clock", "serverId": "srv-1" });
    let params = json!({ "cwd": "/tmp", "mcpServers": [server] });
    let new = json!({ "jsonrpc": "2.0", "id": "n", "method": "session/new", "params": params });
    let answer = client.one_shot(new).await.response(&json!("n")).await;
    let session = answer["result"]["sessionId"].as_str().expect("an id");
    let mut visit = Visit::of(client, session.to_owned()).await;
    let id = visit.ask("server srv-1").await;
    let asked = loop {
        let event = visit.stream.next().await.expect("the stream goes on");
        if event.message()["method"] == "mcp/message" {
            break event.message();
        }
    };
    assert_eq!(asked["params"]["serverId"], "srv-1");
    let progress = json!({
        "serverId": "srv-1", "requestId": asked["params"]["requestId"],
        "method": "notifications/progress", "params": {},
    });
    let progress = json!({ "jsonrpc": "2.0", "method": "mcp/message", "params": progress });
    visit.client.post(progress).await;
    let result = json!({ "result": { "tools": [] } });
    let tools = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result });
    visit.client.post(tools).await;
    assert_eq!(visit.end_of(&id).await.0, python(&result.to_string()));
}

#[tokio::test]
async fn an_agents_refusal_reaches_the_client_as_it_is() {
    let baton = served("", &[]).await;
    let client = Client::initialize(&baton.url()).await;
    let params = json!({ "cwd": "/refused", "mcpServers": [] });
    let new = json!({ "jsonrpc": "2.0", "id": 1, "method": "session/new", "params": params });
    let answer = client.one_shot(new).await.response(&json!(1)).await;
    let refusal = json!({ "code": -32000, "message": "Authentication required", "data": { "how": "log in" } });
    assert_eq!(answer["error"], refusal);
}

#[tokio::test]
async fn a_turn_is_cancelled_by_the_agent_or_without_it() {
    let baton = served("", &[]).await;
    let mut visit = Visit::begin(&baton.url()).await;
    let cancel = cancel(&visit.session);
    let id = visit.ask("count 100000 5").await;
    visit.next_chunk().await;
    visit.client.post(cancel.clone()).await;
    let (_, answer) = visit.end_of(&id).await;
    assert_eq!(answer["result"]["stopReason"], "cancelled");
    // The agent is told of its question, too, if the client says nothing more.
    let id = visit.ask("ask").await;
    visit.question().await;
    visit.client.post(cancel.clone()).await;
    let (said, _) = visit.end_of(&id).await;
    assert!(said.contains("cancelled"), "{said}");
    // This one does not listen. It is stopped, and another takes its place.
    let id = visit.ask("say begun\ndeaf").await;
    visit.next_chunk().await;
    visit.client.post(cancel).await;
    let (_, answer) = visit.end_of(&id).await;
    assert_eq!(answer["result"]["stopReason"], "cancelled");
    assert_eq!(visit.says("say again").await, "again");
}

#[tokio::test]
async fn an_agent_lives_in_its_sessions_directory_and_sees_little_else() {
    let baton = Served::start_with(&[
        "--agent",
        &actor(""),
        "--ephemeral",
        "--agent-env",
        "LC_TEST",
    ])
    .await;
    let mut visit = Visit::begin(&baton.url()).await;
    assert_eq!(visit.says("where").await, "/tmp");
    let names = visit.says("environment").await;
    let names: Vec<String> = serde_json::from_str(&names).expect("a list");
    assert!(names.contains(&"PATH".to_owned()), "{names:?}");
    let stranger = |name: &&String| {
        name.starts_with("CARGO") || name.starts_with("BATON") || name.starts_with("NEXTEST")
    };
    assert_eq!(names.iter().find(stranger), None);
}

#[tokio::test]
async fn an_agent_takes_no_more_than_it_may() {
    let limits = ["--agent-files", "64", "--agent-memory", "256"];
    let baton = served("", &limits).await;
    let mut visit = Visit::begin(&baton.url()).await;
    assert_eq!(visit.says("open 10").await, "opened 10");
    assert_eq!(visit.says("open 100").await, "Too many open files");
    assert_eq!(visit.says("fill 16").await, "filled 16");
    assert_eq!(visit.says("fill 512").await, "no memory");
}

#[tokio::test]
async fn what_is_bound_comes_with_the_next_prompt() {
    let baton = served("", &[]).await;
    let mut visit = Visit::begin(&baton.url()).await;
    visit.says("bind sandbox vm-17").await;
    let (_, answer) = visit.turn("say x").await;
    assert_eq!(answer["result"]["_meta"]["baton/bound"]["sandbox"], "vm-17");
}

#[test]
fn bad_options_are_all_named() {
    let output = baton()
        .args([
            "serve",
            "--ephemeral",
            "--agent",
            "stdio:'x",
            "--agent-env",
            "BATON_STORE",
            "--agent-files",
            "0",
        ])
        .output()
        .expect("baton runs");
    assert_eq!(output.status.code(), Some(64));
    let said = String::from_utf8_lossy(&output.stderr);
    for fault in [
        "a quotation in the command has no end",
        "--agent-env BATON_STORE",
        "--agent-files 0",
    ] {
        assert!(said.contains(fault), "{said}");
    }
}
