//! One client's picture of one session: its turns, chunk by chunk.

use std::collections::{BTreeMap, HashMap};

use super::Prompt;

#[derive(Default)]
pub struct View {
    /// By the number of chunks that names the turn.
    turns: BTreeMap<u64, Turn>,
    /// The ordinal of the latest turn on each stream. Streams may overtake each other.
    latest: HashMap<String, u64>,
    permissions: u64,
    permissions_due: u64,
    /// Of turns up to the one with this name something may be missing: a stream said so.
    loose: u64,
}

#[derive(Default)]
struct Turn {
    seen: u64,
    ordinal: u64,
    ended: bool,
    /// Who spoke last, if it says who it is.
    worker: Option<String>,
}

type Wrong = (&'static str, String);

impl View {
    /// A piece of text. `prompt` finds what was asked for.
    pub fn chunk<'a>(
        &mut self,
        stream: &str,
        text: &str,
        prompt: impl FnOnce(u64) -> Option<&'a Prompt>,
    ) -> Vec<Wrong> {
        if let Some(chosen) = text.strip_prefix("permission ") {
            self.permissions += 1;
            let right = chosen == "allow_once ";
            return if right {
                Vec::new()
            } else {
                vec![(
                    "I4",
                    format!("the first answer was allow_once, not {chosen}"),
                )]
            };
        }
        let Some(Said {
            number,
            chunks,
            ordinal,
            worker,
        }) = parse(text)
        else {
            return vec![("I1", format!("nobody asked for {text:?}"))];
        };
        let mut wrong = Vec::new();
        match prompt(chunks) {
            None => wrong.push(("I1", format!("nobody asked for {text:.60?}"))),
            Some(prompt) if text.len() != prompt.size.max(text.trim_end_matches('.').len()) => {
                wrong.push((
                    "I1",
                    format!("{} bytes instead of {}", text.len(), prompt.size),
                ));
            }
            Some(_) => {}
        }
        let latest = self.latest.entry(stream.to_owned()).or_default();
        let turn = self.turns.entry(chunks).or_default();
        turn.worker = worker.or(turn.worker.take());
        if chunks <= self.loose {
            turn.seen = turn.seen.max(number);
            *latest = ordinal.max(*latest);
            return wrong;
        }
        if turn.seen == 0 {
            turn.ordinal = ordinal;
        }
        if ordinal < *latest || turn.ordinal != ordinal {
            let text = format!("chunk {number} of prompt {ordinal} during prompt {latest}");
            wrong.push(("I1", text));
        }
        *latest = ordinal.max(*latest);
        if turn.ended {
            wrong.push(("I3", format!("chunk {number} of {chunks} after the answer")));
        }
        let due = turn.seen + 1;
        if number > due {
            wrong.push((
                "I1",
                format!("lost: chunks {due}…{} of {chunks}", number - 1),
            ));
        } else if number < due {
            let text = format!(
                "duplicated or reordered: chunk {number} of {chunks} after {}",
                turn.seen
            );
            wrong.push(("I1", text));
        }
        turn.seen = turn.seen.max(number);
        wrong
    }

    /// The answer to a prompt of this client.
    pub fn end(&mut self, id: &str, prompt: &Prompt, reason: &str) -> Vec<Wrong> {
        let turn = self.turns.entry(prompt.chunks).or_default();
        turn.ended = true;
        let (seen, chunks) = (turn.seen, prompt.chunks);
        let mut wrong = Vec::new();
        match reason {
            "end_turn" if seen == chunks || chunks <= self.loose => {}
            "end_turn" => {
                wrong.push((
                    "I1",
                    format!("lost: {id} ended after {seen} of {chunks} chunks"),
                ));
            }
            "cancelled" if prompt.may_be_cancelled => {}
            other => wrong.push(("I4", format!("{id} ended with {other:?}"))),
        }
        self.permissions_due += u64::from(prompt.permission);
        if chunks <= self.loose {
            self.permissions = self.permissions_due;
        }
        if self.permissions != self.permissions_due {
            let (said, due) = (self.permissions, self.permissions_due);
            wrong.push(("I1", format!("{id}: {said} permissions instead of {due}")));
            self.permissions = due;
        }
        wrong
    }

    /// The turn ended in the middle. Returns who spoke last.
    pub fn cut(&mut self, prompt: &Prompt) -> Option<String> {
        let turn = self.turns.entry(prompt.chunks).or_default();
        turn.ended = true;
        // It may have come to its question or not.
        self.permissions_due = self.permissions;
        turn.worker.clone()
    }

    pub fn shaken(&mut self, upto: u64) {
        self.loose = upto;
    }

    pub fn seen(&self, chunks: u64) -> u64 {
        self.turns.get(&chunks).map_or(0, |turn| turn.seen)
    }

    /// The turns whose answer this client has, and how many chunks it had by then.
    pub fn ended(&self) -> impl Iterator<Item = (u64, u64)> {
        let sure = |chunks: u64| chunks > self.loose;
        let ended = self
            .turns
            .iter()
            .filter(move |(chunks, turn)| turn.ended && sure(**chunks));
        ended.map(|(chunks, turn)| (*chunks, turn.seen))
    }
}

struct Said {
    number: u64,
    chunks: u64,
    ordinal: u64,
    worker: Option<String>,
}

/// `chunk k of N, prompt p `, `by WORKER ` if it is a program, and padding.
fn parse(text: &str) -> Option<Said> {
    let (number, rest) = text.strip_prefix("chunk ")?.split_once(" of ")?;
    let (chunks, rest) = rest.split_once(", prompt ")?;
    let (ordinal, mut padding) = rest.split_once(' ')?;
    let mut worker = None;
    if let Some((by, rest)) = padding
        .strip_prefix("by ")
        .and_then(|rest| rest.split_once(' '))
    {
        worker = Some(by.to_owned());
        padding = rest;
    }
    if !padding.bytes().all(|byte| byte == b'.') {
        return None;
    }
    Some(Said {
        number: number.parse().ok()?,
        chunks: chunks.parse().ok()?,
        ordinal: ordinal.parse().ok()?,
        worker,
    })
}
