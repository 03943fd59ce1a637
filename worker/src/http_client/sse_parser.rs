//! Server-sent events, out of bytes that come in any pieces. A line ends with LF, CR or both, data
//! may have several lines, and an event may be no larger than allowed.

use bytes::{Buf as _, Bytes, BytesMut};
use thiserror::Error;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// The last id that was sent, with this event or before.
    pub id: String,
    pub name: String,
    pub data: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("an event of more than {0} bytes")]
pub struct SseTooLarge(pub usize);

pub struct SseParser {
    max_event: usize,
    bytes: BytesMut,
    /// Up to here there is no line break.
    searched: usize,
    /// The line before ended with CR: an LF now belongs to it.
    after_return: bool,
    started: bool,
    event: SseEvent,
    /// An event without data is none.
    has_data: bool,
}

/// An id goes with every event that follows, so a long one would be copied again and again.
const MAX_NAME: usize = 1024;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl SseParser {
    pub fn new(max_event: usize) -> Self {
        Self {
            max_event,
            bytes: BytesMut::new(),
            searched: 0,
            after_return: false,
            started: false,
            event: SseEvent::default(),
            has_data: false,
        }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next event that is complete.
    pub fn next_event(&mut self) -> Result<Option<SseEvent>, SseTooLarge> {
        while let Some(line) = self.line() {
            if !line.is_empty() {
                self.field(&line);
            } else if std::mem::take(&mut self.has_data) {
                return Ok(Some(self.take()));
            } else {
                // A name without data is forgotten.
                self.event.name.clear();
            }
            self.check()?;
        }
        self.check()?;
        Ok(None)
    }

    fn check(&self) -> Result<(), SseTooLarge> {
        // Complete lines are still counted with the event that they belong to.
        let unfinished = self.searched + self.event.data.len();
        let kept = self.event.id.len() + self.event.name.len();
        if unfinished.max(kept) > self.max_event {
            Err(SseTooLarge(self.max_event))
        } else {
            Ok(())
        }
    }

    fn take(&mut self) -> SseEvent {
        let next = SseEvent {
            id: self.event.id.clone(),
            ..SseEvent::default()
        };
        std::mem::replace(&mut self.event, next)
    }

    fn line(&mut self) -> Option<Bytes> {
        if self.after_return && !self.bytes.is_empty() {
            self.after_return = false;
            if self.bytes[0] == b'\n' {
                self.bytes.advance(1);
            }
        }
        let Some(found) = memchr::memchr2(b'\n', b'\r', &self.bytes[self.searched..]) else {
            self.searched = self.bytes.len();
            return None;
        };
        let end = self.searched + found;
        self.after_return = self.bytes[end] == b'\r';
        let mut line = self.bytes.split_to(end + 1).freeze();
        self.searched = 0;
        line.truncate(end);
        if !std::mem::replace(&mut self.started, true) && line.starts_with(BYTE_ORDER_MARK) {
            line.advance(BYTE_ORDER_MARK.len());
        }
        Some(line)
    }

    fn field(&mut self, line: &[u8]) {
        let colon = memchr::memchr(b':', line).unwrap_or(line.len());
        let value = &line[(colon + 1).min(line.len())..];
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let short = &value[..value.len().min(MAX_NAME)];
        let text = || String::from_utf8_lossy(short).into_owned();
        match &line[..colon] {
            // A part of an id is another id.
            b"id" if value.len() > MAX_NAME || value.contains(&0) => {}
            b"id" => self.event.id = text(),
            // No name that is known is so long.
            b"event" => self.event.name = text(),
            b"data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push(b'\n');
                }
                self.event.data.extend_from_slice(value);
            }
            // Comments, `retry`, and what is not known.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(pieces: &[&[u8]]) -> Vec<(String, String)> {
        let mut parser = SseParser::new(64);
        let mut read = Vec::new();
        for piece in pieces {
            parser.push(piece);
            while let Some(event) = parser.next_event().expect("small enough") {
                let data = String::from_utf8(event.data).expect("text");
                read.push((format!("{}{}", event.name, event.id), data));
            }
        }
        read
    }

    const TEXT: &[u8] =
        b"\xef\xbb\xbf: hello\r\n\r\nevent: a\r\ndata: 1\r\n\r\ndata:2\rdata: 3\r\r\
        :\n\nevent: lost\n\nid: 7\ndata\n\nretry: 5\ndata: \xc3\xa4\n\ndata: cut";

    #[test]
    fn line_ends_comments_and_pieces_make_no_difference() {
        let expected = [("a", "1"), ("", "2\n3"), ("7", ""), ("7", "ä")];
        let expected = expected.map(|(name, data)| (name.to_owned(), data.to_owned()));
        assert_eq!(all(&[TEXT]), expected);
        for at in 0..TEXT.len() {
            let (before, after) = TEXT.split_at(at);
            assert_eq!(all(&[before, after]), expected, "{at}");
        }
        let bytes: Vec<&[u8]> = TEXT.chunks(1).collect();
        assert_eq!(all(&bytes), expected);
    }

    #[test]
    fn events_are_bounded_whatever_their_lines() {
        let endless: [&[u8]; 5] = [
            b"data: aaaaaaaaaaaaaaaaaaaaaa\n",
            b"aaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            b": aaaaaaaaaaaaaaaaaaaaaaaaaa",
            b"data\ndata\ndata\n",
            b"id: aaaaaaaaaaaaaaaaaaaaaaa\nid: b",
        ];
        for piece in endless {
            let mut parser = SseParser::new(64);
            let refused = (0..50).any(|_| {
                parser.push(piece);
                parser.next_event().is_err()
            });
            let forgets = piece.starts_with(b"id");
            assert_eq!(refused, !forgets, "{}", String::from_utf8_lossy(piece));
        }
        // Many small ones at once are none of its business.
        let many = b"data: 1234\n\n".repeat(1000);
        assert_eq!(all(&[&many]).len(), 1000);
    }

    #[test]
    fn ids_and_names_are_short() {
        let long = "x".repeat(1 << 20);
        let mut parser = SseParser::new(8 << 20);
        parser.push(format!("id: 7\nid: {long}\nevent: {long}\ndata: 1\n\n").as_bytes());
        let event = parser.next_event().expect("small enough").expect("whole");
        assert_eq!(event.id, "7", "a long one is ignored");
        assert_eq!(event.name, long[..MAX_NAME], "cut, and so still unknown");
        parser.push(b"event: lost\n\ndata: 2\n\n");
        let event = parser.next_event().expect("small enough").expect("whole");
        assert_eq!((event.id.as_str(), event.name.as_str()), ("7", ""));
    }
}
