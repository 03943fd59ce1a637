//! Waiting, for an answer or for a line: what comes is shown, what the agent asks is asked, and
//! Ctrl-C does what is expected of it.

use std::time::Duration;

use baton_protocol::Method;
use serde_json::{Value, json};

use super::{ChatConversation, ChatProblem};
use crate::chat::input::TypedInput;
use crate::chat::peer::{PeerError, PeerMessage};
use crate::chat::question::{AgentQuestion, QuestionReply};
use crate::chat::show;

/// How long the other side may be away before that is mentioned.
const NOTICEABLE: Duration = Duration::from_secs(2);
pub const TICK: Duration = Duration::from_millis(300);

/// The result of waiting.
pub enum WaitOutcome {
    Answer(Result<Value, PeerError>),
    Line(String),
    /// Nobody types any more.
    End,
}

enum ChatEvent {
    Came(PeerMessage),
    Typed(TypedInput),
    Tick,
}

impl ChatConversation {
    /// For the answer to a request, and whether that is a turn; or for a line.
    pub(super) async fn wait(
        &mut self,
        request: Option<(u64, bool)>,
    ) -> Result<WaitOutcome, ChatProblem> {
        let is_turn = request.is_some_and(|(_, is_turn)| is_turn);
        let mut is_cancelled = false;
        loop {
            self.want(request.is_none()).await?;
            let happened = tokio::select! {
                message = self.peer.next() => ChatEvent::Came(message?),
                typed = self.input.typed(), if self.input.is_wanted() => ChatEvent::Typed(typed),
                _ = self.interrupts.recv() => ChatEvent::Typed(TypedInput::Interrupt),
                _ = self.terminates.recv() => return Err(ChatProblem::Quit),
                _ = self.ticks.tick() => ChatEvent::Tick,
            };
            self.screen.typing(self.input.is_wanted());
            match happened {
                ChatEvent::Tick => self.tick(),
                ChatEvent::Came(PeerMessage::Answer(id, answer)) => {
                    if request.is_some_and(|(request, _)| request == id) {
                        // Requests of a turn end with it.
                        if is_turn {
                            self.questions.clear();
                        }
                        return Ok(WaitOutcome::Answer(answer));
                    }
                }
                ChatEvent::Came(message) => {
                    // Any message shows that the server is reachable; no notice is needed.
                    self.is_away = false;
                    self.hear(message).await?;
                }
                ChatEvent::Typed(TypedInput::Interrupt) => match request {
                    _ if !is_turn && !self.questions.is_empty() => self.cancel_question().await?,
                    Some(_) if is_turn && !is_cancelled => {
                        is_cancelled = true;
                        self.cancel_turn().await?;
                    }
                    None if !self.is_leaving => {
                        self.is_leaving = true;
                        self.screen.note("Ctrl-C again or Ctrl-D ends");
                    }
                    _ => return Err(ChatProblem::Quit),
                },
                ChatEvent::Typed(TypedInput::Discarded) => self.is_leaving = false,
                ChatEvent::Typed(TypedInput::Line(line)) => {
                    self.is_leaving = false;
                    if self.questions.is_empty() {
                        return Ok(WaitOutcome::Line(line));
                    }
                    self.answer(&line).await?;
                }
                ChatEvent::Typed(TypedInput::End) if request.is_none() => {
                    return Ok(WaitOutcome::End);
                }
                // At a terminal somebody wants to go; a pipe may end and the turn goes on.
                ChatEvent::Typed(TypedInput::End) if self.input.is_terminal() => {
                    return Err(ChatProblem::Quit);
                }
                ChatEvent::Typed(TypedInput::End) => {}
            }
        }
    }

    /// Has a line typed if there is something to type it for.
    async fn want(&mut self, is_idle: bool) -> Result<(), ChatProblem> {
        while self.input.has_ended() && !self.questions.is_empty() {
            self.decline().await?;
        }
        match self.questions.front() {
            Some(_) => self.input.want("answer> "),
            None if is_idle => self.input.want("> "),
            None => {}
        }
        self.screen.typing(self.input.is_wanted());
        Ok(())
    }

    /// While a line is typed, words wait for the end of theirs, but not for long.
    fn tick(&mut self) {
        self.screen.flush();
        let away = self.peer.away();
        if away > NOTICEABLE && !self.is_away {
            self.is_away = true;
            self.screen.interject("reconnecting…");
        }
        if away.is_zero() && self.is_away {
            self.is_away = false;
            self.screen.interject("connected");
        }
    }

    async fn hear(&mut self, message: PeerMessage) -> Result<(), ChatProblem> {
        match message {
            PeerMessage::Request { id, method, params } => {
                match AgentQuestion::read(id.clone(), &method, &params) {
                    Some(Ok(question)) => {
                        if self.questions.is_empty() {
                            question.show(&mut self.screen);
                        }
                        self.questions.push_back(question);
                    }
                    Some(Err(answer)) => {
                        self.screen
                            .note("the agent asked for more than can be typed on a line: declined");
                        self.peer.answer(id, answer).await?;
                    }
                    None => self.peer.has_no(&method, id).await?,
                }
            }
            PeerMessage::Notification { method, params } => match Method::of(&method) {
                Method::Update if params["sessionId"] == self.session.id.as_str() => {
                    show::update(&mut self.screen, &mut self.session, &params["update"]);
                }
                Method::CancelRequest => self.withdraw(&params["requestId"]),
                _ => {}
            },
            PeerMessage::Answer(..) => {}
        }
        Ok(())
    }

    /// Somebody else has answered, or the turn has ended.
    fn withdraw(&mut self, id: &Value) {
        let before = self.questions.len();
        self.questions.retain(|question| question.id != *id);
        if self.questions.len() < before {
            self.screen.note("the question is settled");
            self.show_next();
        }
    }

    fn show_next(&mut self) {
        if let Some(question) = self.questions.front() {
            question.show(&mut self.screen);
        }
    }

    async fn answer(&mut self, line: &str) -> Result<(), ChatProblem> {
        let Some(question) = self.questions.front_mut() else {
            return Ok(());
        };
        match question.answer(line) {
            QuestionReply::Result(result) => self.settle(|_| result).await,
            QuestionReply::More => {
                self.show_next();
                Ok(())
            }
            QuestionReply::Unclear(hint) => {
                self.screen.note(&hint);
                Ok(())
            }
        }
    }

    /// The question that is asked gets its answer.
    async fn settle(
        &mut self,
        answer: impl FnOnce(&AgentQuestion) -> Value,
    ) -> Result<(), ChatProblem> {
        if let Some(question) = self.questions.pop_front() {
            let answer = answer(&question);
            self.peer.answer(question.id, answer).await?;
            self.show_next();
        }
        Ok(())
    }

    async fn decline(&mut self) -> Result<(), ChatProblem> {
        self.screen.note("nobody can answer, so that is declined");
        self.settle(AgentQuestion::declined).await
    }

    async fn cancel_question(&mut self) -> Result<(), ChatProblem> {
        self.settle(AgentQuestion::cancelled).await
    }

    /// The protocol wants open questions answered as well.
    pub(in crate::chat) async fn cancel_turn(&mut self) -> Result<(), ChatProblem> {
        self.screen.note("cancelling; Ctrl-C again leaves");
        let params = json!({ "sessionId": self.session.id });
        self.peer.notify(Method::Cancel.name(), params).await?;
        while let Some(question) = self.questions.pop_front() {
            self.peer
                .answer(question.id.clone(), question.cancelled())
                .await?;
        }
        Ok(())
    }
}
