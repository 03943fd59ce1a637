//! The events that a turn has already written. A turn that is taken over runs again from its
//! beginning; each event it produces is checked off here first, and only new ones reach the log.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use baton_session::command::CommandId;
use baton_session::event::{Event, is_aside};
use bytes::Bytes;

#[derive(Default)]
pub(crate) struct TurnReplay {
    entries: VecDeque<ReplayEntry>,
    /// The numbers of answers. They stay in the log: together they may be large.
    answers: HashMap<Arc<str>, u64>,
    /// Waiting prompts whose connections have taken control.
    controls: HashSet<CommandId>,
    /// The ordinal of the last question.
    asked: u64,
}

enum ReplayEntry {
    /// So many in a row.
    Updates(u64),
    Request(Arc<str>),
}

/// A request that was asked before the take-over and is not answered yet.
pub(crate) struct UnansweredRequest {
    pub id: Arc<str>,
    pub seq: u64,
    pub message: Bytes,
}

/// Reads the events of an interrupted turn, one after the other, and keeps of each only what is
/// needed.
#[derive(Default)]
pub(crate) struct ReplayReader {
    replay: TurnReplay,
    unanswered: Vec<UnansweredRequest>,
}

impl ReplayReader {
    pub fn read(&mut self, seq: u64, event: &Event) {
        let replay = &mut self.replay;
        match event {
            Event::Update { turn: true, .. } => match replay.entries.back_mut() {
                Some(ReplayEntry::Updates(count)) => *count += 1,
                _ => replay.entries.push_back(ReplayEntry::Updates(1)),
            },
            // Asked beside the turn, by an agent that is gone.
            Event::Request { id, .. } if is_aside(id) => {}
            Event::Request { id, message } => {
                let mut before = self.unanswered.iter_mut();
                match before.find(|request| request.id == *id) {
                    // Sent again to another client: the agent asked once.
                    Some(request) => request.seq = seq,
                    None => {
                        replay.entries.push_back(ReplayEntry::Request(id.clone()));
                        // A question that was refused has used up its ordinal as well.
                        replay.asked = ordinal(id).unwrap_or(0).max(replay.asked + 1);
                        self.unanswered.push(UnansweredRequest {
                            id: id.clone(),
                            seq,
                            // A copy, or all that was written with it would stay in memory.
                            message: Bytes::copy_from_slice(message),
                        });
                    }
                }
            }
            Event::Control { command, .. } => {
                replay.controls.insert(*command);
            }
            Event::Answer { id, .. } => {
                replay.answers.insert(id.clone(), seq);
                self.unanswered.retain(|request| request.id != *id);
            }
            _ => {}
        }
    }

    pub fn finish(self) -> (TurnReplay, Vec<UnansweredRequest>) {
        (self.replay, self.unanswered)
    }
}

impl TurnReplay {
    /// Nothing is left to check off: what is said now is new.
    pub fn is_live(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether this update was already written.
    pub fn check_off_update(&mut self) -> bool {
        let Some(ReplayEntry::Updates(left)) = self.entries.front_mut() else {
            return false;
        };
        *left -= 1;
        if *left == 0 {
            self.entries.pop_front();
        }
        true
    }

    /// The id under which this request was already written, if it was. It may have been before the
    /// store was restored, or after: what comes after `name` then makes no difference.
    pub fn check_off_request(&mut self, name: &str) -> Option<Arc<str>> {
        let Some(ReplayEntry::Request(said)) = self.entries.front() else {
            return None;
        };
        let rest = said.strip_prefix(name)?;
        if !rest.is_empty() && !rest.starts_with('-') {
            return None;
        }
        let said = said.clone();
        self.entries.pop_front();
        Some(said)
    }

    /// The agent will not repeat the earlier events.
    pub fn forget(&mut self) {
        self.forget_said();
        self.answers.clear();
    }

    /// The same, but it takes up the questions again, and their answers.
    pub fn forget_said(&mut self) {
        self.entries.clear();
    }

    /// The ordinal of the last question that was asked.
    pub fn asked(&self) -> u64 {
        self.asked
    }

    /// False if this prompt's connection has taken control before.
    pub fn note_control(&mut self, command: CommandId) -> bool {
        self.controls.insert(command)
    }

    /// Where the answer is.
    pub fn answer(&mut self, id: &str) -> Option<u64> {
        self.answers.remove(id)
    }
}

/// The place of a question among those of its turn, from its id: `SESSION:COMMAND.ORDINAL`, perhaps
/// with `-` and more after it.
fn ordinal(id: &str) -> Option<u64> {
    let (_, last) = id.rsplit_once('.')?;
    let digits = last.split_once('-').map_or(last, |(digits, _)| digits);
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(id: &str) -> Event {
        Event::Request {
            id: id.into(),
            message: Bytes::from_static(b"{}"),
        }
    }

    #[test]
    fn a_new_question_never_gets_the_id_of_an_earlier_one() {
        let mut reader = ReplayReader::default();
        reader.read(7, &request("000-A:3.1"));
        // The second one was refused, and nothing of it is in the log.
        reader.read(8, &request("000-A:3.3-drawn"));
        let (replay, unanswered) = reader.finish();
        assert_eq!((replay.asked(), unanswered.len()), (3, 2));
        assert_eq!(ordinal("000-A:3"), None);
    }

    #[test]
    fn answers_stay_for_an_agent_that_goes_on_from_the_log() {
        let mut reader = ReplayReader::default();
        reader.read(7, &request("000-A:3.1"));
        let answer = Event::Answer {
            id: "000-A:3.1".into(),
            by: None,
            message: Bytes::from_static(b"{}"),
        };
        reader.read(9, &answer);
        let (mut replay, unanswered) = reader.finish();
        replay.forget_said();
        assert!(replay.is_live() && unanswered.is_empty());
        assert_eq!(replay.answer("000-A:3.1"), Some(9));
    }
}
