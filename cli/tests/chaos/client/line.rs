//! The ways to reach Baton, behind one face: say something, hear what comes.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use super::World;
use super::socket::{self, Saying};
use super::wire::Wire;
use crate::ledger::{Prompt, id_of};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// POST, the connection's stream and the session's.
    Streams,
    /// POST and the connection's stream alone.
    OneStream,
    /// POST with the answer in its body.
    Bodies,
    Socket,
}

/// A request is recognised among so many of its connection in the session.
const KNOWN: usize = 16;

pub struct Line {
    pub name: String,
    pub world: Arc<World>,
    pub agent: &'static str,
    pub means: Means,
    /// The latest requests about a session.
    asked: VecDeque<Value>,
    repeats: u64,
    voice: Voice,
    hears: UnboundedSender<Value>,
    heard: UnboundedReceiver<Value>,
    tasks: JoinSet<()>,
}

enum Voice {
    Wire(Arc<Wire>),
    Socket(UnboundedSender<Saying>),
}

impl Line {
    pub async fn open(world: Arc<World>, name: &str, means: Means, agent: &'static str) -> Self {
        let (hears, heard) = unbounded_channel();
        let mut tasks = JoinSet::new();
        let voice = if means == Means::Socket {
            let (voice, said) = unbounded_channel();
            let (name, hears) = (name.to_owned(), hears.clone());
            tasks.spawn(socket::run(world.clone(), name, agent, said, hears));
            Voice::Socket(voice)
        } else {
            let wire = Wire::open(world.clone(), name, agent).await;
            if means != Means::Bodies {
                tasks.spawn(wire.clone().follow(None, hears.clone()));
            }
            Voice::Wire(wire)
        };
        Self {
            name: name.to_owned(),
            world,
            agent,
            means,
            asked: VecDeque::new(),
            repeats: 0,
            voice,
            hears,
            heard,
            tasks,
        }
    }

    /// Opens the session's own stream, if that is how this client works.
    pub fn join(&mut self, session: &str) {
        if let (Means::Streams, Voice::Wire(wire)) = (self.means, &self.voice) {
            let follow = wire
                .clone()
                .follow(Some(session.into()), self.hears.clone());
            self.tasks.spawn(follow);
        }
    }

    /// A request. Its answer is heard later.
    pub async fn ask(&mut self, message: Value, prompt: Option<Prompt>) {
        self.world
            .ledger
            .asked(&self.name, &id_of(&message), prompt);
        if !message["params"]["sessionId"].is_null() {
            self.asked.push_back(message.clone());
            if self.asked.len() > KNOWN {
                self.asked.pop_front();
            }
        }
        match &self.voice {
            Voice::Wire(wire) if self.means == Means::Bodies => {
                self.tasks
                    .spawn(wire.clone().body(message, self.hears.clone()));
            }
            _ => self.say(message).await,
        }
    }

    /// Something that has no answer.
    pub async fn say(&mut self, message: Value) {
        match &self.voice {
            Voice::Wire(wire) => wire.post(&message).await,
            Voice::Socket(voice) => {
                let again = false;
                let _ = voice.send(Saying { message, again });
            }
        }
    }

    /// The same request once more, while it is under way or after its answer: it must be joined, and not be done
    /// again. On a stream nothing comes of it; a body has everything once more.
    pub async fn repeat(&mut self, id: &str) {
        let Some(message) = self.asked.iter().find(|asked| id_of(asked) == id) else {
            return;
        };
        let (ledger, message) = (&self.world.ledger, message.clone());
        ledger.count(|counts| counts.repeated += 1);
        ledger.trace(&self.name, &format!("repeats {id}"));
        match &self.voice {
            Voice::Wire(wire) if self.means == Means::Bodies => {
                self.repeats += 1;
                let reader = format!("{} again {}", self.name, self.repeats);
                ledger.repeated(&self.name, &reader, id);
                wire.body_again(&reader, message).await;
            }
            Voice::Wire(wire) => wire.post(&message).await,
            Voice::Socket(voice) => {
                let again = true;
                let _ = voice.send(Saying { message, again });
            }
        }
    }

    /// The ids of what was asked last, as far back as it is still recognised.
    pub fn known(&self) -> Vec<String> {
        self.asked.iter().map(id_of).collect()
    }

    pub async fn hear(&mut self) -> Value {
        self.heard.recv().await.expect("we hold a sender ourselves")
    }

    pub async fn answer_to(&mut self, id: &str) -> Value {
        loop {
            let message = self.hear().await;
            if message.get("method").is_none() && id_of(&message) == id {
                return message;
            }
        }
    }
}
