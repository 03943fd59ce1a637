//! A position in a session's log as clients carry it: `<seq>.<nonce>`, and a suffix where a load or
//! resume is concerned: `.l<n>` while its history is being replayed, `.d<n>` once it was answered,
//! `.q<n>-<seq>` once the agent's open question with that number was asked again.

use std::fmt;
use std::str::FromStr;

use crate::id::Nonce;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Cursor {
    pub seq: u64,
    pub nonce: Nonce,
    pub phase: CursorPhase,
}

/// Where a cursor stands towards the directive with this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CursorPhase {
    #[default]
    Live,
    Replaying(u64),
    Answered(u64),
    /// Open questions up to this one were asked again.
    Asked(u64, u64),
}

impl Cursor {
    pub fn live(seq: u64, nonce: Nonce) -> Self {
        Self {
            seq,
            nonce,
            phase: CursorPhase::Live,
        }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.seq, self.nonce)?;
        match self.phase {
            CursorPhase::Live => Ok(()),
            CursorPhase::Replaying(number) => write!(f, ".l{number}"),
            CursorPhase::Answered(number) => write!(f, ".d{number}"),
            CursorPhase::Asked(number, question) => write!(f, ".q{number}-{question}"),
        }
    }
}

impl FromStr for Cursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.splitn(3, '.');
        let seq = parts.next().and_then(|seq| seq.parse().ok()).ok_or(())?;
        let nonce = parts
            .next()
            .and_then(|nonce| u32::from_str_radix(nonce, 16).ok())
            .ok_or(())?;
        let phase = match parts.next().map(|phase| phase.split_at_checked(1)) {
            None => CursorPhase::Live,
            Some(Some(("l", number))) => CursorPhase::Replaying(number.parse().map_err(|_| ())?),
            Some(Some(("d", number))) => CursorPhase::Answered(number.parse().map_err(|_| ())?),
            Some(Some(("q", asked))) => {
                let (number, question) = asked.split_once('-').ok_or(())?;
                let number = number.parse().map_err(|_| ())?;
                CursorPhase::Asked(number, question.parse().map_err(|_| ())?)
            }
            Some(_) => return Err(()),
        };
        Ok(Self {
            seq,
            nonce: Nonce(nonce),
            phase,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back() {
        for phase in [
            CursorPhase::Live,
            CursorPhase::Replaying(3),
            CursorPhase::Answered(12),
            CursorPhase::Asked(4, 40),
        ] {
            let cursor = Cursor {
                seq: 42,
                nonce: Nonce(0xbeef),
                phase,
            };
            assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }
        assert_eq!(Cursor::live(42, Nonce(0xbeef)).to_string(), "42.0000beef");
        for wrong in ["42", "x.1", "1.2.", "1.2.x3", "1.2.l", "1.2.q3", "-1.0"] {
            assert!(wrong.parse::<Cursor>().is_err(), "{wrong}");
        }
    }
}
