//! Archives, as far as pages need them: their events one after the other.

use std::io::BufRead;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::ConversionError;
use crate::file_lines::FileLines;

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PageHead {
    baton_session: u32,
    pub session_id: String,
    #[serde(default)]
    pub agent: String,
    #[serde(default)]
    pub cwd: String,
    #[serde(default)]
    pub title: String,
    /// In milliseconds since 1970.
    #[serde(default)]
    pub updated: u64,
    events: u64,
}

#[derive(Deserialize)]
struct ArchivedEvent<'a> {
    kind: std::borrow::Cow<'a, str>,
    #[serde(default, borrow)]
    message: Option<&'a RawValue>,
    #[serde(default)]
    text: Option<String>,
}

/// An event that a page shows.
pub enum PageEvent {
    User(Value),
    Update(Value),
    /// The turn's result.
    End(Value),
}

pub struct ArchiveReader<'a, R> {
    pub head: PageHead,
    lines: FileLines<'a, R>,
    /// The number of the event that was read last.
    pub seq: u64,
}

impl<'a, R: BufRead> ArchiveReader<'a, R> {
    pub fn open(file: &'a mut R) -> Result<Self, ConversionError> {
        let mut lines = FileLines::new(file);
        let head = match lines.next().map_err(ConversionError::Read)? {
            Some(line) => line.json::<PageHead>(),
            None => Err(("nothing", "the export is empty".into())),
        };
        let head = head.map_err(|(_, why)| unreadable(1, &why))?;
        if head.baton_session != 1 {
            return Err(unreadable(1, "its version is not known here"));
        }
        Ok(Self {
            head,
            lines,
            seq: 0,
        })
    }

    /// The next event that is shown.
    pub fn next(&mut self) -> Result<Option<PageEvent>, ConversionError> {
        while self.seq < self.head.events {
            let number = self.seq + 2;
            let Some(line) = self.lines.next().map_err(ConversionError::Read)? else {
                return Err(unreadable(number, "the export breaks off"));
            };
            self.seq += 1;
            let event = line.json::<ArchivedEvent<'_>>();
            let event = event.map_err(|(_, why)| unreadable(number, &why))?;
            let message = match (event.message, &event.text) {
                (Some(message), _) => message.get(),
                (None, text) => text.as_deref().unwrap_or("null"),
            };
            let read = || -> Result<Value, ConversionError> {
                serde_json::from_str(message).map_err(|why| unreadable(number, &why.to_string()))
            };
            match &*event.kind {
                "user" => return Ok(Some(PageEvent::User(update_of(read()?)))),
                "update" | "aside" => return Ok(Some(PageEvent::Update(update_of(read()?)))),
                "end" => return Ok(Some(PageEvent::End(read()?["result"].take()))),
                _ => {}
            }
        }
        Ok(None)
    }
}

fn update_of(mut message: Value) -> Value {
    message["params"]["update"].take()
}

fn unreadable(line: u64, why: &str) -> ConversionError {
    ConversionError::Unusable(format!("line {line} of the export: {why}"))
}
