//! A position in a connection's stream as clients carry it: `<entry>-<nonce>~<watch>:<session
//! cursor>~…`, the last entry of the outbox, and for each session the entry that told to watch it
//! and how far it was read. Those of earlier versions have no nonce, and nor has the beginning.
//!
//! Where that would be too long, `~@<entry>-<nonce>` names an entry of the outbox that has such
//! parts, and only what has moved since is in the cursor. There are two at most, the later laid
//! over the earlier. `<watch>:-` is a session that has left. Builds before this one cannot read
//! either, and begin with a reset.

use std::collections::BTreeMap;
use std::fmt;

use baton_session::cursor::Cursor;
use baton_session::id::Nonce;

/// By watch; `None` for what has left.
pub type CursorParts = BTreeMap<u64, Option<Cursor>>;

/// Of an outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutboxEntry {
    pub number: u64,
    pub nonce: Nonce,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct ConnectionCursor {
    pub outbox: u64,
    pub nonce: Option<Nonce>,
    pub entries: Vec<OutboxEntry>,
    pub parts: CursorParts,
}

/// Entries that a position may name.
const MAX_ENTRIES: usize = 2;

impl ConnectionCursor {
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('~').peekable();
        let (outbox, nonce) = entry(parts.next()?)?;
        let mut entries = Vec::new();
        while let Some(named) = parts.peek().and_then(|part| part.strip_prefix('@')) {
            let (number, Some(nonce)) = entry(named)? else {
                return None;
            };
            entries.push(OutboxEntry { number, nonce });
            parts.next();
        }
        if entries.len() > MAX_ENTRIES {
            return None;
        }
        Some(Self {
            outbox,
            nonce,
            entries,
            parts: parts.map(part).collect::<Option<_>>()?,
        })
    }

    /// The first entry of the outbox that has to be there, so that such a cursor can be honoured.
    pub fn first_needed(cursor: &str) -> Option<u64> {
        let mut parts = cursor.split('~');
        let (outbox, _) = entry(parts.next()?)?;
        let named = parts.map_while(|part| part.strip_prefix('@'));
        let named = named.filter_map(|named| Some(entry(named)?.0));
        Some(named.fold(outbox, u64::min))
    }
}

/// Reads an entry of the outbox, as [`write_parts`] writes it.
pub fn parse_parts(text: &[u8]) -> Option<CursorParts> {
    match std::str::from_utf8(text).ok()? {
        "" => Some(CursorParts::new()),
        text => text.split('~').map(part).collect(),
    }
}

pub fn write_parts(parts: &CursorParts) -> String {
    let parts = parts
        .iter()
        .map(|(watch, cursor)| CursorPart(*watch, *cursor).to_string());
    parts.collect::<Vec<_>>().join("~")
}

fn part(text: &str) -> Option<(u64, Option<Cursor>)> {
    let (watch, cursor) = text.split_once(':')?;
    let cursor = match cursor {
        LEFT => None,
        cursor => Some(cursor.parse().ok()?),
    };
    Some((watch.parse().ok()?, cursor))
}

const LEFT: &str = "-";

struct CursorPart(u64, Option<Cursor>);

impl fmt::Display for CursorPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(watch, cursor) = self;
        match cursor {
            Some(cursor) => write!(f, "{watch}:{cursor}"),
            None => write!(f, "{watch}:{LEFT}"),
        }
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

impl fmt::Display for ConnectionCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            outbox,
            nonce,
            entries,
            parts,
        } = self;
        write(f, *outbox, *nonce, entries, parts)
    }
}

/// A position whose parts are somewhere else.
pub fn write(
    to: &mut impl fmt::Write,
    outbox: u64,
    nonce: Option<Nonce>,
    entries: &[OutboxEntry],
    parts: &CursorParts,
) -> fmt::Result {
    write!(to, "{outbox}")?;
    if let Some(nonce) = nonce {
        write!(to, "-{nonce}")?;
    }
    for OutboxEntry { number, nonce } in entries {
        write!(to, "~@{number}-{nonce}")?;
    }
    let mut parts = parts.iter();
    parts.try_for_each(|(watch, cursor)| write!(to, "~{}", CursorPart(*watch, *cursor)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_reads_back() {
        for (text, needed) in [
            ("0", 0),
            ("7", 7),
            ("7-0000beef", 7),
            ("7-0000beef~3:5.000000aa~4:1.000000bb.l2", 7),
            ("7-0000beef~@5-000000aa", 5),
            ("7-0000beef~@9-000000aa~3:-", 7),
            (
                "7-0000beef~@5-000000aa~@9-000000bb~3:5.000000aa~4:1.000000bb.l2",
                5,
            ),
        ] {
            let position = ConnectionCursor::parse(text).expect(text);
            assert_eq!(position.to_string(), text);
            assert_eq!(ConnectionCursor::first_needed(text), Some(needed), "{text}");
        }
        for wrong in [
            "",
            "x",
            "7-",
            "7-x",
            "-7",
            "7~",
            "7~3",
            "7-1~3:x",
            "7~@",
            "7~@5",
            "7~@5-x",
            "7~@x-1",
            "7~@5-1~",
            "7~3:-~@5-1",
            "7~@1-1~@2-1~@3-1",
            "7~3:--",
        ] {
            assert_eq!(ConnectionCursor::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn parts_read_back() {
        for text in ["", "3:5.000000aa", "3:5.000000aa~4:-"] {
            let parts = parse_parts(text.as_bytes()).expect(text);
            assert_eq!(write_parts(&parts), text);
        }
        for wrong in [&b"x"[..], b"~", b"3:5.000000aa~", b"\xff"] {
            assert_eq!(parse_parts(wrong), None);
        }
    }
}
