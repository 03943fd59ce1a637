//! The content of a golden store, as it was read back then: kept as JSON beside it.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_session::archive;
use baton_session::command::QueuedCommand;
use baton_session::conformance::scene::Scene;
use baton_session::cursor::Cursor;
use baton_session::event::Event;
use baton_session::id::{ConnectionId, LogId, SessionId};
use baton_session::store::{Attachment, SessionRecord, Store};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Serialize, Deserialize)]
pub struct Story {
    pub principal: String,
    pub agent: String,
    pub sessions: BTreeMap<String, Told>,
    /// Names of those that lists show, newest first.
    pub listed: Vec<SessionId>,
    /// A connection that has an outbox.
    pub connection: ConnectionId,
    pub outbox: Vec<(u64, String)>,
    pub watches: Vec<(u64, SessionId)>,
    pub revocations: Vec<String>,
    pub agents: Vec<(String, String)>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    pub id: SessionId,
    pub creator: ConnectionId,
    /// Every event, with the cursor that a client has who has seen it.
    pub log: Vec<(String, String)>,
    pub attachment: Value,
    pub record: Value,
    pub inbox: Vec<Value>,
}

impl Story {
    /// The session with this name, in a store that has it.
    pub fn scene(&self, store: &Arc<dyn Store>, name: &str) -> Scene {
        let told = &self.sessions[name];
        Scene {
            store: store.clone(),
            id: told.id.clone(),
            creator: told.creator.clone(),
            principal: self.principal.clone(),
            agent: self.agent.clone(),
        }
    }
}

/// All that can be read of a session.
pub async fn told(scene: &Scene) -> Told {
    let Scene { store, id, .. } = scene;
    let attachment = store.attachment(id, &scene.creator, &scene.principal);
    let record = store.record(id, &scene.principal);
    let inbox = store.inbox(id, &[]).await.expect("an inbox");
    let record = record.await.expect("an answer");
    let log = scene.events(1).await.into_iter();
    Told {
        id: id.clone(),
        creator: scene.creator.clone(),
        log: log
            .map(|(seq, nonce, event)| (Cursor::live(seq, nonce).to_string(), line(seq, &event)))
            .collect(),
        record: record.map_or(Value::Null, |record| of_record(&record)),
        // Last: it brings a session back that rests.
        attachment: match attachment.await.expect("an answer") {
            Some(attachment) => of_attachment(&attachment),
            None => Value::Null,
        },
        inbox: inbox.iter().map(of_command).collect(),
    }
}

pub async fn outbox(store: &Arc<dyn Store>, of: &ConnectionId) -> Vec<(u64, String)> {
    let frames = store.read(&LogId::Outbox(of.clone()), 1, 100).await;
    let frames = frames.expect("an outbox");
    let entries = frames.iter().flat_map(|frame| frame.numbered());
    entries
        .map(|(number, event)| (number, line(number, event)))
        .collect()
}

pub async fn revocations(store: &Arc<dyn Store>) -> Vec<String> {
    let all = store.revocations().await.expect("revocations");
    let mut all: Vec<String> = all.iter().map(|revocation| revocation.text()).collect();
    all.sort();
    all
}

pub async fn agents(store: &Arc<dyn Store>) -> Vec<(String, String)> {
    let known = store.agents().await.expect("agents");
    let card = |(card, _)| {
        let card: baton_session::store::AgentCard = card;
        (card.name, format!("{} {}", card.version, card.initialize))
    };
    known.into_iter().map(card).collect()
}

/// As archives have it, whose format has a version of its own; what no session has in a like manner.
fn line(number: u64, event: &Event) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match event {
        Event::Message { message } => format!("message {}", text(message)),
        Event::Watch { session, after } => format!("watch {session} after {after}"),
        Event::Closed => "closed".into(),
        event => archive::line(number, event).expect("an event of a session"),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

fn of_attachment(attachment: &Attachment) -> Value {
    json!({
        "head": attachment.head,
        "route": attachment.route.to_text(),
        "controller": attachment.controller,
        "directives": attachment.directives,
        "view": text(&attachment.view),
        "pending": attachment.pending,
        "deleted": attachment.deleted,
    })
}

fn of_record(record: &SessionRecord) -> Value {
    let given = |bytes: &Option<bytes::Bytes>| bytes.as_deref().map(text);
    json!({
        "agent": record.agent,
        "cwd": record.cwd,
        "params": text(&record.params),
        "mcpServers": given(&record.setup.mcp_servers),
        "directories": given(&record.setup.directories),
        "state": text(&record.state),
        "view": text(&record.view),
        "shown": record.shown,
        "title": record.title,
        "usage": text(&record.usage),
        "bound": text(&record.bound),
        "head": record.head,
        "updated": record.updated,
        "began": record.began,
    })
}

pub fn of_command(queued: &QueuedCommand) -> Value {
    let command = &queued.command;
    json!({
        "id": queued.id,
        "via": queued.via.letter(),
        "takesControl": queued.takes_control,
        "kind": command.kind.as_str(),
        "connection": command.connection,
        "request": command.request,
        "client": command.client.letters(),
        "takenAt": command.taken_at,
        "trace": command.trace.as_ref().map(ToString::to_string),
        "message": text(&command.message),
    })
}
