//! A position in a connection's stream as clients carry it: `<entry>-<nonce>~<watch>:<session cursor>~…`, the
//! last entry of the outbox, and for each session the entry that told to watch it and how far it was read. Those
//! of earlier versions have no nonce, and nor has the beginning.

use std::collections::BTreeMap;
use std::fmt;

use baton_session::cursor::Cursor;
use baton_session::id::Nonce;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Position {
    pub outbox: u64,
    pub nonce: Option<Nonce>,
    pub sessions: BTreeMap<u64, Cursor>,
}

impl Position {
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('~');
        let (outbox, nonce) = entry(parts.next()?)?;
        let sessions = parts.map(|part| {
            let (watch, cursor) = part.split_once(':')?;
            Some((watch.parse().ok()?, cursor.parse().ok()?))
        });
        Some(Self {
            outbox,
            nonce,
            sessions: sessions.collect::<Option<_>>()?,
        })
    }

    /// The last entry of the outbox that such a cursor names.
    pub fn outbox_of(cursor: &str) -> Option<u64> {
        let (outbox, _) = entry(cursor.split('~').next()?)?;
        Some(outbox)
    }
}

fn entry(text: &str) -> Option<(u64, Option<Nonce>)> {
    Some(match text.split_once('-') {
        None => (text.parse().ok()?, None),
        Some((outbox, nonce)) => {
            let nonce = u32::from_str_radix(nonce, 16).ok()?;
            (outbox.parse().ok()?, Some(Nonce(nonce)))
        }
    })
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.outbox)?;
        if let Some(nonce) = self.nonce {
            write!(f, "-{nonce}")?;
        }
        let mut sessions = self.sessions.iter();
        sessions.try_for_each(|(watch, cursor)| write!(f, "~{watch}:{cursor}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_reads_back() {
        for text in [
            "0",
            "7",
            "7-0000beef",
            "7-0000beef~3:5.000000aa~4:1.000000bb.l2",
        ] {
            let position = Position::parse(text).expect(text);
            assert_eq!(position.to_string(), text);
            assert_eq!(Position::outbox_of(text), Some(position.outbox));
        }
        for wrong in ["", "x", "7-", "7-x", "-7", "7~", "7~3", "7-1~3:x"] {
            assert_eq!(Position::parse(wrong), None, "{wrong}");
        }
    }
}
