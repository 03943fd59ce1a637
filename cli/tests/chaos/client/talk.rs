//! What a client does in its session, as its role has it.

use std::collections::BTreeSet;
use std::time::Duration;

use rand::RngExt as _;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};

use super::PROGRAM;
use super::line::{Line, Means};
use crate::ledger::{Prompt, id_of};
use crate::support::http::prompt;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Prompts, and waits for the answer.
    Author,
    /// Changes its mind sometimes.
    Canceller,
    /// Is asked for permission in every turn.
    Asked,
    /// Leaves the session alone for long, then comes back.
    Rester,
    /// Has one session for as long as the run lasts, and a turn in it now and then.
    Paced,
}

#[derive(Clone)]
pub struct Talk {
    pub session: String,
    pub role: Role,
    /// Of the latest prompt. Ever more, so that their number names the prompt.
    chunks: u64,
    /// About how long its turn takes, in milliseconds.
    lasts: u64,
}

impl Talk {
    pub fn new(session: &str, role: Role) -> Self {
        Self {
            session: session.to_owned(),
            role,
            chunks: 0,
            lasts: 0,
        }
    }

    /// The same in a session that has this one's past.
    pub fn forked(&self, session: &str) -> Self {
        Self {
            session: session.to_owned(),
            ..*self
        }
    }

    /// An id is used once on a connection.
    pub fn goes_on_after(&mut self, other: &Self) {
        self.chunks = other.chunks;
    }

    /// Asks something, mostly one thing at a time, and waits until all of it is answered.
    pub async fn exchange(&mut self, line: &mut Line, rng: &mut StdRng) {
        let mut open = BTreeSet::from([self.prompt(line, rng).await]);
        for _ in 0..self.queued(line, rng) {
            open.insert(self.prompt(line, rng).await);
        }
        if self.role == Role::Author && line.agent != PROGRAM && rng.random_bool(0.2) {
            open.insert(self.set_mode(line, rng).await);
        }
        let nags = rng.random_bool(0.2) && line.means != Means::Bodies;
        let mut nags =
            nags.then(|| Instant::now() + Duration::from_millis(rng.random_range(0..4000)));
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
                _ = sleep_until(nags.unwrap_or_else(Instant::now)), if nags.is_some() => {
                    nags = None;
                    for id in &open {
                        line.repeat(id).await;
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

    /// How many prompts are sent before the first is answered.
    fn queued(&self, line: &Line, rng: &mut StdRng) -> usize {
        // Bodies are asked for side by side, in any order, and a program names its prompts by their order.
        let ordered = line.agent != PROGRAM || line.means != Means::Bodies;
        if self.role != Role::Author || !ordered {
            return 0;
        }
        [0, 0, 0, 0, 0, 0, 0, 1, 1, 4][rng.random_range(0..10)]
    }

    /// Returns the id of the request.
    async fn prompt(&mut self, line: &mut Line, rng: &mut StdRng) -> String {
        let size = if self.role == Role::Paced {
            self.chunks += 1;
            self.lasts = self.chunks * rng.random_range(20..50);
            0
        } else {
            self.chunks += rng.random_range(1..12);
            self.lasts = rng.random_range(300..3000);
            size(self.chunks, line.agent, rng)
        };
        let delay = self.lasts / self.chunks;
        let mut text = format!("/count {} delay={delay} size={size}", self.chunks);
        if self.role == Role::Asked {
            text = format!("/permission\n{text}");
        }
        if let Some(length) = length(rng).filter(|_| self.role != Role::Paced) {
            text = format!("/think {}\n{text}", "x".repeat(length));
        }
        if size.max(text.len()) >= LARGE {
            line.world.ledger.count(|counts| counts.large += 1);
        }
        let id = format!("prompt-{}", self.chunks);
        let asked = Prompt {
            session: self.session.clone(),
            chunks: self.chunks,
            size,
            may_be_cancelled: self.role == Role::Canceller,
            permission: self.role == Role::Asked,
            program: line.agent == PROGRAM,
            words: Prompt::digest(&text),
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

const LARGE: usize = 1 << 20;

/// Of each chunk: small ones, ones that fill a frame, ones too large to be published whole, and now and then one that
/// is large for everybody.
fn size(chunks: u64, agent: &str, rng: &mut StdRng) -> usize {
    if chunks <= 8 && rng.random_bool(0.1) {
        // The scripted agent says no more than this at once.
        return if agent == PROGRAM {
            8 * LARGE / chunks as usize
        } else {
            LARGE
        };
    }
    [0, 0, 0, 0, 0, 0, 0, 4000, 4000, 20_000][rng.random_range(0..10)]
}

/// Of what the user says beside: mostly nothing, rarely megabytes.
fn length(rng: &mut StdRng) -> Option<usize> {
    match rng.random_range(0..1000) {
        0..5 => Some(rng.random_range(LARGE..8 * LARGE)),
        5..20 => Some(rng.random_range(4000..LARGE)),
        20..100 => Some(rng.random_range(10..4000)),
        _ => None,
    }
}

/// Takes its time, sometimes so much that several workers have come and gone, and answers once or twice; the first
/// answer counts.
async fn permit(line: &mut Line, question: &Value, rng: &mut StdRng) {
    let longest = if rng.random_bool(0.2) { 9000 } else { 1500 };
    sleep(Duration::from_millis(rng.random_range(0..longest))).await;
    let answer = |option: &str| {
        let outcome = json!({ "outcome": { "outcome": "selected", "optionId": option } });
        json!({ "jsonrpc": "2.0", "id": question["id"], "result": outcome })
    };
    line.say(answer("allow_once")).await;
    if rng.random_bool(0.5) {
        line.say(answer("allow_always")).await;
    }
}
