//! A conversation: what was typed is done, one thing at a time, and whatever comes meanwhile is
//! shown.

use std::collections::VecDeque;

use baton_protocol::Method;
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Interval, MissedTickBehavior, interval};

use self::waiting::{TICK, WaitOutcome};
use super::command::{self, TypedLine};
use super::ending::ChatEnding;
use super::input::ChatInput;
use super::peer::ChatPeer;
use super::question::AgentQuestion;
use super::screen::ChatScreen;
use super::session::{ChatSession, text};

mod waiting;

pub struct ChatConversation {
    pub(super) peer: ChatPeer,
    pub(super) screen: ChatScreen,
    pub(super) session: ChatSession,
    /// For sessions that begin here.
    pub(super) cwd: String,
    /// The sessions that were listed last, for choosing by number.
    pub(super) listed: Vec<String>,
    input: ChatInput,
    interrupts: Signal,
    terminates: Signal,
    ticks: Interval,
    questions: VecDeque<AgentQuestion>,
    /// Ctrl-C was the last thing that was typed.
    is_leaving: bool,
    /// It was mentioned that the other side is away.
    is_away: bool,
}

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum ChatProblem {
    #[error(transparent)]
    Ending(#[from] ChatEnding),
    /// The user has had enough.
    #[error("interrupted")]
    Quit,
    #[error(transparent)]
    Gone(#[from] anyhow::Error),
}

impl ChatConversation {
    pub fn new(
        peer: ChatPeer,
        input: ChatInput,
        screen: ChatScreen,
        cwd: String,
    ) -> anyhow::Result<Self> {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self {
            peer,
            screen,
            session: ChatSession::default(),
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
            Err(ChatProblem::Quit) if is_script => Err(ChatEnding::Cancelled.into()),
            Err(ChatProblem::Quit) => Ok(()),
            Err(ChatProblem::Ending(ending)) => Err(ending.into()),
            Err(ChatProblem::Gone(error)) => Err(error),
        }
    }

    pub async fn leave(self) {
        self.peer.close().await;
    }

    async fn open(&mut self, session: Option<String>, greets: bool) -> Result<(), ChatProblem> {
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

    async fn talk(&mut self) -> Result<(), ChatProblem> {
        loop {
            let line = match self.wait(None).await {
                Ok(WaitOutcome::Line(line)) => line,
                Ok(_) | Err(ChatProblem::Quit) => return Ok(()),
                Err(problem) => return Err(problem),
            };
            let done = match command::read(&line) {
                TypedLine::Nothing => Ok(()),
                TypedLine::Command { name: "quit", .. } => return Ok(()),
                TypedLine::Command { name, rest } => self.command(name, rest).await,
                TypedLine::Words(words) => self.turn(words).await,
            };
            match done {
                // A script must not go on in the wrong place; people see what happened.
                Err(ChatProblem::Ending(ending)) if self.input.is_terminal() => self.tell(&ending),
                done => done?,
            }
        }
    }

    fn tell(&mut self, ending: &ChatEnding) {
        match ending {
            ChatEnding::Failed(fault) => self.screen.fault(&fault.to_string()),
            other => self.screen.note(&other.to_string()),
        }
    }

    async fn turn(&mut self, words: &str) -> Result<(), ChatProblem> {
        let prompt = [json!({ "type": "text", "text": words })];
        let params = json!({ "sessionId": self.session.id, "prompt": prompt });
        let answer = self.call(Method::Prompt, params).await?;
        self.screen.end();
        match ChatEnding::read(&text(&answer["stopReason"])) {
            Some(ending) => Err(ending.into()),
            None => Ok(()),
        }
    }

    /// A request and its answer.
    pub(super) async fn call(
        &mut self,
        method: Method,
        params: Value,
    ) -> Result<Value, ChatProblem> {
        let id = self.peer.request(method.name(), params).await?;
        let is_turn = method == Method::Prompt;
        match self.wait(Some((id, is_turn))).await? {
            WaitOutcome::Answer(answer) => Ok(answer.map_err(ChatEnding::Failed)?),
            WaitOutcome::Line(_) | WaitOutcome::End => Err(ChatProblem::Quit),
        }
    }
}
