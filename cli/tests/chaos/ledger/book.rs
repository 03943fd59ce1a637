//! What is written down, and the checks of each message that arrives.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::position::{Phase, Position};
use super::view::View;
use super::writers::Writers;
use super::{Counts, Prompt, UNKNOWN, id_of};

/// The store has no room for new sessions.
const STORE_FULL: i64 = 4005;

#[derive(Default)]
pub struct Book {
    pub requests: BTreeMap<(String, String), Request>,
    pub prompts: HashMap<(String, u64), Prompt>,
    pub views: HashMap<(String, String), View>,
    pub positions: HashMap<(String, String), Position>,
    /// What the event with this number and nonce said, as a hash, and who saw it first.
    pub events: HashMap<(String, u64, String), (u64, String)>,
    pub writers: Writers,
    pub questions: BTreeSet<(String, String)>,
    /// On which stream a client was told the history of a session.
    pub replays: HashMap<(String, String), String>,
    /// Workers that something was done to, and when.
    pub harmed: Vec<(String, Instant)>,
    /// Workers that were told to stop, and when.
    pub stopping: Vec<(String, Instant)>,
    /// When something was done to the store.
    pub store_struck: Vec<Instant>,
    /// Of forks: the parent's turns at that time, by their name, and how much of them was said.
    pub inherited: HashMap<String, Vec<(u64, u64)>>,
    pub deleted: BTreeSet<String>,
    pub violations: Vec<String>,
    pub counts: Counts,
    /// Until then new sessions may be refused.
    pub full_until: Option<Instant>,
}

pub struct Request {
    pub accepted: bool,
    pub answers: u64,
    /// As many there may be: one, and one more if a reset said that what was seen is lost.
    pub allowed: u64,
    pub prompt: Option<Prompt>,
    asked: Instant,
}

impl Request {
    pub fn new(prompt: Option<Prompt>) -> Self {
        Self {
            accepted: false,
            answers: 0,
            allowed: 1,
            prompt,
            asked: Instant::now(),
        }
    }

    /// As it was when it was asked.
    pub fn again(&self) -> Self {
        Self {
            accepted: false,
            answers: 0,
            allowed: 1,
            prompt: self.prompt.clone(),
            asked: self.asked,
        }
    }
}

/// The turn's worker stopped, and the agent's process with it.
const INTERRUPTED: i64 = 5005;
/// A fault that began before a prompt was sent may be what ends its turn: the longest of them, and a lease.
const LASTING: Duration = Duration::from_secs(15);

pub fn digest(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

impl Book {
    /// The client's stream does not go on where it was: of what runs or waits it may miss some.
    pub fn shaken(&mut self, client: &str, stream: &str) {
        let own = self.prompts.keys().any(|(session, _)| session == stream);
        for ((of, session), view) in &mut self.views {
            if of == client && (!own || session == stream) {
                let asked = self.prompts.keys().filter(|(of, _)| of == session);
                view.shaken(asked.map(|(_, chunks)| *chunks).max().unwrap_or_default());
            }
        }
    }

    /// What this client was answered or asked may be gone, and come again.
    pub fn answers_may_repeat(&mut self, client: &str) {
        self.questions.retain(|(of, _)| of != client);
        for ((of, _), request) in &mut self.requests {
            if of == client {
                request.allowed = request.answers + 1;
            }
        }
    }

    pub fn forked(&mut self, client: &str, parent: &str, child: &str) {
        self.counts.forks += 1;
        let view = self.views.get(&(client.to_owned(), parent.to_owned()));
        let mut past: Vec<_> = view.into_iter().flat_map(|view| view.ended()).collect();
        past.extend(self.inherited.get(parent).into_iter().flatten());
        self.inherited.insert(child.to_owned(), past);
        let prompts = self
            .prompts
            .values()
            .filter(|prompt| prompt.session == parent);
        let copies: Vec<_> = prompts
            .map(|prompt| {
                (
                    (child.to_owned(), prompt.chunks),
                    Prompt {
                        session: child.to_owned(),
                        ..prompt.clone()
                    },
                )
            })
            .collect();
        self.prompts.extend(copies);
    }

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

    /// A load that a failover cost before it was acknowledged is carried out once more, perhaps on another stream.
    pub fn replays_on(&mut self, client: &str, session: &str, stream: &str, id: &str) {
        let replaying = Position::parse(id).is_some_and(|position| position.is_replaying());
        if !replaying {
            return;
        }
        let name = (client.to_owned(), session.to_owned());
        let before = self.replays.insert(name, stream.to_owned());
        if before.is_some_and(|before| before != stream) {
            self.shaken(client, session);
            self.answers_may_repeat(client);
        }
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
        // That a question is withdrawn is said before the event that does so, and has no number of its own.
        let withdraws = data.contains(r#""method":"$/cancel_request""#);
        let goes_on =
            |before: &Position| position.follows(before) || withdraws && position == *before;
        if let Some(before) = before.filter(|before| !goes_on(before)) {
            return Some(("I1", format!("the ids do not rise: before it {before:?}")));
        }
        let event = position
            .event()
            .filter(|place| matches!(place.phase, Phase::Live | Phase::Replaying(_)))
            .filter(|_| session != UNKNOWN && !withdraws)?;
        self.writers.saw(session, event.seq, &event.nonce);
        let name = (session.to_owned(), event.seq, event.nonce.clone());
        let said = (digest(data), client.to_owned());
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
        if update["sessionUpdate"] == "user_message_chunk" {
            let text = update["content"]["text"].as_str().unwrap_or_default();
            return self.check_words(session, text).into_iter().collect();
        }
        if message.get("method").is_none() {
            return self.check_answer(client, message);
        }
        Vec::new()
    }

    /// What a user said is what the others get to see.
    fn check_words(&self, session: &str, text: &str) -> Option<(&'static str, String)> {
        let counts = text.lines().find_map(|line| line.strip_prefix("/count "));
        let chunks = counts.and_then(|rest| rest.split(' ').next()?.parse().ok());
        let prompt = self.prompts.get(&(session.to_owned(), chunks?))?;
        let bytes = text.len();
        (prompt.words != digest(text)).then(|| {
            (
                "I1",
                format!("{bytes} bytes that are not what the user said: {text:.60?}"),
            )
        })
    }

    fn check_answer(&mut self, client: &str, message: &Value) -> Vec<(&'static str, String)> {
        let id = id_of(message);
        let Some(request) = self.requests.get_mut(&(client.to_owned(), id.clone())) else {
            return vec![("I4", format!("an answer to {id}, which nobody asked"))];
        };
        request.answers += 1;
        if request.answers > request.allowed {
            return vec![("I4", format!("{id} was answered {} times", request.answers))];
        }
        if let Some(error) = message.get("error") {
            let asked = request.asked;
            // Its answer may come much later, by a stream that was away.
            let full = self.full_until.is_some_and(|until| asked < until);
            if error["code"] == STORE_FULL && full && request.prompt.is_none() {
                return Vec::new();
            }
            let prompt = request.prompt.clone().filter(|prompt| prompt.program);
            return match prompt.filter(|_| error["code"] == INTERRUPTED) {
                Some(prompt) => self
                    .interrupted(client, &id, &prompt, asked)
                    .into_iter()
                    .collect(),
                None => vec![("I4", format!("{id} was answered with {error}"))],
            };
        }
        let Some(prompt) = request.prompt.clone() else {
            return Vec::new();
        };
        let view = self.views.entry((client.into(), prompt.session.clone()));
        let reason = message["result"]["stopReason"].as_str().unwrap_or_default();
        self.counts.cancelled += u64::from(reason == "cancelled");
        view.or_default().end(&id, &prompt, reason)
    }

    /// I11: only if something was done to the worker that held the turn, or if that said nothing, to any; or if it was
    /// told to stop while something was done to the store.
    fn interrupted(
        &mut self,
        client: &str,
        id: &str,
        prompt: &Prompt,
        asked: Instant,
    ) -> Option<(&'static str, String)> {
        self.counts.interrupted += 1;
        let view = self.views.entry((client.into(), prompt.session.clone()));
        let holder = view.or_default().cut(prompt);
        let concerns = |(worker, at): &(String, Instant)| {
            *at + LASTING > asked && holder.as_ref().is_none_or(|holder| holder == worker)
        };
        // One that stops ends what it has begun, unless the store is away for as long as it may take for that.
        let store_was_away = self.store_struck.iter().any(|at| *at + LASTING > asked);
        let stopped = store_was_away && self.stopping.iter().any(concerns);
        let lives = !stopped && !self.harmed.iter().any(concerns);
        lives.then(|| {
            (
                "I11",
                format!("{id} was interrupted, and nothing was done to its worker {holder:?}"),
            )
        })
    }
}
