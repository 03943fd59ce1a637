//! What clients are after.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rand::RngExt as _;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::World;
use super::line::{Line, Means};
use crate::ledger::{Prompt, id_of};
use crate::support::http::{load, new_session, prompt};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Prompts, and waits for the answer.
    Author,
    /// Changes its mind sometimes.
    Canceller,
    /// Is asked for permission in every turn.
    Asked,
}

/// Everyone, at once.
pub fn spawn_all(world: &Arc<World>) -> JoinSet<()> {
    let mut clients = JoinSet::new();
    for (label, means, role, count) in [
        ("sse", Means::Streams, Role::Author, 3),
        ("one-stream", Means::OneStream, Role::Author, 2),
        ("body", Means::Bodies, Role::Author, 2),
        ("ws", Means::Socket, Role::Author, 3),
        ("cancel-sse", Means::Streams, Role::Canceller, 1),
        ("cancel-ws", Means::Socket, Role::Canceller, 1),
        ("asked-sse", Means::Streams, Role::Asked, 1),
        ("asked-ws", Means::Socket, Role::Asked, 1),
        ("asked-body", Means::Bodies, Role::Asked, 1),
    ] {
        for number in 0..count {
            let name = format!("{label}-{number}");
            clients.spawn(converse(world.clone(), name, means, role));
        }
    }
    for number in 0..2 {
        clients.spawn(observe(world.clone(), format!("observer-{number}")));
    }
    clients
}

/// Prompts of one session; then the client starts over as somebody else.
const LIFE: usize = 30;

async fn converse(world: Arc<World>, name: String, means: Means, role: Role) {
    for life in 0.. {
        if world.over.is_cancelled() {
            return;
        }
        live(&world, &format!("{name}.{life}"), means, role).await;
    }
}

async fn live(world: &Arc<World>, name: &str, means: Means, role: Role) {
    let mut rng = world.rng(&format!("{name} prompts"));
    let mut line = Line::open(world.clone(), name, means).await;
    line.ask(new_session(json!("new")), None).await;
    let answer = line.answer_to("new").await;
    let Some(session) = answer["result"]["sessionId"].as_str() else {
        return;
    };
    line.join(session);
    if role != Role::Asked {
        let mut sessions = world.sessions.lock().expect("not poisoned");
        sessions.push(session.to_owned());
    }
    let mut talk = Talk {
        session: session.to_owned(),
        role,
        chunks: 0,
        lasts: 0,
    };
    for _ in 0..LIFE {
        if world.over.is_cancelled() {
            return;
        }
        talk.exchange(&mut line, &mut rng).await;
        sleep(Duration::from_millis(rng.random_range(0..400))).await;
    }
}

struct Talk {
    session: String,
    role: Role,
    /// Of the latest prompt. Ever more, so that their number names the prompt.
    chunks: u64,
    /// About how long its turn takes, in milliseconds.
    lasts: u64,
}

impl Talk {
    /// Asks something, mostly one thing at a time, and waits until all of it is answered.
    async fn exchange(&mut self, line: &mut Line, rng: &mut StdRng) {
        let mut open = BTreeSet::from([self.prompt(line, rng).await]);
        if self.role == Role::Author && rng.random_bool(0.2) {
            open.insert(self.prompt(line, rng).await);
        }
        if self.role == Role::Author && rng.random_bool(0.2) {
            open.insert(self.set_mode(line, rng).await);
        }
        let mut cancels = (self.role == Role::Canceller && rng.random_bool(0.6))
            .then(|| Instant::now() + Duration::from_millis(rng.random_range(0..self.lasts)));
        while !open.is_empty() {
            tokio::select! {
                message = line.hear() => {
                    if message.get("method").is_none() {
                        open.remove(&id_of(&message));
                    }
                    if message["method"] == "session/request_permission" {
                        permit(line, &message, rng).await;
                    }
                }
                _ = sleep_until(cancels.unwrap_or_else(Instant::now)), if cancels.is_some() => {
                    cancels = None;
                    let params = json!({ "sessionId": self.session });
                    line.say(json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": params })).await;
                }
            }
        }
    }

    /// Returns the id of the request.
    async fn prompt(&mut self, line: &mut Line, rng: &mut StdRng) -> String {
        self.chunks += rng.random_range(1..12);
        self.lasts = rng.random_range(300..3000);
        // Small ones, ones that fill a frame, and ones too large to be published whole.
        let size = [0, 0, 0, 0, 0, 0, 0, 4000, 4000, 20_000][rng.random_range(0..10)];
        let delay = self.lasts / self.chunks;
        let mut text = format!("/count {} delay={delay} size={size}", self.chunks);
        if self.role == Role::Asked {
            text = format!("/permission\n{text}");
        }
        let id = format!("prompt-{}", self.chunks);
        let asked = Prompt {
            session: self.session.clone(),
            chunks: self.chunks,
            size,
            may_be_cancelled: self.role == Role::Canceller,
            permission: self.role == Role::Asked,
        };
        let message = prompt(json!(id), &self.session, &text);
        line.ask(message, Some(asked)).await;
        id
    }

    /// Something that does not wait for the turn's end.
    async fn set_mode(&mut self, line: &mut Line, rng: &mut StdRng) -> String {
        let mode = ["ask", "code", "architect"][rng.random_range(0..3)];
        let id = format!("mode-{}", self.chunks);
        let params = json!({ "sessionId": self.session, "modeId": mode });
        let method = "session/set_mode";
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        line.ask(message, None).await;
        id
    }
}

/// Takes its time, and answers once or twice; the first answer counts.
async fn permit(line: &mut Line, question: &Value, rng: &mut StdRng) {
    sleep(Duration::from_millis(rng.random_range(0..1500))).await;
    let answer = |option: &str| {
        let outcome = json!({ "outcome": { "outcome": "selected", "optionId": option } });
        json!({ "jsonrpc": "2.0", "id": question["id"], "result": outcome })
    };
    line.say(answer("allow_once")).await;
    if rng.random_bool(0.5) {
        line.say(answer("allow_always")).await;
    }
}

/// Loads somebody's session, watches for a while, leaves, and starts over as somebody else.
async fn observe(world: Arc<World>, name: String) {
    let mut rng = world.rng(&name);
    for visit in 0.. {
        let session = {
            let sessions = world.sessions.lock().expect("not poisoned");
            // One of the latest: those are alive.
            let from = sessions.len().saturating_sub(12);
            let some = !sessions.is_empty();
            some.then(|| sessions[rng.random_range(from..sessions.len())].clone())
        };
        if world.over.is_cancelled() {
            return;
        }
        let Some(session) = session else {
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        world.ledger.count(|counts| counts.loads += 1);
        let name = format!("{name}.{visit}");
        let means = [Means::Streams, Means::OneStream, Means::Socket][rng.random_range(0..3)];
        let mut line = Line::open(world.clone(), &name, means).await;
        line.join(&session);
        line.ask(load(json!("load"), &session), None).await;
        line.answer_to("load").await;
        let leaves = Instant::now() + Duration::from_millis(rng.random_range(1000..10_000));
        let watching = async { while timeout_at(leaves, line.hear()).await.is_ok() {} };
        tokio::select! {
            _ = watching => {}
            _ = world.over.cancelled() => {}
        }
    }
}
