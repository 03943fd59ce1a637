//! What a turn has already said. A turn that is taken over runs again from its beginning; each
//! thing it says is checked off here first, and only what is new reaches the log.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use baton_session::command::CommandId;
use baton_session::event::{Event, Frame, is_aside};
use bytes::Bytes;

#[derive(Default)]
pub(crate) struct Journal {
    said: VecDeque<Said>,
    answers: HashMap<Arc<str>, Bytes>,
    /// Waiting prompts whose connections have taken control.
    controls: HashSet<CommandId>,
    asked: u64,
}

enum Said {
    Update,
    Request(Arc<str>),
}

/// A request that was asked before the take-over and is not answered yet.
pub(crate) struct Unanswered {
    pub id: Arc<str>,
    pub seq: u64,
    pub message: Bytes,
}

impl Journal {
    /// Reads the frames of the interrupted turn, from its begin on.
    pub fn read(frames: &[Arc<Frame>], began: u64) -> (Self, Vec<Unanswered>) {
        let mut journal = Self::default();
        let mut asked: Vec<Unanswered> = Vec::new();
        for (seq, event) in frames.iter().flat_map(|frame| frame.numbered()) {
            match event {
                _ if seq < began => {}
                Event::Update { turn: true, .. } => journal.said.push_back(Said::Update),
                // Asked beside the turn, by an agent that is gone.
                Event::Request { id, .. } if is_aside(id) => {}
                Event::Request { id, message } => {
                    let before = asked.iter_mut().find(|request| request.id == *id);
                    match before {
                        // Asked once more, of somebody else: the agent said it once.
                        Some(request) => request.seq = seq,
                        None => {
                            journal.said.push_back(Said::Request(id.clone()));
                            journal.asked += 1;
                            asked.push(Unanswered {
                                id: id.clone(),
                                seq,
                                message: message.clone(),
                            });
                        }
                    }
                }
                Event::Control { command, .. } => {
                    journal.controls.insert(*command);
                }
                Event::Answer { id, message, .. } => {
                    journal.answers.insert(id.clone(), message.clone());
                    asked.retain(|request| request.id != *id);
                }
                _ => {}
            }
        }
        (journal, asked)
    }

    /// Nothing is left to check off: what is said now is new.
    pub fn is_live(&self) -> bool {
        self.said.is_empty()
    }

    /// Whether this update was already written.
    pub fn check_off_update(&mut self) -> bool {
        match self.said.front() {
            Some(Said::Update) => {
                self.said.pop_front();
                true
            }
            _ => false,
        }
    }

    /// Whether this request was already written.
    pub fn check_off_request(&mut self, id: &str) -> bool {
        match self.said.front() {
            Some(Said::Request(said)) if **said == *id => {
                self.said.pop_front();
                true
            }
            _ => false,
        }
    }

    /// What was said is not going to be said again.
    pub fn forget(&mut self) {
        self.said.clear();
        self.answers.clear();
    }

    /// How many questions were asked.
    pub fn asked(&self) -> u64 {
        self.asked
    }

    /// False if this prompt's connection has taken control before.
    pub fn note_control(&mut self, command: CommandId) -> bool {
        self.controls.insert(command)
    }

    pub fn answer(&mut self, id: &str) -> Option<Bytes> {
        self.answers.remove(id)
    }
}
