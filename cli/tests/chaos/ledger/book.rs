//! What is written down, and the checks of each message that arrives.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Instant;

use serde_json::Value;

use super::position::{Phase, Position};
use super::view::View;
use super::{Counts, Prompt, UNKNOWN, id_of};

/// The store has no room for new sessions.
const STORE_FULL: i64 = 4005;

#[derive(Default)]
pub struct Book {
    pub requests: BTreeMap<(String, String), Request>,
    pub prompts: HashMap<(String, u64), Prompt>,
    pub views: HashMap<(String, String), View>,
    pub positions: HashMap<(String, String), Position>,
    /// What the event with this number said, as a hash, and who saw it first.
    pub events: HashMap<(String, u64), (u64, String)>,
    pub questions: BTreeSet<(String, String)>,
    pub violations: Vec<String>,
    pub counts: Counts,
    /// Until then new sessions may be refused.
    pub full_until: Option<Instant>,
}

#[derive(Default)]
pub struct Request {
    pub accepted: bool,
    pub answers: u64,
    pub prompt: Option<Prompt>,
}

impl Book {
    /// The session a message is about.
    pub fn session_of(&self, client: &str, message: &Value) -> String {
        let id = id_of(message);
        let prompt = self
            .requests
            .get(&(client.into(), id))
            .and_then(|request| request.prompt.as_ref());
        let named = message["params"]["sessionId"]
            .as_str()
            .or(message["result"]["sessionId"].as_str())
            .or(prompt.map(|prompt| prompt.session.as_str()));
        named.unwrap_or(UNKNOWN).to_owned()
    }

    pub fn check_position(
        &mut self,
        client: &str,
        stream: &str,
        session: &str,
        id: &str,
        data: &str,
    ) -> Option<(&'static str, String)> {
        let Some(position) = Position::parse(id) else {
            return Some(("I1", "no cursor".into()));
        };
        let key = (client.to_owned(), stream.to_owned());
        let before = self.positions.insert(key, position.clone());
        if let Some(before) = before.filter(|before| !position.follows(before)) {
            return Some(("I1", format!("the ids do not rise: before it {before:?}")));
        }
        let event = position
            .event()
            .filter(|place| matches!(place.phase, Phase::Live | Phase::Replaying(_)))
            .filter(|_| session != UNKNOWN);
        let name = (session.to_owned(), event?.seq);
        let mut hasher = DefaultHasher::new();
        data.hash(&mut hasher);
        let said = (hasher.finish(), client.to_owned());
        let first = self.events.entry(name).or_insert_with(|| said.clone());
        (first.0 != said.0).then(|| ("I2", format!("{} saw something else: {data:.200}", first.1)))
    }

    pub fn check_message(
        &mut self,
        client: &str,
        stream: &str,
        session: &str,
        message: &Value,
    ) -> Vec<(&'static str, String)> {
        let update = &message["params"]["update"];
        if message["method"] == "session/request_permission" {
            self.counts.questions += 1;
            let asked = (client.to_owned(), id_of(message));
            let text = format!("asked twice: {}", asked.1);
            return match self.questions.insert(asked) {
                true => Vec::new(),
                false => vec![("I1", text)],
            };
        }
        if update["sessionUpdate"] == "agent_message_chunk" {
            let text = update["content"]["text"].as_str().unwrap_or_default();
            let view = self.views.entry((client.into(), session.into()));
            let prompts = &self.prompts;
            let prompt = |chunks| prompts.get(&(session.to_owned(), chunks));
            return view.or_default().chunk(stream, text, prompt);
        }
        if message.get("method").is_none() {
            return self.check_answer(client, message);
        }
        Vec::new()
    }

    fn check_answer(&mut self, client: &str, message: &Value) -> Vec<(&'static str, String)> {
        let id = id_of(message);
        let Some(request) = self.requests.get_mut(&(client.to_owned(), id.clone())) else {
            return vec![("I4", format!("an answer to {id}, which nobody asked"))];
        };
        request.answers += 1;
        if request.answers > 1 {
            return vec![("I4", format!("{id} was answered {} times", request.answers))];
        }
        if let Some(error) = message.get("error") {
            let full = self.full_until.is_some_and(|until| Instant::now() < until);
            if error["code"] == STORE_FULL && full && request.prompt.is_none() {
                return Vec::new();
            }
            return vec![("I4", format!("{id} was answered with {error}"))];
        }
        let Some(prompt) = request.prompt.clone() else {
            return Vec::new();
        };
        let view = self.views.entry((client.into(), prompt.session.clone()));
        let reason = message["result"]["stopReason"].as_str().unwrap_or_default();
        self.counts.cancelled += u64::from(reason == "cancelled");
        view.or_default().end(&id, &prompt, reason)
    }
}
