//! A session's life, from its first prompt to whatever becomes of it.

use std::time::Duration;

use rand::RngExt as _;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::line::{Line, Means};
use super::talk::{Role, Talk};
use crate::support::http::new_session;

/// Prompts of one session; then the client starts over as somebody else.
const LIFE: usize = 30;
/// Those who rest come back so often.
const RESTS: usize = 4;
/// The store makes a session small ten seconds after its last turn.
const REST: std::ops::Range<u64> = 10_500..14_000;
/// Exchanges after something was done to the session as a whole.
const AFTER: usize = 3;

/// What becomes of a session in the end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Left,
    /// And opened again.
    Closed,
    Forked,
    Deleted,
}

impl Fate {
    fn pick(means: Means, rng: &mut StdRng) -> Self {
        match rng.random_range(0..10) {
            0..3 => Self::Forked,
            3..6 => Self::Closed,
            // A stream of its own would be opened again, and there is no such session any more.
            6..8 if means != Means::Streams => Self::Deleted,
            _ => Self::Left,
        }
    }
}

/// Returns when the session has had its time, or nothing new is to be begun.
pub async fn live(mut line: Line, role: Role) {
    let mut rng = line.world.rng(&format!("{} prompts", line.name));
    line.ask(new_session(json!("new")), None).await;
    let answer = line.answer_to("new").await;
    let Some(session) = answer["result"]["sessionId"].as_str() else {
        return;
    };
    line.join(session);
    let fate = match role {
        Role::Paced => Fate::Left,
        _ => Fate::pick(line.means, &mut rng),
    };
    if role != Role::Asked && fate != Fate::Deleted {
        let mut sessions = line.world.sessions.lock().expect("not poisoned");
        sessions.push(session.to_owned());
    }
    let mut talk = Talk::new(session, role);
    let (exchanges, rests) = match role {
        Role::Rester => (rng.random_range(2..7), RESTS),
        Role::Paced => (usize::MAX, 0),
        // Short lives are the ones with an end.
        _ if fate != Fate::Left => (rng.random_range(1..8), 0),
        _ => (LIFE, 0),
    };
    exchange(&mut talk, &mut line, &mut rng, exchanges).await;
    for _ in 0..rests {
        if rest(&mut line, &mut rng).await.is_none() {
            break;
        }
        exchange(&mut talk, &mut line, &mut rng, 2).await;
    }
    if !line.world.over.is_cancelled() {
        meet(fate, talk, line, &mut rng).await;
    }
}

async fn exchange(talk: &mut Talk, line: &mut Line, rng: &mut StdRng, times: usize) {
    for _ in 0..times {
        if line.world.over.is_cancelled() {
            return;
        }
        talk.exchange(line, rng).await;
        let pause = match talk.role {
            Role::Paced => rng.random_range(5_000..15_000),
            _ => rng.random_range(0..400),
        };
        tokio::select! {
            () = sleep(Duration::from_millis(pause)) => {}
            () = line.world.over.cancelled() => {}
        }
    }
}

/// Long enough that the session is made small, then some of what was asked before, once more. `None` if there is
/// no more time for that.
async fn rest(line: &mut Line, rng: &mut StdRng) -> Option<()> {
    let long = Duration::from_millis(rng.random_range(REST));
    let over = line.world.over.clone();
    tokio::select! {
        _ = sleep(long) => {}
        _ = over.cancelled() => return None,
    }
    line.world.ledger.count(|counts| counts.rests += 1);
    for id in line.known() {
        if rng.random_bool(0.4) {
            line.repeat(&id).await;
        }
    }
    Some(())
}

async fn meet(fate: Fate, mut talk: Talk, mut line: Line, rng: &mut StdRng) {
    let session = talk.session.clone();
    let ledger = line.world.ledger.clone();
    let about = json!({ "sessionId": session });
    match fate {
        Fate::Left => {}
        Fate::Closed => {
            ask(&mut line, "close", about).await;
            ledger.count(|counts| counts.closed += 1);
            // Not a load: this client has seen everything.
            ask(
                &mut line,
                "resume",
                json!({ "sessionId": session, "cwd": "/tmp" }),
            )
            .await;
            exchange(&mut talk, &mut line, rng, AFTER).await;
        }
        Fate::Forked => {
            let params = json!({ "sessionId": session, "cwd": "/tmp", "mcpServers": [] });
            let answer = ask(&mut line, "fork", params).await;
            let Some(child) = answer["result"]["sessionId"].as_str() else {
                return;
            };
            ledger.forked(&line.name, &session, child);
            line.join(child);
            let mut other = talk.forked(child);
            exchange(&mut other, &mut line, rng, AFTER).await;
            // Its parent goes its own way, with ids of its own.
            talk.goes_on_after(&other);
            exchange(&mut talk, &mut line, rng, 1).await;
        }
        Fate::Deleted => {
            ask(&mut line, "delete", about).await;
            ledger.deleted(&session);
        }
    }
}

/// `session/METHOD`, and its answer.
async fn ask(line: &mut Line, method: &str, params: Value) -> Value {
    let (id, method) = (method, format!("session/{method}"));
    let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    line.ask(message, None).await;
    line.answer_to(id).await
}
