//! Exports that are one JSON document with a list of messages: read message by message, so that no
//! more than one of them is in memory.

use std::cell::Cell;
use std::fmt;
use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::rc::Rc;

use serde::Deserializer as _;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::ConversionError;
use crate::file_lines::MAX_LINE;
use crate::history_writer::Written;

/// The messages of a document, and all that stands beside them.
pub trait DocumentReader {
    /// The field with the messages.
    const MESSAGES: &'static str;

    fn field(&mut self, name: &str, value: Value);

    /// `number`: from 1.
    fn message(&mut self, number: u64, message: Value) -> Written;
}

/// How a document ends before its end.
pub struct DocumentFault {
    /// Messages that were read.
    pub after: u64,
    pub why: String,
}

/// Reads the document from its beginning.
pub fn read(
    file: &mut (impl BufRead + Seek),
    reader: &mut impl DocumentReader,
) -> Result<Option<DocumentFault>, ConversionError> {
    file.seek(SeekFrom::Start(0))
        .map_err(ConversionError::Read)?;
    let left = Rc::new(Cell::new(MAX_LINE));
    let bounded = BoundedReader {
        file,
        left: left.clone(),
    };
    let mut document = serde_json::Deserializer::from_reader(bounded);
    let mut visit = DocumentVisit {
        reader,
        left,
        messages: 0,
        failed: None,
    };
    let mut outcome = document.deserialize_map(&mut visit);
    let (after, failed) = (visit.messages, visit.failed.take());
    if outcome.is_ok() {
        outcome = document.end();
    }
    match (failed, outcome) {
        (Some(fault), _) => Err(fault),
        (None, Ok(())) => Ok(None),
        (None, Err(fault)) => Ok(Some(DocumentFault {
            after,
            why: fault.to_string(),
        })),
    }
}

/// No value is longer than a line may be.
struct BoundedReader<'a, R> {
    file: &'a mut R,
    left: Rc<Cell<usize>>,
}

impl<R: BufRead> Read for BoundedReader<'_, R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = self.left.get();
        if left == 0 {
            return Err(io::Error::other(format!(
                "a value has more than {MAX_LINE} bytes"
            )));
        }
        let most = bytes.len().min(left);
        let read = self.file.read(&mut bytes[..most])?;
        self.left.set(left - read);
        Ok(read)
    }
}

struct DocumentVisit<'a, D> {
    reader: &'a mut D,
    left: Rc<Cell<usize>>,
    messages: u64,
    failed: Option<ConversionError>,
}

impl<'de, D: DocumentReader> Visitor<'de> for &mut DocumentVisit<'_, D> {
    type Value = ();

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("an exported session")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            self.left.set(MAX_LINE);
            if name == D::MESSAGES {
                map.next_value_seed(MessageList(self))?;
            } else {
                let value: Value = map.next_value()?;
                self.reader.field(&name, value);
            }
        }
        Ok(())
    }
}

struct MessageList<'a, 'b, D>(&'a mut DocumentVisit<'b, D>);

impl<'de, D: DocumentReader> DeserializeSeed<'de> for MessageList<'_, '_, D> {
    type Value = ();

    fn deserialize<S: serde::Deserializer<'de>>(self, from: S) -> Result<(), S::Error> {
        from.deserialize_any(self)
    }
}

impl<'de, D: DocumentReader> Visitor<'de> for MessageList<'_, '_, D> {
    type Value = ();

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a list of messages")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut messages: A) -> Result<(), A::Error> {
        let visit = self.0;
        loop {
            visit.left.set(MAX_LINE);
            let Some(message) = messages.next_element::<Value>()? else {
                return Ok(());
            };
            visit.messages += 1;
            if let Err(fault) = visit.reader.message(visit.messages, message) {
                visit.failed = Some(fault);
                return Err(A::Error::custom("not taken"));
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Err(A::Error::custom("the messages are no list"))
    }
}
