//! How lines hang together: each carries a number and the hash of the line before it.

use std::io::{self, BufRead, Read as _};

use serde::Deserialize;
use sha2::{Digest as _, Sha256};

/// No line is longer.
pub const MAX_LINE: usize = 16 << 10;

/// The end of a chain: what the next line continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainHead {
    /// The number of the next line.
    pub next: u64,
    /// Of the last line.
    pub hash: String,
}

impl Default for ChainHead {
    fn default() -> Self {
        Self {
            next: 0,
            hash: "0".repeat(64),
        }
    }
}

impl ChainHead {
    /// Adds a line to `to`, with its end. `body` is an object without these two fields.
    pub fn append(&mut self, body: &str, to: &mut Vec<u8>) {
        let start = to.len();
        let (seq, prev) = (self.next, &self.hash);
        let rest = body.strip_prefix('{').unwrap_or(body);
        to.extend_from_slice(format!("{{\"seq\":{seq},\"prev\":\"{prev}\",{rest}").as_bytes());
        *self = Self {
            next: seq + 1,
            hash: hash(&to[start..]),
        };
        to.push(b'\n');
    }
}

pub fn hash(line: &[u8]) -> String {
    let hash = Sha256::digest(line);
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The fields of a line that form the chain.
#[derive(Deserialize)]
pub struct ChainLink {
    pub seq: u64,
    prev: String,
    decision: String,
    #[serde(default)]
    torn: u64,
    #[serde(default)]
    count: u64,
}

impl ChainLink {
    pub fn read(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }
}

/// A chain without a flaw.
#[derive(Debug, PartialEq, Eq)]
pub struct VerifiedChain {
    pub lines: u64,
    pub head: ChainHead,
    /// It does not begin with a first line: what was before it is in another file, whose last hash
    /// this is.
    pub continues: Option<String>,
    /// Lines of which it says that they could not be written.
    pub lost: u64,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct ChainError {
    pub line: u64,
    pub why: String,
}

/// Looks at every line. `before` is the head of the file that this one continues, if that is known;
/// `heads` are hashes that must occur, and are taken out as they do.
pub fn verify(
    mut file: impl BufRead,
    before: Option<&ChainHead>,
    heads: &mut Vec<String>,
) -> io::Result<Result<VerifiedChain, ChainError>> {
    let mut check = ChainCheck {
        whole: VerifiedChain {
            lines: 0,
            head: before.cloned().unwrap_or_default(),
            continues: None,
            lost: 0,
        },
        known: before.is_some(),
        torn: None,
    };
    let mut line = Vec::new();
    loop {
        line.clear();
        (&mut file)
            .take(MAX_LINE as u64 + 1)
            .read_until(b'\n', &mut line)?;
        if line.is_empty() {
            break;
        }
        check.whole.lines += 1;
        if line.pop() != Some(b'\n') {
            return Ok(Err(check.broken(
                "it is torn: its process was killed while it wrote and has not gone on, or the \
                 file was cut",
            )));
        }
        if let Err(broken) = check.see(&line) {
            return Ok(Err(broken));
        }
        heads.retain(|head| *head != check.whole.head.hash);
    }
    if check.torn.is_some() {
        return Ok(Err(check.broken("it is no line of an audit log")));
    }
    Ok(Ok(check.whole))
}

struct ChainCheck {
    whole: VerifiedChain,
    /// Whether the line before this file is known.
    known: bool,
    /// The length of a line that cannot be read: the next one must know of it.
    torn: Option<u64>,
}

impl ChainCheck {
    fn broken(&self, why: impl Into<String>) -> ChainError {
        ChainError {
            line: self.whole.lines,
            why: why.into(),
        }
    }

    fn see(&mut self, line: &[u8]) -> Result<(), ChainError> {
        let is_first = self.whole.lines == 1;
        let Some(link) = ChainLink::read(line) else {
            if self.torn.is_some() {
                return Err(self.broken("it is no line of an audit log"));
            }
            self.torn = Some(line.len() as u64);
            self.whole.head.hash = hash(line);
            return Ok(());
        };
        let torn = self.torn.take();
        if torn.is_some_and(|torn| link.decision != "log_resumed" || link.torn != torn) {
            self.whole.lines -= 1;
            return Err(self.broken("it cannot be read, and the line after it does not say so"));
        }
        if is_first && !self.known && link.decision == "log_continued" {
            self.whole.continues = Some(link.prev.clone());
            self.whole.head = ChainHead {
                next: link.seq,
                hash: link.prev.clone(),
            };
        }
        let begins = matches!(link.decision.as_str(), "log_started" | "log_continued");
        if begins && !is_first {
            return Err(self.broken("a log begins here, in the middle of another"));
        }
        if is_first && torn.is_none() && !begins {
            return Err(self.broken("it is no first line: lines before it are missing"));
        }
        if link.seq != self.whole.head.next {
            let expected = self.whole.head.next;
            return Err(self.broken(format!(
                "it has number {}, and {expected} is next: lines are missing, were added or moved",
                link.seq
            )));
        }
        if link.prev != self.whole.head.hash {
            return Err(self.broken(
                "the line before it is not the one it was written after: that was changed, or \
                 this one",
            ));
        }
        if link.decision == "lines_lost" {
            self.whole.lost += link.count;
        }
        self.whole.head = ChainHead {
            next: link.seq + 1,
            hash: hash(line),
        };
        Ok(())
    }
}

#[cfg(test)]
#[path = "chain/tests.rs"]
mod tests;
