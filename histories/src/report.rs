//! The fate of a file's lines. Bounded, however long and odd the file is.

use std::collections::BTreeMap;

use baton_protocol::limits::{MAX_NAME, shorten};
use serde::{Deserialize, Serialize};

/// Notes that are kept one by one; the rest is counted.
const MOST_NOTES: usize = 200;
/// Kinds that are counted one by one.
const MOST_KINDS: usize = 200;
const OTHERS: &str = "(others)";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportReport {
    pub lines: u64,
    pub sessions: u64,
    pub forks: u64,
    pub turns: u64,
    pub events: u64,
    /// Lines, and parts of lines, that a conversation has no place for, by kind.
    pub left_out: BTreeMap<String, u64>,
    /// Lines, and parts of lines, of a kind that is not known here.
    pub unknown: BTreeMap<String, u64>,
    /// Lines that cannot be read, and gaps that they leave.
    pub damaged: BTreeMap<String, u64>,
    /// The first of the unknown and damaged ones, by line.
    pub notes: Vec<LineNote>,
    /// How many more there are.
    pub more_notes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineNote {
    pub line: u64,
    pub what: String,
}

impl ImportReport {
    pub fn leave_out(&mut self, kind: &str) {
        count(&mut self.left_out, kind);
    }

    pub fn unknown(&mut self, line: u64, kind: &str) {
        count(&mut self.unknown, kind);
        self.note(line, format!("unknown kind {kind:?}"));
    }

    /// `kind` is counted, `detail` is told.
    pub fn damage(&mut self, line: u64, kind: &str, detail: &str) {
        count(&mut self.damaged, kind);
        let what = match detail {
            "" => kind.to_owned(),
            detail => format!("{kind}: {detail}"),
        };
        self.note(line, what);
    }

    fn note(&mut self, line: u64, what: String) {
        if self.notes.len() < MOST_NOTES {
            let what = shorten(what);
            self.notes.push(LineNote { line, what });
        } else {
            self.more_notes += 1;
        }
    }

    /// All that was said of single lines.
    pub fn parts(&self) -> Self {
        Self {
            lines: 0,
            sessions: 0,
            forks: 0,
            turns: 0,
            events: 0,
            ..self.clone()
        }
    }

    /// Takes back what was said of single lines since then.
    pub fn set_parts(&mut self, then: Self) {
        *self = Self {
            lines: self.lines,
            sessions: self.sessions,
            forks: self.forks,
            turns: self.turns,
            events: self.events,
            ..then
        };
    }

    /// Of several files.
    pub fn add(&mut self, other: &Self) {
        self.lines += other.lines;
        self.sessions += other.sessions;
        self.forks += other.forks;
        self.turns += other.turns;
        self.events += other.events;
        for (all, more) in [
            (&mut self.left_out, &other.left_out),
            (&mut self.unknown, &other.unknown),
            (&mut self.damaged, &other.damaged),
        ] {
            for (kind, times) in more {
                *slot(all, kind) += times;
            }
        }
    }
}

fn count(kinds: &mut BTreeMap<String, u64>, kind: &str) {
    *slot(kinds, kind) += 1;
}

fn slot<'a>(kinds: &'a mut BTreeMap<String, u64>, kind: &str) -> &'a mut u64 {
    let known = kinds.contains_key(kind);
    let named = known || (kinds.len() < MOST_KINDS && kind.len() <= MAX_NAME);
    let kind = if named { kind } else { OTHERS };
    kinds.entry(kind.to_owned()).or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_much_is_told_it_stays_small() {
        let mut report = ImportReport::default();
        for number in 0..10_000 {
            report.unknown(number, &format!("kind {number}"));
            report.damage(number, "no JSON", &"x".repeat(10_000));
        }
        assert_eq!(report.unknown.len(), MOST_KINDS + 1);
        assert_eq!(report.unknown.values().sum::<u64>(), 10_000);
        assert_eq!(report.damaged["no JSON"], 10_000);
        assert_eq!(report.notes.len() as u64 + report.more_notes, 20_000);
        assert!(serde_json::to_string(&report).unwrap().len() < 200_000);
    }
}
