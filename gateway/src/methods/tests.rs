//! Requests that a gateway answers by itself, on a store in memory.

use baton_protocol::ErrorCode;
use baton_session::clock::unix_seconds;
use baton_session::command::{ClientCapabilities, CommandKind};
use baton_session::conformance::scene::{CWD, Scene, end, update};
use baton_session::event::Event;
use baton_session::id::LogId;
use baton_session::route::DeliveryPath;
use baton_session::store::{AppendRequest, MemoryStore, Store};
use baton_session::token::{KeyRing, SigningKeys, generate};
use jsonwebtoken::Algorithm;
use serde_json::{Value, json};

use super::*;
use crate::app::{App, GatewayConfig, StopSignals};
use crate::auth::{AuthMethod, Caller};

struct Desk {
    app: Arc<App>,
    connection: ConnectionToken,
    scene: Scene,
}

/// The desk of a session's creator, before that exists.
async fn desk() -> Desk {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let keys = KeyRing::parse(&generate(Algorithm::HS256)).unwrap();
    let (config, keys) = (GatewayConfig::default(), SigningKeys::fixed(keys));
    let app = App::new(
        config,
        store.clone(),
        keys,
        AuthMethod::Open,
        StopSignals::default(),
    )
    .await;
    let scene = Scene::planned(&store);
    Desk {
        app: app.unwrap(),
        connection: ConnectionToken {
            id: scene.creator.clone(),
            principal: scene.principal.clone(),
            protocol_version: 1,
            client: ClientCapabilities::default(),
            agent: Some("scripted".into()),
            rights: None,
            issued: unix_seconds(),
            expires: u64::MAX,
        },
        scene,
    }
}

impl Desk {
    fn access(&self) -> RequestAccess {
        RequestAccess {
            connection: self.connection.clone(),
            grant: PresentedToken::Absent,
            without_connection: false,
            caller: Caller::anonymous(),
        }
    }

    /// As a POST that is answered on the connection's stream; returns the answer if it is known at
    /// once.
    async fn take(&self, message: &Value) -> Option<Value> {
        let bytes = Bytes::from(message.to_string());
        let inbound = Inbound::read(bytes).unwrap();
        let message = ClientMessage {
            inbound: &inbound,
            session_header: None,
            agent: None,
            one_shot: false,
            over_bytes: None,
            door: None,
            makes: None,
        };
        let outcome = dispatch(&self.app.methods, &self.access(), message).await;
        let MethodOutcome::Answer(answer) = outcome.ok().unwrap() else {
            return None;
        };
        let text = answer.message.clone();
        let posted = post_answer(&self.app.methods, &self.connection, message, answer).await;
        assert!(posted.is_ok());
        Some(serde_json::from_slice(&text).unwrap())
    }

    /// The messages on the connection's stream beside sessions.
    async fn delivered(&self) -> Vec<Value> {
        let log = LogId::Outbox(self.connection.id.clone());
        let frames = self.app.store.read(&log, 1, 10_000).await.unwrap();
        let events = frames.iter().flat_map(|frame| &frame.events);
        let messages = events.filter_map(|event| match event {
            Event::Message { message } => Some(serde_json::from_slice(message).unwrap()),
            _ => None,
        });
        messages.collect()
    }

    /// One turn with a message "m", of a session that shows `view`.
    async fn told(&self, view: &str) {
        self.scene.create().await;
        let token = self.scene.claim().await.token;
        let said = |update: Value| {
            let params = json!({ "sessionId": self.scene.id, "update": update });
            let message = json!({ "jsonrpc": "2.0", "method": "session/update", "params": params });
            update_of(&message)
        };
        let events = vec![
            said(json!({ "sessionUpdate": "current_mode_update", "currentModeId": "ask" })),
            said(json!({ "sessionUpdate": "agent_message_chunk", "messageId": "m" })),
            end(&self.scene.creator, DeliveryPath::Connection),
        ];
        let turn = AppendRequest {
            acks: self.scene.named(&[1]).await,
            view: Some(view.to_owned().into()),
            release: true,
            ..self.scene.append(&token, 1, events)
        };
        self.scene.write(&turn).await;
    }

    fn fork(&self, id: u64, more: Value) -> Value {
        let mut params = json!({ "sessionId": self.scene.id, "cwd": CWD });
        params["_meta"] = json!({ "baton/fork": more });
        json!({ "jsonrpc": "2.0", "id": id, "method": "session/fork", "params": params })
    }
}

fn update_of(message: &Value) -> Event {
    update(&message.to_string())
}

#[tokio::test]
async fn a_fork_that_is_asked_for_again_is_answered_the_same() {
    let desk = desk().await;
    desk.told("{}").await;
    let forks = [
        desk.fork(1, json!({})),
        desk.fork(2, json!({ "atMessageId": "m" })),
    ];
    let mut answer_now = Vec::new();
    for fork in &forks {
        let answer = desk.take(fork).await.unwrap();
        assert!(answer["result"]["sessionId"].is_string(), "{answer}");
        answer_now.push(answer);
    }
    assert!(desk.scene.delete().await);
    for (fork, answer) in forks.iter().zip(&answer_now) {
        // But for the token, and only the first one is delivered.
        let again = desk.take(fork).await.unwrap();
        assert_eq!(again["result"]["sessionId"], answer["result"]["sessionId"]);
    }
    assert_eq!(desk.delivered().await, answer_now, "each once");
}

#[tokio::test]
async fn a_fork_that_was_refused_stays_refused() {
    let desk = desk().await;
    let fork = desk.fork(1, json!({}));
    let refusal = desk.take(&fork).await.unwrap();
    assert_eq!(
        refusal["error"]["code"],
        ErrorCode::ResourceNotFound.value()
    );
    desk.told("{}").await;
    desk.take(&fork).await.unwrap();
    assert_eq!(desk.delivered().await, [refusal]);
}

#[tokio::test]
async fn a_fork_copes_with_any_view() {
    for view in [
        "",
        "7",
        "[]",
        "\"x\"",
        "{\"modes\":\"x\"}",
        "{\"modes\":[]}",
    ] {
        let desk = desk().await;
        desk.told(view).await;
        for (id, at) in [(1, json!({})), (2, json!({ "atMessageId": "m" }))] {
            let answer = desk.take(&desk.fork(id, at)).await.unwrap();
            assert!(
                answer["result"]["sessionId"].is_string(),
                "{view}: {answer}"
            );
        }
    }
}

#[tokio::test]
async fn a_message_is_searched_for_up_to_a_limit_and_one_of_the_user_anywhere() {
    let desk = desk().await;
    desk.scene.create().await;
    let token = desk.scene.claim().await.token;
    let said = |kind: &str, id: &str, text: &str| {
        let update = json!({ "sessionUpdate": kind, "messageId": id, "content": { "text": text } });
        let params = json!({ "sessionId": desk.scene.id, "update": update });
        update_of(&json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }))
    };
    let long = "x".repeat(100_000);
    let mut events = vec![
        said("agent_message_chunk", "old", ""),
        said("user_message_chunk", "user-2", ""),
        said("user_message_chunk", "user-2", ""),
    ];
    events.extend((0..100).map(|_| said("agent_message_chunk", "long", &long)));
    events.push(said("agent_message_chunk", "new", ""));
    events.push(end(&desk.scene.creator, DeliveryPath::Connection));
    let mut first = 1;
    for events in events.chunks(3) {
        let append = desk.scene.append(&token, first, events.to_vec());
        desk.scene.write(&append).await;
        first += events.len() as u64;
    }
    let fork = async |id, at: &str| {
        desk.take(&desk.fork(id, json!({ "atMessageId": at })))
            .await
    };
    for (id, at, upto) in [(1, "new", 105), (2, "long", 103), (3, "user-2", 3)] {
        let child = fork(id, at).await.unwrap();
        let child = child["result"]["sessionId"].as_str().expect("a fork");
        let child = LogId::Session(SessionId::parse(child).unwrap());
        let head = desk.app.store.heads(&[child]).await.unwrap()[0];
        assert_eq!(head, upto, "{at}");
    }
    for (id, at) in [(4, "old"), (5, "never"), (6, "user-9")] {
        let refused = fork(id, at).await.unwrap();
        assert_eq!(
            refused["error"]["code"],
            ErrorCode::InvalidParams.value(),
            "{refused}"
        );
        let text = refused["error"]["message"].as_str().unwrap();
        assert!(text.contains("fork at a later one"), "{text}");
        assert!(text.contains(&format!("message \"{at}\"")), "{text}");
    }
}

#[tokio::test]
async fn a_request_is_cancelled_where_it_went() {
    let desk = desk().await;
    desk.scene.create().await;
    let call = |request, id: Option<u64>| {
        let params = json!({ "requestId": request });
        let mut call = json!({ "jsonrpc": "2.0", "method": "$/cancel_request", "params": params });
        if let Some(id) = id {
            call["id"] = json!(id);
        }
        call
    };
    let prompt = desk.scene.findable("7");
    desk.app.store.enqueue(&prompt).await.unwrap();
    let waiting = async || {
        let inbox = desk.app.store.inbox(&desk.scene.id, &[]).await.unwrap();
        let kinds = inbox.iter().map(|queued| queued.command.kind);
        kinds.collect::<Vec<_>>()
    };
    // With an id it is no notification, and who waits for an answer gets one.
    let answer = desk.take(&call(7, Some(8))).await.unwrap();
    assert_eq!(answer["error"]["code"], ErrorCode::InvalidRequest.value());
    assert_eq!(desk.take(&call(8, None)).await, None);
    assert_eq!(waiting().await, [CommandKind::New, CommandKind::Prompt]);
    assert_eq!(desk.take(&call(7, None)).await, None);
    assert_eq!(
        waiting().await,
        [
            CommandKind::New,
            CommandKind::Prompt,
            CommandKind::CancelRequest
        ]
    );
}
