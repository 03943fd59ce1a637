//! Where a row plays: one server, one kind of client, and the steps that most rows take.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::Transport;
use super::inbox::Inbox;
use super::peer::{Answer, Asked, Peer, Refusal, Turn};

#[derive(Clone)]
pub struct Scene {
    pub transport: Transport,
    url: Arc<str>,
    inboxes: Arc<Mutex<Vec<Arc<Inbox>>>>,
}

impl Scene {
    pub fn new(url: &str, transport: Transport) -> Self {
        Self {
            transport,
            url: url.into(),
            inboxes: Arc::default(),
        }
    }

    /// One more connection.
    pub async fn peer(&self) -> Peer {
        let opened = self.initialize(json!({ "protocolVersion": 1 })).await;
        opened.expect("initialize succeeds")
    }

    /// A connection of a client that can do these things.
    pub async fn able_peer(&self, capabilities: Value) -> Peer {
        let params = json!({ "protocolVersion": 1, "clientCapabilities": capabilities });
        self.initialize(params).await.expect("initialize succeeds")
    }

    pub async fn initialize(&self, params: Value) -> Result<Peer, Refusal> {
        Peer::open(self.transport, &self.url, params, self.inbox()).await
    }

    fn inbox(&self) -> Arc<Inbox> {
        let inbox = Inbox::new();
        let mut inboxes = self.inboxes.lock().expect("nobody panics with the lock");
        inboxes.push(inbox.clone());
        inbox
    }

    /// What a reader stumbled over while the row looked elsewhere.
    pub fn fault(&self) -> Option<String> {
        let inboxes = self.inboxes.lock().expect("nobody panics with the lock");
        inboxes.iter().find_map(|inbox| inbox.fault())
    }
}

/// Where the sessions of the table live.
pub const CWD: &str = "/tmp";

/// Keeps a turn running until it is cancelled.
pub const FOREVER: &str = "/sleep 3600000";

impl Peer {
    pub async fn new_session(&self) -> String {
        self.new_session_with(json!({})).await
    }

    /// With these parameters beside the required ones, or instead of them.
    pub async fn new_session_with(&self, more: Value) -> String {
        let created = self.call("session/new", setup(more)).await;
        let id = created.expect("session/new succeeds")["sessionId"].clone();
        id.as_str().expect("an id").to_owned()
    }

    /// Sends a prompt and does not wait for its end.
    pub async fn begin(&self, session: &str, text: &str) -> Asked {
        self.ask("session/prompt", prompt(session, text)).await
    }

    /// A turn that runs until it is cancelled, and has begun.
    pub async fn begin_endless(&self, session: &str) -> Asked {
        let asked = self.begin(session, &format!("begun\n{FOREVER}")).await;
        self.hears(session, "begun ").await;
        asked
    }

    pub async fn prompt(&self, session: &str, text: &str) -> Turn {
        let asked = self.begin(session, text).await;
        self.turn(&asked, session).await
    }

    pub async fn load(&self, session: &str) -> (Vec<Value>, Answer) {
        let asked = self
            .ask("session/load", setup(json!({ "sessionId": session })))
            .await;
        let history = self.updates_during(&asked, session).await;
        (history, self.answer(&asked).await)
    }

    /// The history, of a session that can be loaded.
    pub async fn history(&self, session: &str) -> Vec<Value> {
        let (history, answer) = self.load(session).await;
        answer.expect("session/load succeeds");
        history
    }

    pub async fn resume(&self, session: &str) {
        let params = json!({ "sessionId": session, "cwd": CWD });
        let answer = self.call("session/resume", params).await;
        answer.expect("session/resume succeeds");
    }

    pub async fn cancel(&self, session: &str) {
        self.notify("session/cancel", json!({ "sessionId": session }))
            .await;
    }

    pub async fn close(&self, session: &str) {
        let closed = self
            .call("session/close", json!({ "sessionId": session }))
            .await;
        assert_eq!(closed.expect("session/close succeeds"), over());
    }

    pub async fn hears(&self, session: &str, text: &str) {
        let says = |update: &Value| {
            update["sessionUpdate"] == "agent_message_chunk" && update["content"]["text"] == text
        };
        self.inbox
            .update(&format!("{text:?} is said"), session, says)
            .await;
    }

    /// The session takes a prompt and answers it. Whoever prompts has joined, and may hear the end of
    /// a turn before.
    pub async fn works(&self, session: &str) {
        let turn = self.prompt(session, "still here").await;
        let words = turn.words();
        assert!(
            words.ends_with(&["still ".into(), "here ".into()]),
            "{words:?}"
        );
        assert_eq!(turn.stop, "end_turn");
    }
}

impl Turn {
    pub fn words(&self) -> Vec<String> {
        words(&self.updates)
    }
}

/// What the agent said.
pub fn words(updates: &[Value]) -> Vec<String> {
    of_kind(updates, "agent_message_chunk")
        .iter()
        .map(|update| update["content"]["text"].as_str().expect("text").to_owned())
        .collect()
}

pub fn of_kind(updates: &[Value], kind: &str) -> Vec<Value> {
    let is_kind = |update: &&Value| update["sessionUpdate"] == kind;
    updates.iter().filter(is_kind).cloned().collect()
}

/// What `session/new` and `session/load` need, with `more`.
pub fn setup(more: Value) -> Value {
    let mut params = json!({ "cwd": CWD, "mcpServers": [] });
    for (name, value) in more.as_object().expect("an object") {
        params[name] = value.clone();
    }
    params
}

pub fn prompt(session: &str, text: &str) -> Value {
    json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] })
}

pub fn selected(option: &str) -> Value {
    json!({ "outcome": { "outcome": "selected", "optionId": option } })
}

/// The answer is an error with this code, and its message names all of these.
pub fn refused(answer: Answer, code: i64, names: &[&str]) {
    let refusal = answer.expect_err("an error");
    assert_eq!(refusal.code, code, "{refusal:?}");
    for name in names {
        assert!(refusal.message.contains(name), "{name:?} in {refusal:?}");
    }
}

/// The answer to `session/close` and `session/delete`: its session token is to be forgotten.
pub fn over() -> Value {
    json!({ "_meta": { "baton/session": null } })
}
