//! What a client does in its session, as its role has it.

use std::collections::BTreeSet;
use std::time::Duration;

use rand::RngExt as _;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};

use super::line::Line;
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
}

pub struct Talk {
    session: String,
    role: Role,
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

    /// Asks something, mostly one thing at a time, and waits until all of it is answered.
    pub async fn exchange(&mut self, line: &mut Line, rng: &mut StdRng) {
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
