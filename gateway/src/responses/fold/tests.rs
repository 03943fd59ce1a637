use baton_session::event::{ResponseRecipient, TurnBegin};
use baton_session::id::{ConnectionId, Partition, SessionId};
use baton_session::route::DeliveryPath;
use serde_json::{Value, json};

use super::*;

struct Scene {
    name: ResponseName,
}

impl Scene {
    fn new() -> Self {
        let name = ResponseName {
            session: SessionId::mint(Partition(1)),
            after: 1,
            answers: false,
            asker: ConnectionId::mint(Partition(2)),
        };
        Self { name }
    }

    fn begin(&self) -> Event {
        Event::Begin(TurnBegin {
            command: 7.into(),
            connection: self.name.asker.clone(),
            via: DeliveryPath::OneShot,
        })
    }

    fn echo(&self, fields: &[(&str, &str)]) -> Event {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        let terms = ResponseTerms {
            at: 7,
            model: "scripted".into(),
            previous: None,
            fields: fields
                .iter()
                .map(|(name, value)| ((*name).to_owned(), raw(value)))
                .collect(),
        };
        let meta: Value = serde_json::from_str(&terms.meta()).unwrap();
        let content = json!({ "type": "text", "text": "hello", "_meta": meta });
        Event::Echo {
            by: self.name.asker.clone(),
            at: None,
            message: said("user_message_chunk", "user-1", content),
        }
    }

    fn end(&self, answer: Value) -> Event {
        Event::Response {
            to: ResponseRecipient {
                connection: self.name.asker.clone(),
                request: PROMPT_ID.into(),
                via: DeliveryPath::OneShot,
                trace: None,
                at: None,
            },
            turn: true,
            message: answer.to_string().into(),
        }
    }

    fn turn(&self, said: &[Event], stop: &str) -> Vec<Event> {
        let end = self.end(json!({ "result": { "stopReason": stop } }));
        let mut events = vec![self.begin(), self.echo(&[])];
        events.extend_from_slice(said);
        events.push(end);
        events
    }

    fn events(&self, log: &[Event], after: Option<u64>) -> Vec<Value> {
        let mut fold = ResponseFold::new(self.name.clone(), None, Some(after));
        let mut text = Vec::new();
        for event in log {
            fold.add(event);
            text.extend(fold.take_events().into_iter().flatten());
        }
        let text = String::from_utf8(text).unwrap();
        let (events, done) = text.rsplit_once("data: [DONE]\n\n").expect("it is over");
        assert_eq!(done, "");
        events.split_terminator("\n\n").map(read_event).collect()
    }

    fn object(&self, log: &[Event]) -> Value {
        let mut fold = ResponseFold::new(self.name.clone(), None, None);
        log.iter().for_each(|event| fold.add(event));
        serde_json::from_slice(&fold.object()).unwrap()
    }
}

fn read_event(text: &str) -> Value {
    let (kind, data) = text.split_once("\ndata: ").unwrap();
    let data: Value = serde_json::from_str(data).unwrap();
    assert_eq!(kind.strip_prefix("event: ").unwrap(), data["type"]);
    data
}

fn said(kind: &str, message: &str, content: Value) -> Bytes {
    let update = json!({ "sessionUpdate": kind, "content": content, "messageId": message });
    json!({ "jsonrpc": "2.0", "params": { "sessionId": "s", "update": update } })
        .to_string()
        .into()
}

fn chunk(kind: &str, message: &str, text: &str) -> Event {
    Event::Update {
        turn: true,
        message: said(kind, message, json!({ "type": "text", "text": text })),
    }
}

fn words(text: &str) -> Event {
    chunk("agent_message_chunk", "agent-1", text)
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect()
}

#[test]
fn a_turn_is_told_in_order_and_numbered_without_holes() {
    let scene = Scene::new();
    let log = scene.turn(
        &[
            chunk("agent_thought_chunk", "t", "hm "),
            words("one \"é\"\n"),
            words("two"),
            chunk("agent_message_chunk", "agent-2", "three"),
        ],
        "end_turn",
    );
    let events = scene.events(&log, None);
    assert_eq!(
        kinds(&events),
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.reasoning_summary_part.added",
            "response.reasoning_summary_text.delta",
            "response.reasoning_summary_text.done",
            "response.reasoning_summary_part.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    for (at, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], at);
    }
    assert_eq!(events[12]["text"], "one \"é\"\ntwo");
    let last = &events.last().unwrap()["response"];
    assert_eq!(last["output"][1], events[14]["item"]);
    assert_eq!(last["output"][2]["content"][0]["text"], "three");
    assert_eq!(*last, scene.object(&log));
    assert_eq!(last.as_object().unwrap().len(), 31);
}

#[test]
fn whoever_comes_back_gets_the_rest_with_the_same_numbers() {
    let scene = Scene::new();
    let log = scene.turn(&[words("a"), words("b"), words("c")], "end_turn");
    let whole = scene.events(&log, None);
    for after in 0..whole.len() as u64 - 1 {
        let rest = scene.events(&log, Some(after));
        assert_eq!(rest, whole[after as usize + 1..]);
    }
}

#[test]
fn an_end_is_told_as_what_it_is() {
    let scene = Scene::new();
    for (stop, status, event, reason) in [
        (
            "max_tokens",
            "incomplete",
            "response.incomplete",
            json!("max_output_tokens"),
        ),
        (
            "max_turn_requests",
            "incomplete",
            "response.incomplete",
            json!("max_tool_calls"),
        ),
        ("cancelled", "cancelled", "response.incomplete", Value::Null),
        ("refusal", "completed", "response.completed", Value::Null),
    ] {
        let log = scene.turn(&[words("a")], stop);
        let events = scene.events(&log, None);
        let last = events.last().unwrap();
        assert_eq!(
            (&last["type"], &last["response"]["status"]),
            (&json!(event), &json!(status))
        );
        assert_eq!(last["response"]["incomplete_details"]["reason"], reason);
        let refusals = kinds(&events)
            .iter()
            .filter(|kind| kind.contains("refusal"))
            .count();
        assert_eq!(refusals, if stop == "refusal" { 2 } else { 0 });
        let item = &last["response"]["output"][0];
        let whole = if status == "completed" {
            "completed"
        } else {
            "incomplete"
        };
        assert_eq!(item["status"], whole);
    }
    let error = json!({ "error": { "code": 5006, "message": "it broke" } });
    let log = [scene.begin(), scene.echo(&[]), words("a"), scene.end(error)];
    let failed = scene.object(&log);
    assert_eq!(failed["status"], "failed");
    assert_eq!(
        failed["error"],
        json!({ "code": "agent_failed", "message": "it broke" })
    );
    // Nobody has begun it.
    let refused = scene.end(json!({ "error": { "code": -32602, "message": "no" } }));
    assert_eq!(scene.object(&[refused])["error"]["code"], "invalid_prompt");
}

#[test]
fn what_was_asked_for_is_reported_back() {
    let scene = Scene::new();
    let fields = [
        ("temperature", "0.50"),
        ("metadata", r#"{"a":"b"}"#),
        ("background", "true"),
    ];
    let log = [scene.begin(), scene.echo(&fields)];
    let object = scene.object(&log);
    assert_eq!(
        (&object["created_at"], &object["model"]),
        (&json!(7), &json!("scripted"))
    );
    assert_eq!(
        (&object["temperature"], &object["metadata"]["a"]),
        (&json!(0.5), &json!("b"))
    );
    assert_eq!(object["status"], "in_progress");
    assert_eq!(scene.object(&[])["status"], "queued");
    let end = scene.end(json!({ "result": { "stopReason": "end_turn" } }));
    let events = scene.events(&[&log[..], &[end]].concat(), None);
    assert_eq!(kinds(&events)[..2], ["response.created", "response.queued"]);
    assert_eq!(events[0]["response"]["status"], "queued");
}

#[test]
fn turns_of_others_are_not_part_of_it() {
    let scene = Scene::new();
    let other = Scene::new();
    let mut log = other.turn(&[words("not mine")], "end_turn");
    log.extend(scene.turn(&[words("mine")], "end_turn"));
    let object = scene.object(&log);
    assert_eq!(object["output"][0]["content"][0]["text"], "mine");
    assert_eq!(object["output"].as_array().unwrap().len(), 1);
}

#[test]
fn what_is_no_text_is_named() {
    let scene = Scene::new();
    let part = |content: Value| Event::Update {
        turn: true,
        message: said("agent_message_chunk", "m", content),
    };
    let log = scene.turn(
        &[
            part(json!({ "type": "resource_link", "name": "a", "uri": "file:///a" })),
            part(json!({ "type": "image", "data": "aGk=", "mimeType": "image/png" })),
            part(json!("broken")),
        ],
        "end_turn",
    );
    let object = scene.object(&log);
    assert_eq!(
        object["output"][0]["content"][0]["text"],
        "file:///a[image]"
    );
}

fn permission(id: &str) -> Event {
    let options = json!([{ "optionId": "yes", "name": "Yes", "kind": "allow_once" }]);
    let params = json!({ "sessionId": "s", "toolCall": { "title": "rm" }, "options": options });
    let method = "session/request_permission";
    let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    Event::Request {
        id: id.into(),
        message: message.to_string().into(),
    }
}

fn answer(id: &str, by: &ConnectionId) -> Event {
    let terms = ResponseTerms {
        at: 9,
        model: "scripted".into(),
        ..Default::default()
    };
    let meta: Value = serde_json::from_str(&terms.meta()).unwrap();
    let message = json!({ "jsonrpc": "2.0", "id": id, "result": { "_meta": meta } });
    Event::Answer {
        id: id.into(),
        by: Some(by.clone()),
        message: message.to_string().into(),
    }
}

#[test]
fn a_question_ends_a_response() {
    let scene = Scene::new();
    let log = [
        scene.begin(),
        scene.echo(&[]),
        words("a"),
        permission("q"),
        words("b"),
    ];
    let events = scene.events(&log, None);
    let last = &events.last().unwrap()["response"];
    assert_eq!(last["status"], "completed");
    let items = last["output"].as_array().unwrap();
    let kinds: Vec<&Value> = items.iter().map(|item| &item["type"]).collect();
    assert_eq!(kinds, ["message", "function_call", "mcp_approval_request"]);
    assert_eq!(
        (&items[1]["call_id"], &items[2]["id"]),
        (&json!("call_q"), &json!("mcpr_q"))
    );
    assert_eq!(items[0]["content"][0]["text"], "a");
    for (at, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], at);
    }
    assert_eq!(*last, scene.object(&log));
}

#[test]
fn the_next_response_has_what_comes_after_the_question() {
    let mut scene = Scene::new();
    scene.name.answers = true;
    let own = scene.name.asker.clone();
    let end = scene.end(json!({ "result": { "stopReason": "end_turn" } }));
    // Something was said before the answer was taken.
    let log = [
        permission("q"),
        words("a"),
        answer("q", &own),
        words("b"),
        end.clone(),
    ];
    let object = scene.object(&log);
    assert_eq!(object["output"][0]["content"][0]["text"], "ab");
    assert_eq!(
        (&object["created_at"], &object["status"]),
        (&json!(9), &json!("completed"))
    );
    let events = scene.events(&log, None);
    assert_eq!(
        *events.last().unwrap()["response"].as_object().unwrap(),
        *object.as_object().unwrap()
    );
    // Two questions at once: the other one is next.
    let log = [
        permission("q"),
        permission("r"),
        answer("q", &own),
        words("b"),
    ];
    let object = scene.object(&log);
    assert_eq!(object["output"][0]["call_id"], "call_r");
    // Somebody else was faster.
    let other = ConnectionId::mint(Partition(3));
    let object = scene.object(&[permission("q"), answer("q", &other), words("b")]);
    assert_eq!(object["error"]["code"], "question_answered");
    // The turn was over first.
    let object = scene.object(&[permission("q"), end]);
    assert_eq!(object["status"], "completed");
}
