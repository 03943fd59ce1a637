//! What one session asked for and what came back: every chunk exactly once, in order, before its answer.

use std::ops::AddAssign;
use std::time::Instant;

use memchr::memmem;
use serde_json::Value;

use crate::count::Count;

/// The id of `session/prompt` number p is p + this; `initialize` and `session/new` come first.
pub const ID_OFFSET: u64 = 1;

/// Marks a prompt as answered, above the bits of its chunks.
const ANSWERED: u32 = 1 << 31;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    pub lost: u64,
    pub duplicated: u64,
    pub reordered: u64,
    /// Neither asked for nor understood: a wrong text, another session's event, an error answer.
    pub wrong: u64,
}

pub struct Ledger {
    count: Count,
    session: String,
    /// Per prompt sent: a bit for each chunk seen, and `ANSWERED`.
    seen: Vec<u32>,
    faults: Faults,
    /// Chunks and answers of this session so far.
    pub events: u64,
    pub answers: u64,
    pub answered_at: Instant,
    pub first_wrong: Option<String>,
}

impl Ledger {
    pub fn new(session: String, count: Count) -> Self {
        assert!(count.chunks < 31, "one bit per chunk");
        Self {
            count,
            session: format!("\"{session}\""),
            seen: Vec::new(),
            faults: Faults::default(),
            events: 0,
            answers: 0,
            answered_at: Instant::now(),
            first_wrong: None,
        }
    }

    /// Notes that one more prompt goes out and returns its number, counted from 1.
    pub fn ask(&mut self) -> u64 {
        self.seen.push(0);
        self.seen.len() as u64
    }

    /// Whether the newest prompt has been answered.
    pub fn is_answered(&self) -> bool {
        self.seen.last().is_none_or(|seen| seen & ANSWERED != 0)
    }

    pub fn receive(&mut self, message: &[u8]) {
        match memmem::find(message, b"\"agent_message_chunk\"") {
            Some(_) => self.chunk(message),
            None => self.other(message),
        }
    }

    /// To be called when nothing more will come: what is missing now is lost.
    pub fn close(&self) -> Faults {
        let whole = self.count.chunks + 1;
        let missing = |seen: &u32| u64::from(whole - seen.count_ones());
        Faults {
            lost: self.seen.iter().map(missing).sum(),
            ..self.faults
        }
    }

    fn chunk(&mut self, message: &[u8]) {
        let known = memmem::find(message, self.session.as_bytes()).is_some();
        let Some((k, prompt)) = self.count.find(message).filter(|_| known) else {
            return self.wrong(message);
        };
        let Some(seen) = self.prompt(prompt) else {
            return self.wrong(message);
        };
        let bit = 1 << (k - 1);
        let (again, late) = (*seen & bit != 0, *seen >= bit);
        *seen |= bit;
        match (again, late) {
            (true, _) => self.faults.duplicated += 1,
            (false, true) => self.faults.reordered += 1,
            (false, false) => {}
        }
        self.events += 1;
    }

    fn other(&mut self, message: &[u8]) {
        let Ok(value) = serde_json::from_slice::<Value>(message) else {
            return self.wrong(message);
        };
        // An update of another kind (a title, usage) is welcome but no part of the comparison.
        if value["method"] == "session/update" {
            return;
        }
        let prompt = value["id"]
            .as_u64()
            .and_then(|id| id.checked_sub(ID_OFFSET));
        let Some(seen) = prompt.and_then(|prompt| self.prompt(prompt)) else {
            return self.wrong(message);
        };
        if *seen & ANSWERED != 0 {
            self.faults.duplicated += 1;
        } else {
            *seen |= ANSWERED;
            self.answers += 1;
            self.answered_at = Instant::now();
        }
        if value["result"]["stopReason"] != "end_turn" {
            self.wrong(message);
        }
        self.events += 1;
    }

    fn prompt(&mut self, prompt: u64) -> Option<&mut u32> {
        self.seen
            .get_mut(usize::try_from(prompt.checked_sub(1)?).ok()?)
    }

    fn wrong(&mut self, message: &[u8]) {
        self.faults.wrong += 1;
        self.first_wrong
            .get_or_insert_with(|| String::from_utf8_lossy(message).chars().take(400).collect());
    }
}

impl Faults {
    pub fn any(&self) -> bool {
        *self != Self::default()
    }
}

impl AddAssign for Faults {
    fn add_assign(&mut self, other: Self) {
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.wrong += other.wrong;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(session: &str, k: u32, prompt: u64) -> Vec<u8> {
        let text = Count::parse("/count 3 size=100").unwrap().text(k, prompt);
        format!(
            r#"{{"method":"session/update","params":{{"sessionId":"{session}","update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"}}}}}}}}"#
        )
        .into_bytes()
    }

    fn answer(prompt: u64) -> Vec<u8> {
        let id = prompt + ID_OFFSET;
        format!(r#"{{"id":{id},"result":{{"stopReason":"end_turn"}}}}"#).into_bytes()
    }

    /// Two prompts of three chunks, then the messages in the order given.
    fn faults(messages: &[Vec<u8>]) -> Faults {
        let mut ledger = Ledger::new("s".into(), Count::parse("/count 3 size=100").unwrap());
        ledger.ask();
        ledger.ask();
        messages.iter().for_each(|message| ledger.receive(message));
        ledger.close()
    }

    fn good() -> Vec<Vec<u8>> {
        let of = |p| {
            [
                chunk("s", 1, p),
                chunk("s", 2, p),
                chunk("s", 3, p),
                answer(p),
            ]
        };
        [of(1), of(2)].concat()
    }

    #[test]
    fn a_whole_answer_has_no_fault() {
        assert_eq!(faults(&good()), Faults::default());
    }

    #[test]
    fn every_missing_event_is_lost() {
        for gone in 0..good().len() {
            let mut messages = good();
            messages.remove(gone);
            assert_eq!(
                faults(&messages),
                Faults {
                    lost: 1,
                    ..Faults::default()
                }
            );
        }
    }

    #[test]
    fn every_repeated_event_is_duplicated() {
        for twice in 0..good().len() {
            let mut messages = good();
            messages.push(messages[twice].clone());
            assert_eq!(
                faults(&messages),
                Faults {
                    duplicated: 1,
                    ..Faults::default()
                }
            );
        }
    }

    #[test]
    fn a_swap_is_reordered() {
        for first in 0..3 {
            let mut messages = good();
            messages.swap(first, first + 1);
            assert_eq!(
                faults(&messages),
                Faults {
                    reordered: 1,
                    ..Faults::default()
                }
            );
        }
    }

    #[test]
    fn what_belongs_elsewhere_is_wrong() {
        for stray in [
            chunk("t", 1, 1),
            chunk("s", 4, 1),
            chunk("s", 1, 3),
            answer(3),
            b"{".to_vec(),
        ] {
            let messages = [good(), vec![stray]].concat();
            assert_eq!(
                faults(&messages),
                Faults {
                    wrong: 1,
                    ..Faults::default()
                }
            );
        }
    }
}
