//! The ways to reach Baton, behind one face: say something, hear what comes.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use super::wire::Wire;
use super::{World, socket};
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

pub struct Line {
    pub name: String,
    pub world: Arc<World>,
    means: Means,
    voice: Voice,
    hears: UnboundedSender<Value>,
    heard: UnboundedReceiver<Value>,
    tasks: JoinSet<()>,
}

enum Voice {
    Wire(Arc<Wire>),
    Socket(UnboundedSender<Value>),
}

impl Line {
    pub async fn open(world: Arc<World>, name: &str, means: Means) -> Self {
        let (hears, heard) = unbounded_channel();
        let mut tasks = JoinSet::new();
        let voice = if means == Means::Socket {
            let (voice, said) = unbounded_channel();
            let (name, hears) = (name.to_owned(), hears.clone());
            tasks.spawn(socket::run(world.clone(), name, said, hears));
            Voice::Socket(voice)
        } else {
            let wire = Wire::open(world.clone(), name).await;
            if means != Means::Bodies {
                tasks.spawn(wire.clone().follow(None, hears.clone()));
            }
            Voice::Wire(wire)
        };
        Self {
            name: name.to_owned(),
            world,
            means,
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
                let _ = voice.send(message);
            }
        }
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
