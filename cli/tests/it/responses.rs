//! The door for clients that speak Open Responses.

use std::path::Path;
use std::process::Command;

use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};

use crate::clients::plays_alone;
use crate::support::auth::{ALICE, BOB};
use crate::support::http::bearing;
use crate::support::{Cluster, Served, until, within};

/// Somebody at this door.
#[derive(Clone)]
struct Visitor {
    base: String,
    http: reqwest::Client,
}

impl Visitor {
    /// At the address of `/acp`.
    fn at(url: &str) -> Self {
        Self::over(url, reqwest::Client::new())
    }

    fn with_key(url: &str, key: &str) -> Self {
        Self::over(url, bearing(key))
    }

    fn over(url: &str, http: reqwest::Client) -> Self {
        let base = url.strip_suffix("/acp").expect("the address of /acp");
        Self {
            base: format!("{base}/v1"),
            http,
        }
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Response {
        let mut request = self.http.request(method, format!("{}{path}", self.base));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.header("content-type", "application/json");
        within("an answer", request.body(body.to_owned()).send())
            .await
            .expect("the gateway answers")
    }

    async fn post(&self, body: &Value) -> Response {
        self.ask(Method::POST, "/responses", &[], &body.to_string())
            .await
    }

    /// A response that has ended.
    async fn create(&self, body: Value) -> Value {
        let response = self.post(&body).await;
        assert_eq!(response.status(), StatusCode::OK, "{body}");
        object(response).await
    }

    async fn get(&self, path: &str) -> Response {
        self.ask(Method::GET, path, &[], "").await
    }

    async fn streamed(&self, body: Value) -> Vec<Value> {
        let mut events = EventReader::of(self.post(&body).await);
        events.rest().await
    }
}

async fn object(response: Response) -> Value {
    let text = within("a body", response.text()).await.expect("a body");
    let object: Value = serde_json::from_str(&text).expect("JSON");
    check_object(&object);
    object
}

/// All 31 fields of the published schema, and no other.
const FIELDS: [&str; 31] = [
    "background",
    "completed_at",
    "created_at",
    "error",
    "frequency_penalty",
    "id",
    "incomplete_details",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "object",
    "output",
    "parallel_tool_calls",
    "presence_penalty",
    "previous_response_id",
    "prompt_cache_key",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "status",
    "store",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "usage",
];

fn check_object(object: &Value) {
    let fields = object.as_object().expect("an object");
    let mut names: Vec<&str> = fields.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, FIELDS, "{object}");
    for name in [
        "top_p",
        "presence_penalty",
        "frequency_penalty",
        "temperature",
    ] {
        assert!(object[name].is_number(), "{name}: {object}");
    }
    for name in ["created_at", "top_logprobs"] {
        assert!(object[name].is_u64(), "{name}: {object}");
    }
    for name in ["id", "model", "status", "service_tier", "truncation"] {
        assert!(object[name].is_string(), "{name}: {object}");
    }
    assert_eq!(object["object"], "response");
    assert!(object["text"]["format"]["type"].is_string(), "{object}");
    for item in object["output"].as_array().expect("items") {
        check_item(item);
    }
}

fn check_item(item: &Value) {
    assert!(item["id"].is_string(), "{item}");
    match item["type"].as_str() {
        Some("message") => {
            assert!(
                item["status"].is_string() && item["role"] == "assistant",
                "{item}"
            );
            assert!(item["content"].is_array(), "{item}");
        }
        Some("reasoning") => assert!(item["summary"].is_array(), "{item}"),
        Some("function_call") => {
            let call = item["call_id"].as_str().expect("an id");
            assert!((1..=64).contains(&call.len()), "{item}");
            assert!(
                item["name"].is_string() && item["status"].is_string(),
                "{item}"
            );
            let arguments = item["arguments"].as_str().expect("a text");
            assert!(serde_json::from_str::<Value>(arguments).is_ok(), "{item}");
        }
        Some("mcp_approval_request") => {
            assert!(
                item["name"].is_string() && item["server_label"].is_string(),
                "{item}"
            );
            assert!(item["arguments"].is_string(), "{item}");
        }
        _ => panic!("an unknown item: {item}"),
    }
}

/// Reads the events of a stream, each held against the schema.
struct EventReader {
    response: Response,
    buffer: String,
    done: bool,
}

impl EventReader {
    fn of(response: Response) -> Self {
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self {
            response,
            buffer: String::new(),
            done: false,
        }
    }

    /// `None` when the stream has ended, in order or cut off.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((block, rest)) = self.buffer.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.buffer = rest;
                if block == "data: [DONE]" {
                    self.done = true;
                } else if !block.starts_with(':') {
                    return Some(event_of(&block));
                }
                continue;
            }
            match within("more of a stream", self.response.chunk()).await {
                Ok(Some(bytes)) => self.buffer += std::str::from_utf8(&bytes).expect("whole"),
                _ => return None,
            }
        }
    }

    /// To its end.
    async fn rest(&mut self) -> Vec<Value> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        assert!(self.done, "the stream was cut off: {events:?}");
        events
    }
}

fn event_of(block: &str) -> Value {
    let (kind, data) = block.split_once('\n').expect("two lines");
    let data = data.strip_prefix("data: ").expect("one line of data");
    let event: Value = serde_json::from_str(data).expect("JSON");
    assert_eq!(kind.strip_prefix("event: "), event["type"].as_str());
    assert!(event["sequence_number"].is_u64(), "{event}");
    if !event["response"].is_null() {
        check_object(&event["response"]);
    }
    event
}

fn text_of(object: &Value) -> String {
    let items = object["output"].as_array().expect("items");
    let messages = items.iter().filter(|item| item["type"] == "message");
    let texts = messages.map(|item| item["content"][0]["text"].as_str().unwrap_or_default());
    texts.collect()
}

fn numbers(events: &[Value]) -> Vec<u64> {
    let numbers = events
        .iter()
        .map(|event| event["sequence_number"].as_u64().unwrap());
    numbers.collect()
}

fn words(chunks: u64, prompt: u64) -> String {
    let chunks = (1..=chunks).map(|at| format!("chunk {at} of {chunks}, prompt {prompt} "));
    chunks.collect()
}

fn said(events: &[Value]) -> String {
    let deltas = events
        .iter()
        .filter(|event| event["type"] == "response.output_text.delta");
    deltas
        .map(|event| event["delta"].as_str().unwrap())
        .collect()
}

fn session_of(id: &Value) -> String {
    let id = id.as_str().expect("an id");
    id.split('_').nth(1).expect("it names a session").to_owned()
}

async fn error(response: Response) -> (StatusCode, Value) {
    let status = response.status();
    let text = within("a body", response.text()).await.expect("a body");
    let body: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{status}: {text}"));
    let error = body["error"]
        .as_object()
        .unwrap_or_else(|| panic!("{status}: {text}"));
    let mut names: Vec<&str> = error.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["code", "message", "param", "type"]);
    (status, body["error"].clone())
}

#[tokio::test]
async fn a_response_is_the_same_whole_streamed_and_read_again() {
    let baton = Served::start().await;
    let visitor = Visitor::at(&baton.url());
    let body = json!({ "model": "scripted", "input": "/think\n/count 3" });
    let whole = visitor.create(body.clone()).await;
    assert_eq!(
        (text_of(&whole), &whole["status"]),
        (words(3, 1), &json!("completed"))
    );
    assert!(whole["completed_at"].is_u64(), "{whole}");
    let mut streaming = body;
    streaming["stream"] = json!(true);
    let events = visitor.streamed(streaming).await;
    assert_eq!(
        numbers(&events),
        (0..events.len() as u64).collect::<Vec<_>>()
    );
    assert_eq!(said(&events), words(3, 1));
    let last = &events.last().unwrap()["response"];
    let id = last["id"].as_str().unwrap();
    let again = object(visitor.get(&format!("/responses/{id}")).await).await;
    assert_eq!(
        (&again["output"], &again["id"]),
        (&last["output"], &last["id"])
    );
    assert_eq!(again["created_at"], last["created_at"]);
    // From wherever somebody comes back.
    let path = format!("/responses/{id}?stream=true&starting_after=4");
    let rest = EventReader::of(visitor.get(&path).await).rest().await;
    let told = |events: &[Value]| -> Vec<Value> {
        events
            .iter()
            .filter(|event| event["response"].is_null())
            .cloned()
            .collect()
    };
    assert_eq!(told(&rest), told(&events[5..]));
}

#[tokio::test]
async fn a_chain_goes_on_and_forks_where_somebody_else_went_on() {
    let cluster = Cluster::start().await;
    let visitor = Visitor::at(&cluster.url());
    let ask = |previous: &Value| json!({ "input": "/count 1", "previous_response_id": previous });
    let first = visitor.create(json!({ "input": "/count 1" })).await;
    let second = visitor.create(ask(&first["id"])).await;
    assert_eq!(text_of(&second), words(1, 2));
    assert_eq!(session_of(&second["id"]), session_of(&first["id"]));
    let third = visitor.create(ask(&second["id"])).await;
    assert_eq!(text_of(&third), words(1, 3));
    let other = visitor.create(ask(&first["id"])).await;
    assert_eq!(text_of(&other), words(1, 2));
    assert_ne!(session_of(&other["id"]), session_of(&first["id"]));
    let conversation = session_of(&first["id"]);
    let fourth = json!({ "input": "/count 1", "conversation": conversation });
    assert_eq!(text_of(&visitor.create(fourth).await), words(1, 4));
}

#[tokio::test]
async fn twenty_who_go_on_from_one_response_do_not_disturb_each_other() {
    let cluster = Cluster::start().await;
    let visitor = Visitor::at(&cluster.url());
    let first = visitor.create(json!({ "input": "/count 3" })).await;
    let tasks = (0..20).map(|_| {
        let (visitor, previous) = (visitor.clone(), first["id"].clone());
        tokio::spawn(async move {
            let ask = json!({ "input": "/count 2", "previous_response_id": previous });
            visitor.create(ask).await
        })
    });
    let tasks: Vec<_> = tasks.collect();
    let mut sessions = Vec::new();
    for task in tasks {
        let response = task.await.expect("a response");
        // The second turn, for each of them.
        assert_eq!(text_of(&response), words(2, 2));
        sessions.push(session_of(&response["id"]));
    }
    sessions.sort_unstable();
    sessions.dedup();
    assert_eq!(sessions.len(), 20);
    assert!(
        sessions.contains(&session_of(&first["id"])),
        "one of them goes on"
    );
}

#[tokio::test]
async fn the_same_key_is_the_same_response() {
    let cluster = Cluster::start().await;
    let visitor = Visitor::at(&cluster.url());
    let key = [("idempotency-key", "once")];
    let ask = |body: Value| {
        let visitor = visitor.clone();
        async move {
            let body = body.to_string();
            visitor.ask(Method::POST, "/responses", &key, &body).await
        }
    };
    let body = json!({ "input": "/count 10 delay=20" });
    let (one, other) = tokio::join!(ask(body.clone()), ask(body.clone()));
    let (one, other) = (object(one).await, object(other).await);
    let again = object(ask(body).await).await;
    for response in [&one, &other, &again] {
        assert_eq!(
            (text_of(response), &response["id"]),
            (words(10, 1), &one["id"])
        );
    }
    let (status, refused) = error(ask(json!({ "input": "something else" })).await).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(refused["code"], "idempotency_key_reused");
    // Also where it goes on: first in the session, then, the second having been there, in no fork.
    let next = json!({ "input": "/count 1", "previous_response_id": one["id"] });
    let next_key = [("idempotency-key", "next")];
    let mut ids = Vec::new();
    for _ in 0..3 {
        let body = next.to_string();
        let response = visitor
            .ask(Method::POST, "/responses", &next_key, &body)
            .await;
        let response = object(response).await;
        assert_eq!(text_of(&response), words(1, 2));
        ids.push(response["id"].clone());
    }
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

#[tokio::test]
async fn somebody_elses_response_is_unknown() {
    let cluster = Cluster::start_with_keys().await;
    let (alice, bob) = (
        Visitor::with_key(&cluster.url(), ALICE),
        Visitor::with_key(&cluster.url(), BOB),
    );
    let own = alice.create(json!({ "input": "hello" })).await;
    let id = own["id"].as_str().unwrap();
    let unknown = format!("{}0000", &id[..id.len() - 4]);
    for id in [id, &unknown] {
        let ask = json!({ "input": "x", "previous_response_id": id });
        let (status, refused) = error(bob.post(&ask).await).await;
        assert_eq!(status, StatusCode::NOT_FOUND);
        assert_eq!(refused["code"], "previous_response_not_found");
        assert_eq!(refused["message"], format!("there is no response {id:?}"));
        let ask = json!({ "input": "x", "conversation": session_of(&json!(id)) });
        assert_eq!(
            error(bob.post(&ask).await).await.1["code"],
            "conversation_not_found"
        );
        for (method, path) in [
            (Method::GET, format!("/responses/{id}")),
            (Method::GET, format!("/responses/{id}?stream=true")),
            (Method::GET, format!("/responses/{id}/input_items")),
            (Method::POST, format!("/responses/{id}/cancel")),
            (Method::DELETE, format!("/responses/{id}")),
        ] {
            let (status, refused) = error(bob.ask(method, &path, &[], "").await).await;
            assert_eq!(
                (status, &refused["code"]),
                (StatusCode::NOT_FOUND, &json!("response_not_found"))
            );
        }
    }
    // Nobody at all.
    let stranger = Visitor::at(&cluster.url());
    let (status, refused) = error(stranger.post(&json!({ "input": "x" })).await).await;
    assert_eq!(
        (status, &refused["code"]),
        (StatusCode::UNAUTHORIZED, &json!("invalid_api_key"))
    );
    let read = object(alice.get(&format!("/responses/{id}")).await).await;
    assert_eq!(text_of(&read), "hello ");
}

#[tokio::test]
async fn bad_input_is_answered_in_the_form_of_the_protocol() {
    let baton = Served::start().await;
    let visitor = Visitor::at(&baton.url());
    for (body, status, code, param) in [
        ("{", 400, "invalid_request", json!(null)),
        ("[]", 400, "invalid_request", json!(null)),
        ("{\"input\":\"a\",\"input\":\"b\"}", 200, "", json!(null)),
        ("{}", 400, "invalid_value", json!("input")),
        ("{\"input\":7}", 400, "invalid_value", json!("input")),
        (
            "{\"input\":\"x\",\"model\":\"nobody\"}",
            404,
            "model_not_found",
            json!("model"),
        ),
        (
            "{\"input\":\"x\",\"temperature\":9}",
            400,
            "invalid_value",
            json!("temperature"),
        ),
        (
            "{\"input\":\"x\",\"tools\":[{}]}",
            400,
            "unsupported_parameter",
            json!("tools[0]"),
        ),
        (
            "{\"input\":\"x\",\"stream\":1}",
            400,
            "invalid_value",
            json!("stream"),
        ),
    ] {
        let response = visitor.ask(Method::POST, "/responses", &[], body).await;
        if status == 200 {
            assert_eq!(response.status(), StatusCode::OK, "{body}");
            continue;
        }
        let (got, refused) = error(response).await;
        assert_eq!(
            (got.as_u16(), &refused["code"]),
            (status, &json!(code)),
            "{body}"
        );
        assert_eq!(refused["param"], param, "{body}");
    }
    let (status, _) = error(visitor.ask(Method::PUT, "/responses", &[], "{}").await).await;
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
    let failed = visitor.create(json!({ "input": "/fail" })).await;
    assert_eq!(failed["status"], "failed");
    assert!(failed["error"]["message"].is_string(), "{failed}");
    let refused = visitor.create(json!({ "input": "/refuse" })).await;
    assert_eq!(refused["output"][0]["content"][0]["type"], "refusal");
    let nowhere = json!({ "input": "x", "metadata": { "baton:cwd": "here" } });
    assert_eq!(
        error(visitor.post(&nowhere).await).await.0,
        StatusCode::BAD_REQUEST
    );
}

#[tokio::test]
async fn a_caller_at_its_limit_is_told_in_the_form_of_the_protocol() {
    let baton = Served::start_with(&["--limit-requests", "2/1h"]).await;
    let visitor = Visitor::at(&baton.url());
    // One request each, however many messages are made of it.
    for _ in 0..2 {
        visitor.create(json!({ "input": "hello" })).await;
    }
    let response = visitor.post(&json!({ "input": "hello" })).await;
    assert!(response.headers().contains_key("retry-after"));
    let (status, refused) = error(response).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused["type"], "too_many_requests");
}

#[tokio::test]
async fn whoever_loses_a_gateway_goes_on_at_another() {
    let mut cluster = Cluster::start().await;
    let visitor = Visitor::at(&cluster.gateway_url(0));
    let body = json!({ "input": "/count 200 delay=10", "stream": true });
    let mut stream = EventReader::of(visitor.post(&body).await);
    let mut events = Vec::new();
    while events.len() < 50 {
        events.push(stream.next().await.expect("the stream goes on"));
    }
    cluster.gateways[0].kill();
    // What had arrived before the cut counts.
    while let Some(event) = stream.next().await {
        events.push(event);
    }
    let id = events[0]["response"]["id"].as_str().unwrap().to_owned();
    let after = numbers(&events).last().copied().unwrap();
    let elsewhere = Visitor::at(&cluster.gateway_url(1));
    let path = format!("/responses/{id}?stream=true&starting_after={after}");
    events.extend(EventReader::of(elsewhere.get(&path).await).rest().await);
    assert_eq!(
        numbers(&events),
        (0..events.len() as u64).collect::<Vec<_>>()
    );
    assert_eq!(said(&events), words(200, 1));
}

#[tokio::test]
async fn a_background_response_survives_its_worker() {
    let mut cluster = Cluster::start().await;
    let visitor = Visitor::at(&cluster.url());
    let body = json!({ "input": "/count 200 delay=10", "background": true });
    let begun = visitor.create(body).await;
    assert_eq!(begun["status"], "queued");
    let id = begun["id"].as_str().unwrap();
    let path = format!("/responses/{id}?stream=true");
    let mut stream = EventReader::of(visitor.get(&path).await);
    let mut events = Vec::new();
    while said(&events).is_empty() {
        events.push(stream.next().await.expect("the stream goes on"));
    }
    let worker = cluster.redis.worker_of(&session_of(&begun["id"]));
    let holder = cluster
        .workers
        .iter()
        .position(|it| it.output().contains(&worker));
    cluster.workers[holder.expect("one of them holds it")].kill();
    events.extend(stream.rest().await);
    assert_eq!(
        numbers(&events),
        (0..events.len() as u64).collect::<Vec<_>>()
    );
    assert_eq!(said(&events), words(200, 1));
    let path = format!("/responses/{id}");
    let ended = object(visitor.get(&path).await).await;
    assert_eq!(
        (text_of(&ended), &ended["status"]),
        (words(200, 1), &json!("completed"))
    );
}

#[tokio::test]
async fn one_that_waits_is_queued_and_can_be_cancelled() {
    let baton = Served::start().await;
    let visitor = Visitor::at(&baton.url());
    let body = json!({ "input": "/sleep 600000", "background": true });
    let first = visitor.create(body).await;
    let body = json!({
        "input": "/sleep 600000", "background": true, "conversation": session_of(&first["id"]),
    });
    let second = visitor.create(body).await;
    let path = |response: &Value| format!("/responses/{}", response["id"].as_str().unwrap());
    let running = until("the first one runs", async || {
        let read = object(visitor.get(&path(&first)).await).await;
        (read["status"] == "in_progress").then_some(read)
    })
    .await;
    assert_eq!(running["id"], first["id"]);
    let waiting = object(visitor.get(&path(&second)).await).await;
    assert_eq!(
        (&waiting["status"], &waiting["background"]),
        (&json!("queued"), &json!(true))
    );
    assert_eq!(waiting["created_at"], second["created_at"]);
    // Nobody can go on from what has not ended.
    let early = json!({ "input": "x", "previous_response_id": first["id"] });
    let (status, refused) = error(visitor.post(&early).await).await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert_eq!(refused["code"], "previous_response_not_finished");
    // The second one is heard when it is its turn.
    for response in [&first, &second] {
        let path = format!("{}/cancel", path(response));
        let ended = object(visitor.ask(Method::POST, &path, &[], "").await).await;
        assert_eq!(
            (&ended["status"], &ended["id"]),
            (&json!("cancelled"), &response["id"])
        );
    }
}

fn item<'a>(response: &'a Value, kind: &str) -> &'a Value {
    let items = response["output"].as_array().expect("items");
    let found = items.iter().find(|item| item["type"] == kind);
    found.unwrap_or_else(|| panic!("no {kind}: {response}"))
}

fn approval(asked: &Value, approve: bool) -> Value {
    let request = &item(asked, "mcp_approval_request")["id"];
    json!({ "type": "mcp_approval_response", "approval_request_id": request, "approve": approve })
}

fn output(asked: &Value, text: &str) -> Value {
    let call = &item(asked, "function_call")["call_id"];
    json!({ "type": "function_call_output", "call_id": call, "output": text })
}

#[tokio::test]
async fn a_question_ends_a_response_and_its_answer_begins_the_next() {
    let mut cluster = Cluster::start().await;
    let (one, other) = (
        Visitor::at(&cluster.gateway_url(0)),
        Visitor::at(&cluster.gateway_url(1)),
    );
    let events = one
        .streamed(json!({ "input": "/count 1\n/permission\n/count 1", "stream": true }))
        .await;
    let asked = events.last().unwrap()["response"].clone();
    assert_eq!(
        (&asked["status"], text_of(&asked)),
        (&json!("completed"), words(1, 1))
    );
    let call = item(&asked, "function_call");
    assert_eq!(call["name"], "request_permission");
    let kinds: Vec<&str> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    assert!(
        kinds.contains(&"response.function_call_arguments.done"),
        "{kinds:?}"
    );
    assert_eq!(
        numbers(&events),
        (0..events.len() as u64).collect::<Vec<_>>()
    );
    // Without the answer nothing goes on.
    let ask = json!({ "input": "x", "previous_response_id": asked["id"] });
    let (status, refused) = error(other.post(&ask).await).await;
    assert_eq!(
        (status, &refused["code"]),
        (StatusCode::BAD_REQUEST, &json!("no_tool_output"))
    );
    let ask = json!({ "input": [output(&asked, "perhaps")], "previous_response_id": asked["id"] });
    let (status, refused) = error(other.post(&ask).await).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(
        refused["message"].as_str().unwrap().contains("allow_once"),
        "{refused}"
    );
    // Neither its gateway nor its worker is there any more.
    let worker = cluster.redis.worker_of(&session_of(&asked["id"]));
    let holder = cluster
        .workers
        .iter()
        .position(|it| it.output().contains(&worker));
    cluster.gateways[0].kill();
    cluster.workers[holder.expect("one of them holds it")].kill();
    let ask = json!({
        "input": [approval(&asked, true)], "previous_response_id": asked["id"], "stream": true,
    });
    let events = other.streamed(ask).await;
    let told = events.last().unwrap()["response"].clone();
    assert_eq!(
        text_of(&told),
        format!("permission allow_once {}", words(1, 1))
    );
    assert_eq!(
        (&told["status"], &told["previous_response_id"]),
        (&json!("completed"), &asked["id"])
    );
    assert_eq!(
        numbers(&events),
        (0..events.len() as u64).collect::<Vec<_>>()
    );
    let path = format!("/responses/{}", told["id"].as_str().unwrap());
    let read = object(other.get(&path).await).await;
    assert_eq!(
        (&read["output"], &read["model"]),
        (&told["output"], &told["model"])
    );
    let rest = EventReader::of(other.get(&format!("{path}?stream=true")).await)
        .rest()
        .await;
    assert_eq!(numbers(&rest), numbers(&events));
    // It is answered once.
    let again = json!({ "input": [approval(&asked, false)], "previous_response_id": asked["id"] });
    let (status, refused) = error(other.post(&again).await).await;
    assert_eq!(
        (status, &refused["code"]),
        (StatusCode::CONFLICT, &json!("call_not_open"))
    );
    let next = json!({ "input": "/count 1", "previous_response_id": told["id"] });
    assert_eq!(text_of(&other.create(next).await), words(1, 2));
}

#[tokio::test]
async fn a_question_is_answered_by_an_option_or_by_a_client_that_keeps_its_conversation() {
    let baton = Served::start().await;
    let visitor = Visitor::at(&baton.url());
    let asked = visitor.create(json!({ "input": "/permission" })).await;
    // All that was said, as clients without `previous_response_id` send it.
    let history = json!([
        { "role": "user", "content": "/permission" },
        item(&asked, "function_call"),
        output(&asked, "{\"optionId\":\"allow_always\"}"),
    ]);
    let key = [("idempotency-key", "answer")];
    let body = json!({ "input": history, "previous_response_id": asked["id"] }).to_string();
    let mut ids = Vec::new();
    for _ in 0..2 {
        let told = object(visitor.ask(Method::POST, "/responses", &key, &body).await).await;
        assert_eq!(text_of(&told), "permission allow_always ");
        ids.push(told["id"].clone());
    }
    assert_eq!(ids[0], ids[1]);
    let asked = visitor.create(json!({ "input": "/permission" })).await;
    let refused = visitor
        .create(json!({ "input": [approval(&asked, false)] }))
        .await;
    assert_eq!(text_of(&refused), "permission reject_once ");
    // A turn that waits can be cancelled.
    let asked = visitor.create(json!({ "input": "/permission" })).await;
    let path = format!("/responses/{}/cancel", asked["id"].as_str().unwrap());
    object(visitor.ask(Method::POST, &path, &[], "").await).await;
    until("the turn has ended", async || {
        let ask = json!({ "input": [approval(&asked, true)] });
        let (_, refused) = error(visitor.post(&ask).await).await;
        (refused["code"] == "call_not_open").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_model_of_the_agent_is_chosen_with_it() {
    let cluster = Cluster::start().await;
    let visitor = Visitor::at(&cluster.url());
    let first = visitor
        .create(json!({ "model": "scripted/large", "input": "hello" }))
        .await;
    assert_eq!(
        (&first["model"], text_of(&first)),
        (&json!("scripted/large"), "hello ".into())
    );
    let ask = |model: &str| {
        let previous = &first["id"];
        json!({ "model": model, "input": "/count 1", "previous_response_id": previous })
    };
    let same = visitor.create(ask("scripted/large")).await;
    assert_eq!(session_of(&same["id"]), session_of(&first["id"]));
    let other = visitor.create(ask("scripted/small")).await;
    assert_ne!(session_of(&other["id"]), session_of(&first["id"]));
    assert_eq!(text_of(&other), words(1, 2));
    let (status, refused) = error(visitor.post(&ask("scripted/none")).await).await;
    assert_eq!(
        (status, &refused["code"]),
        (StatusCode::NOT_FOUND, &json!("model_not_found"))
    );
    let (status, _) = error(visitor.post(&ask("other")).await).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
}

fn adder() -> Value {
    json!({
        "type": "function", "name": "add", "description": "adds", "strict": true,
        "parameters": { "type": "object", "properties": { "a": { "type": "number" } } },
    })
}

#[tokio::test]
async fn a_function_of_the_client_parks_the_turn_until_its_output_comes() {
    let mut cluster = Cluster::start().await;
    let visitor = Visitor::at(&cluster.url());
    let call = "/call functions add {\"a\":1}";
    let body = json!({ "input": format!("/mcp functions\n{call}\n{call}"), "tools": [adder()] });
    let first = visitor.create(body.clone()).await;
    assert_eq!(text_of(&first), "tools of functions: add ");
    assert_eq!(first["tools"], json!([adder()]));
    let called = item(&first, "function_call");
    assert_eq!(
        (&called["name"], &called["arguments"]),
        (&json!("add"), &json!("{\"a\":1}"))
    );
    // All of Baton starts anew in between, but for the store.
    for worker in &mut cluster.workers {
        worker.kill();
    }
    cluster.gateways[0].kill();
    cluster.revive_gateway(0).await;
    cluster.workers = vec![cluster.worker(7)];
    let answer = |asked: &Value, text: &str| {
        json!({
            "input": [output(asked, text)], "previous_response_id": asked["id"],
            "tools": [adder()],
        })
    };
    let second = visitor.create(answer(&first, "2")).await;
    assert_eq!(text_of(&second), "add says 2 ");
    let third = visitor.create(answer(&second, "3")).await;
    assert_eq!(
        (text_of(&third), &third["status"]),
        ("add says 3 ".into(), &json!("completed"))
    );
    assert!(third["output"].as_array().unwrap().len() == 1, "{third}");
    // What is not offered is not called, and without an offer there is nothing.
    let other = json!({ "input": "/call functions subtract", "tools": [adder()] });
    let failed = text_of(&visitor.create(other).await);
    assert_eq!(
        failed,
        "subtract fails: the client offers no such function "
    );
    let none = visitor.create(json!({ "input": "/mcp functions" })).await;
    assert_eq!(text_of(&none), "tools of functions:  ");
    // Offered later in the conversation, and in a fork of it.
    for _ in 0..2 {
        let later = json!({
            "input": "/mcp functions", "previous_response_id": none["id"], "tools": [adder()],
        });
        assert_eq!(
            text_of(&visitor.create(later).await),
            "tools of functions: add "
        );
    }
}

fn client(program: &Path, file: &str, base: &str) -> Command {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/responses");
    let mut command = Command::new(program);
    command.arg(folder.join(file)).arg(base);
    command
}

/// With the packages of `make setup`.
fn python() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/responses/.venv/bin/python")
}

#[tokio::test]
async fn the_official_clients_of_python_play_with_replicas() {
    let cluster = Cluster::start().await;
    let base = Visitor::at(&cluster.url()).base;
    plays_alone(client(&python(), "scenario.py", &base)).await;
    plays_alone(client(&python(), "agents_scenario.py", &base)).await;
}

#[tokio::test]
async fn the_official_clients_of_node_play_with_replicas() {
    let cluster = Cluster::start().await;
    let base = Visitor::at(&cluster.url()).base;
    plays_alone(client(Path::new("node"), "scenario.mjs", &base)).await;
}
