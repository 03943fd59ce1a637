//! Server-sent events, out of bytes that come in any pieces.

use bytes::{Bytes, BytesMut};

#[derive(Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// The last id that was sent, with this event or before.
    pub id: String,
    pub name: String,
    pub data: Option<Bytes>,
}

#[derive(Default)]
pub struct SseParser {
    bytes: BytesMut,
    /// Up to here there is no line break.
    searched: usize,
    event: SseEvent,
    /// Something came for the event.
    begun: bool,
}

impl SseParser {
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The size of the event that is not complete yet.
    pub fn unfinished(&self) -> usize {
        let data = self.event.data.as_ref().map_or(0, Bytes::len);
        self.bytes.len() + data
    }

    /// The next event that is complete.
    pub fn next(&mut self) -> Option<SseEvent> {
        while let Some(line) = self.line() {
            if !line.is_empty() {
                self.field(&line);
            } else if std::mem::take(&mut self.begun) {
                let id = self.event.id.clone();
                let next = SseEvent {
                    id,
                    ..SseEvent::default()
                };
                return Some(std::mem::replace(&mut self.event, next));
            }
        }
        None
    }

    fn line(&mut self) -> Option<Bytes> {
        let Some(end) = memchr::memchr(b'\n', &self.bytes[self.searched..]) else {
            self.searched = self.bytes.len();
            return None;
        };
        let mut line = self.bytes.split_to(self.searched + end + 1).freeze();
        self.searched = 0;
        line.truncate(line.len() - 1);
        if line.last() == Some(&b'\r') {
            line.truncate(line.len() - 1);
        }
        Some(line)
    }

    fn field(&mut self, line: &Bytes) {
        let colon = memchr::memchr(b':', line).unwrap_or(line.len());
        let name = &line[..colon];
        let mut value = line.slice((colon + 1).min(line.len())..);
        if value.first() == Some(&b' ') {
            value = value.slice(1..);
        }
        let text = |value: &Bytes| String::from_utf8_lossy(value).into_owned();
        match name {
            b"id" => self.event.id = text(&value),
            b"event" => self.event.name = text(&value),
            b"data" => {
                let joined = self
                    .event
                    .data
                    .take()
                    .map(|before| [&before, &value[..]].join(&b'\n'));
                self.event.data = Some(joined.map_or(value, Bytes::from));
            }
            // Comments, `retry`, and what is not known.
            _ => return,
        }
        self.begun = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(pieces: &[&[u8]]) -> Vec<SseEvent> {
        let mut events = SseParser::default();
        let mut read = Vec::new();
        for piece in pieces {
            events.push(piece);
            while let Some(event) = events.next() {
                read.push(event);
            }
        }
        read
    }

    fn event(id: &str, name: &str, data: Option<&'static str>) -> SseEvent {
        SseEvent {
            id: id.into(),
            name: name.into(),
            data: data.map(Bytes::from),
        }
    }

    #[test]
    fn pieces_make_no_difference() {
        let text =
            b"retry: 900\nid: 0~1\n\n:\n\nid: 1\r\ndata: {\"a\":1}\r\n\r\ndata:b\ndata: c\n\n\
            id: 2\nevent: reset\ndata: {}\n\nid: 3\ndata: cut off";
        let expected = [
            event("0~1", "", None),
            event("1", "", Some("{\"a\":1}")),
            event("1", "", Some("b\nc")),
            event("2", "reset", Some("{}")),
        ];
        assert_eq!(all(&[text]), expected);
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(all(&bytes), expected);
        let pieces: Vec<&[u8]> = text.chunks(7).collect();
        assert_eq!(all(&pieces), expected);
    }
}
