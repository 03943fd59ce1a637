//! F6: what is kept has a length, whoever sends it, and errors repeat little of it.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::auth::{ALICE, BOB};
use crate::support::cluster::redis_cli;
use crate::support::http::{JSON, ONE_SHOT, bearing, prompt};
use crate::support::{Client, Cluster, Served};

const MIB: usize = 1 << 20;

fn request(method: &str, params: Value) -> Value {
    let id: String = method.chars().take(20).collect();
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// The error that a request is answered with; little of what was sent is in it.
async fn refused(client: &Client, message: Value) -> String {
    let response = client.send(&[JSON, ONE_SHOT], message.to_string()).await;
    assert_eq!(response.status(), StatusCode::OK);
    let answer = client.stream(response).response(&message["id"]).await;
    assert!(answer.to_string().len() < 1000, "{answer}");
    answer["error"]["message"]
        .as_str()
        .expect("an error")
        .to_owned()
}

#[tokio::test]
async fn f6_fields_that_are_too_long_are_named() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let client = Client::initialize(&baton.url()).await;
    let session = client.new_session().await;
    let long = "x".repeat(8 * MIB);
    let path = format!("/{}", "x".repeat(4096));
    let new = |field: &str, value: Value| {
        let mut params = json!({ "cwd": "/tmp", "mcpServers": [] });
        params[field] = value;
        request("session/new", params)
    };
    let set = |method: &str, field: &str| {
        let mut params = json!({ "sessionId": session, "configId": "c", "value": "v" });
        params[field] = json!("x".repeat(5000));
        request(method, params)
    };
    let fork = json!({ "baton/fork": { "atMessageId": "x".repeat(300) } });
    let all = [
        (
            new("cwd", json!(path)),
            "params.cwd is 4097 bytes long: 4096 are allowed",
        ),
        (new("cwd", json!(format!("/{long}"))), "params is "),
        (
            new("additionalDirectories", json!([path])),
            "params.additionalDirectories[] is 4097",
        ),
        (
            new("additionalDirectories", json!(vec!["/x"; 5000])),
            "params.additionalDirectories is ",
        ),
        (
            new("mcpServers", json!([{ "name": "x".repeat(257) }])),
            "params.mcpServers[].name is 257",
        ),
        (
            new("mcpServers", json!([{ "name": "x".repeat(300_000) }])),
            "params.mcpServers is ",
        ),
        (new("_meta", json!({ "x": long })), "params is "),
        (set("session/set_mode", "modeId"), "params.modeId is 5000"),
        (
            set("session/set_model", "modelId"),
            "params.modelId is 5000",
        ),
        (
            set("session/set_config_option", "configId"),
            "params.configId is 5000",
        ),
        (
            set("session/set_config_option", "value"),
            "params.value is 5000",
        ),
        (
            request(
                "session/fork",
                json!({ "sessionId": session, "_meta": fork }),
            ),
            "params._meta[\"baton/fork\"].atMessageId is 300",
        ),
        (
            request("session/list", json!({ "cwd": long })),
            "params.cwd is ",
        ),
        (
            request(&long, json!({})),
            "method is 8388608 bytes long: 256 are allowed",
        ),
        (
            request("session/prompt", json!({ "sessionId": long, "prompt": [] })),
            "there is no session \"xxx",
        ),
    ];
    for (message, expected) in all {
        let said = refused(&client, message).await;
        assert!(said.contains(expected), "{said:.300} instead of {expected}");
    }
    // An id would be part of the answer.
    let message = json!({ "jsonrpc": "2.0", "id": "x".repeat(2000), "method": "session/list" });
    let response = client.send(&[JSON], message.to_string()).await;
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    let text = response.text().await.expect("a body");
    assert!(
        text.contains("\\\"id\\\" may have 1024 bytes at most"),
        "{text:.300}"
    );
}

#[tokio::test]
async fn f6_an_archive_with_long_fields_is_refused_and_a_list_stays_short() {
    let cluster = Cluster::start_with_keys().await;
    let import = cluster.url().replace("/acp", "/v1/sessions/import");
    for (field, value) in [
        ("title", json!("x".repeat(8 * MIB))),
        ("cwd", json!(format!("/{}", "x".repeat(8 * MIB)))),
        ("agent", json!("x".repeat(MIB))),
        ("usage", json!({ "used": "x".repeat(MIB) })),
        ("additionalDirectories", json!(["/".repeat(MIB)])),
    ] {
        let mut header = json!({
            "batonSession": 1, "sessionId": "sess_0000_none", "agent": "scripted", "cwd": "/tmp",
            "updated": 1, "events": 0,
        });
        // A name of the right form.
        let named = Client::with_key(&cluster.url(), BOB).await;
        header["sessionId"] = json!(named.new_session().await);
        header[field] = value;
        let sent = bearing(ALICE)
            .post(&import)
            .header("content-type", "application/x-ndjson")
            .body(format!("{header}\n"));
        let answer = sent.send().await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{field}");
        let text = answer.text().await.expect("a body");
        assert!(
            text.contains(&format!("line 1: {field} is ")),
            "{text:.300}"
        );
    }
    let alice = Client::with_key(&cluster.url(), ALICE).await;
    let mut stream = alice.one_shot(request("session/list", json!({}))).await;
    let listed = stream.response(&json!("session/list")).await;
    assert_eq!(listed["result"]["sessions"], json!([]));
}

#[tokio::test]
async fn f6_a_title_that_an_agent_makes_too_long_is_cut_and_the_session_goes_on() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let client = Client::initialize(&baton.url()).await;
    let session = client.new_session().await;
    let text = format!("/title {}", "ä".repeat(MIB));
    for (id, text) in [(1, text.as_str()), (2, "/count 1")] {
        let mut stream = client.one_shot(prompt(json!(id), &session, text)).await;
        let answer = stream.response(&json!(id)).await;
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    }
    let mut stream = client.one_shot(request("session/list", json!({}))).await;
    let listed = stream.response(&json!("session/list")).await;
    let title = listed["result"]["sessions"][0]["title"].as_str();
    assert_eq!(title, Some("ä".repeat(512).as_str()));
    assert!(
        baton
            .process
            .output()
            .contains("truncated the session's title")
    );
}

#[tokio::test]
async fn f6_a_long_method_name_takes_no_room_in_the_store() {
    let cluster = Cluster::start_with_keys().await;
    let alice = Client::with_key(&cluster.url(), ALICE).await;
    let used = || {
        let info = redis_cli(cluster.redis.port, &["memory", "stats"]);
        let mut lines = info
            .lines()
            .skip_while(|line| !line.contains("dataset.bytes"));
        let number = lines
            .nth(1)
            .and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        number.expect("a number")
    };
    let before = used();
    for id in 0..4 {
        let method = "\"".repeat(4 * MIB);
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method });
        alice.post(message).await;
    }
    let grown = used().saturating_sub(before);
    assert!(grown < MIB as u64, "{grown} bytes");
}

#[tokio::test]
async fn l_a_session_id_of_10_kilobytes_is_echoed_in_100_characters() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let client = Client::initialize(&baton.url()).await;
    let id = "é".repeat(5 << 10);
    let echoed = format!("\"{}\"…", "é".repeat(100));
    let place = json!({ "sessionId": id, "cwd": "/tmp", "mcpServers": [] });
    let words = json!([{ "type": "text", "text": "hello" }]);
    for (method, more) in [
        ("session/load", json!({})),
        ("session/resume", json!({})),
        ("session/fork", json!({})),
        ("session/close", json!({})),
        ("session/prompt", json!({ "prompt": words })),
        ("session/set_mode", json!({ "modeId": "ask" })),
    ] {
        let mut params = place.clone();
        for (name, value) in more.as_object().expect("an object") {
            params[name] = value.clone();
        }
        let error = refused(&client, request(method, params)).await;
        assert!(error.contains(&echoed), "{method}: {error}");
        assert_eq!(error.matches('é').count(), 100, "{method}: {error}");
    }
}
