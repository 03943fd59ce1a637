//! A conversation: what was typed is done, one thing at a time, and whatever comes meanwhile is shown.

use std::collections::VecDeque;

use baton_protocol::Method;
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Interval, MissedTickBehavior, interval};

use self::waiting::{TICK, Waited};
use super::command::{self, Entry};
use super::ending::Ending;
use super::input::Input;
use super::peer::Peer;
use super::question::Question;
use super::screen::Screen;
use super::session::{Session, text};

mod waiting;

pub struct Conversation {
    pub(super) peer: Peer,
    pub(super) screen: Screen,
    pub(super) session: Session,
    /// For sessions that begin here.
    pub(super) cwd: String,
    /// The sessions that were listed last, for choosing by number.
    pub(super) listed: Vec<String>,
    input: Input,
    interrupts: Signal,
    terminates: Signal,
    ticks: Interval,
    questions: VecDeque<Question>,
    /// Ctrl-C was the last thing that was typed.
    is_leaving: bool,
    /// It was mentioned that the other side is away.
    is_away: bool,
}

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    #[error(transparent)]
    Ending(#[from] Ending),
    /// The user has had enough.
    #[error("interrupted")]
    Quit,
    #[error(transparent)]
    Gone(#[from] anyhow::Error),
}

impl Conversation {
    pub fn new(peer: Peer, input: Input, screen: Screen, cwd: String) -> anyhow::Result<Self> {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self {
            peer,
            screen,
            session: Session::default(),
            cwd,
            listed: Vec::new(),
            input,
            interrupts: signal(SignalKind::interrupt())?,
            terminates: signal(SignalKind::terminate())?,
            ticks,
            questions: VecDeque::new(),
            is_leaving: false,
            is_away: false,
        })
    }

    /// Until there is nothing more to say.
    pub async fn hold(
        &mut self,
        session: Option<String>,
        prompt: Option<String>,
    ) -> anyhow::Result<()> {
        let is_script = prompt.is_some() || !self.input.is_terminal();
        let held = match (self.open(session, !is_script).await, prompt) {
            (Ok(()), Some(prompt)) => self.turn(&prompt).await,
            (Ok(()), None) => self.talk().await,
            (failed, _) => failed,
        };
        self.screen.end();
        match held {
            Ok(()) => Ok(()),
            Err(Problem::Quit) if is_script => Err(Ending::Cancelled.into()),
            Err(Problem::Quit) => Ok(()),
            Err(Problem::Ending(ending)) => Err(ending.into()),
            Err(Problem::Gone(error)) => Err(error),
        }
    }

    pub async fn leave(self) {
        self.peer.close().await;
    }

    async fn open(&mut self, session: Option<String>, greets: bool) -> Result<(), Problem> {
        let capabilities = json!({
            "elicitation": { "form": {} },
            "session": { "configOptions": { "boolean": {} }, "notices": {}, "compaction": {} },
        });
        let version = env!("CARGO_PKG_VERSION");
        let params = json!({
            "protocolVersion": 1,
            "clientCapabilities": capabilities,
            "clientInfo": { "name": "baton-chat", "title": "baton chat", "version": version },
        });
        let answer = self.call(Method::Initialize, params).await?;
        if greets {
            let agent = text(&answer["agentInfo"]["name"]);
            let agent = format!("agent {agent}; /help lists commands, Ctrl-D ends");
            self.screen.note(&agent);
        }
        match session {
            Some(session) => self.load(&session).await,
            None => self.begin().await,
        }
    }

    async fn talk(&mut self) -> Result<(), Problem> {
        loop {
            let line = match self.wait(None).await {
                Ok(Waited::Line(line)) => line,
                Ok(_) | Err(Problem::Quit) => return Ok(()),
                Err(problem) => return Err(problem),
            };
            let done = match command::read(&line) {
                Entry::Nothing => Ok(()),
                Entry::Command { name: "quit", .. } => return Ok(()),
                Entry::Command { name, rest } => self.command(name, rest).await,
                Entry::Words(words) => self.turn(words).await,
            };
            match done {
                // A script must not go on in the wrong place; people see what happened.
                Err(Problem::Ending(ending)) if self.input.is_terminal() => self.tell(&ending),
                done => done?,
            }
        }
    }

    fn tell(&mut self, ending: &Ending) {
        match ending {
            Ending::Failed(fault) => self.screen.fault(&fault.to_string()),
            other => self.screen.note(&other.to_string()),
        }
    }

    async fn turn(&mut self, words: &str) -> Result<(), Problem> {
        let prompt = [json!({ "type": "text", "text": words })];
        let params = json!({ "sessionId": self.session.id, "prompt": prompt });
        let answer = self.call(Method::Prompt, params).await?;
        self.screen.end();
        match Ending::read(&text(&answer["stopReason"])) {
            Some(ending) => Err(ending.into()),
            None => Ok(()),
        }
    }

    /// A request and its answer.
    pub(super) async fn call(&mut self, method: Method, params: Value) -> Result<Value, Problem> {
        let id = self.peer.request(method.name(), params).await?;
        let is_turn = method == Method::Prompt;
        match self.wait(Some((id, is_turn))).await? {
            Waited::Answer(answer) => Ok(answer.map_err(Ending::Failed)?),
            Waited::Line(_) | Waited::End => Err(Problem::Quit),
        }
    }
}
