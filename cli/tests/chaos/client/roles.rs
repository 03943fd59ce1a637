//! What clients are after.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt as _;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::line::{Line, Means};
use super::lives::live;
use super::talk::Role;
use super::{PROGRAM, SCRIPTED, World};
use crate::schedule::LEASE;
use crate::support::http::load;

/// So many sessions, each with a client of its own, with whichever means.
pub fn spawn_paced(world: &Arc<World>, sessions: usize) -> JoinSet<()> {
    let mut clients = JoinSet::new();
    let means = [
        ("sse", Means::Streams),
        ("one-stream", Means::OneStream),
        ("body", Means::Bodies),
        ("ws", Means::Socket),
    ];
    for number in 0..sessions {
        let (label, means) = means[number % means.len()];
        let name = format!("paced-{label}-{number}");
        clients.spawn(converse(world.clone(), name, means, Role::Paced, SCRIPTED));
    }
    clients
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
        ("rest-sse", Means::Streams, Role::Rester, 1),
        ("rest-one-stream", Means::OneStream, Role::Rester, 1),
        ("rest-body", Means::Bodies, Role::Rester, 1),
        ("rest-ws", Means::Socket, Role::Rester, 1),
    ] {
        for number in 0..count {
            let name = format!("{label}-{number}");
            clients.spawn(converse(world.clone(), name, means, role, SCRIPTED));
        }
    }
    for (label, means, role) in [
        ("program-sse", Means::Streams, Role::Author),
        ("program-ws", Means::Socket, Role::Author),
        ("program-body", Means::Bodies, Role::Author),
        ("program-cancel-ws", Means::Socket, Role::Canceller),
        ("program-asked-sse", Means::Streams, Role::Asked),
        ("program-rest-one-stream", Means::OneStream, Role::Rester),
    ] {
        if world.programs {
            clients.spawn(converse(world.clone(), label.into(), means, role, PROGRAM));
        }
    }
    for number in 0..2 {
        clients.spawn(observe(world.clone(), format!("observer-{number}")));
    }
    clients
}

/// When all processes are up again, every turn must end within this.
const SETTLING: Duration = Duration::from_secs(30);

/// Everyone finishes. Whether they could.
pub async fn leave(world: &World, mut clients: JoinSet<()>) -> bool {
    world.over.cancel();
    let settled = timeout(SETTLING + LEASE, async {
        while let Some(client) = clients.join_next().await {
            client.expect("a client does not panic");
        }
    });
    let settled = settled.await.is_ok();
    clients.shutdown().await;
    settled
}

async fn converse(world: Arc<World>, name: String, means: Means, role: Role, agent: &'static str) {
    for life in 0.. {
        if world.over.is_cancelled() {
            return;
        }
        let line = Line::open(world.clone(), &format!("{name}.{life}"), means, agent).await;
        live(line, role).await;
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
        let mut line = Line::open(world.clone(), &name, means, SCRIPTED).await;
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
