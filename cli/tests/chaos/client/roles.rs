//! What clients are after.

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

/// One session, one prompt after the other.
async fn converse(world: Arc<World>, name: String, means: Means, role: Role) {
    let mut rng = world.rng(&format!("{name} prompts"));
    let mut line = Line::open(world.clone(), &name, means).await;
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
    let mut chunks = 0;
    while !world.over.is_cancelled() {
        // Ever more chunks, so that their number names the prompt.
        chunks += rng.random_range(1..12);
        turn(&mut line, session, chunks, role, &mut rng).await;
        sleep(Duration::from_millis(rng.random_range(0..400))).await;
    }
}

async fn turn(line: &mut Line, session: &str, chunks: u64, role: Role, rng: &mut StdRng) {
    let lasts = rng.random_range(300..3000);
    let size = if rng.random_bool(0.1) { 4000 } else { 0 };
    let mut text = format!("/count {chunks} delay={} size={size}", lasts / chunks);
    if role == Role::Asked {
        text = format!("/permission\n{text}");
    }
    let id = format!("prompt-{chunks}");
    let asked = Prompt {
        session: session.to_owned(),
        chunks,
        size,
        may_be_cancelled: role == Role::Canceller,
        permission: role == Role::Asked,
    };
    line.ask(prompt(json!(id), session, &text), Some(asked))
        .await;
    let mut cancels = (role == Role::Canceller && rng.random_bool(0.6))
        .then(|| Instant::now() + Duration::from_millis(rng.random_range(0..lasts)));
    loop {
        tokio::select! {
            message = line.hear() => {
                if message.get("method").is_none() && id_of(&message) == id {
                    return;
                }
                if message["method"] == "session/request_permission" {
                    permit(line, &message, rng).await;
                }
            }
            _ = sleep_until(cancels.unwrap_or_else(Instant::now)), if cancels.is_some() => {
                cancels = None;
                let params = json!({ "sessionId": session });
                line.say(json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": params })).await;
            }
        }
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
            let some = !sessions.is_empty();
            some.then(|| sessions[rng.random_range(0..sessions.len())].clone())
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
