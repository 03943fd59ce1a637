//! Finds the end of a message, and what the session showed there, without reading the log: messages
//! of the user say where they are, others are looked for from the end backwards, up to a limit.

use std::sync::Arc;

use baton_protocol::{Envelope, update};
use baton_session::event::{Event, Frame};
use baton_session::id::LogId;
use baton_session::settings_history::{self, LastChange, ShownSetting};
use baton_session::store::{self, ForkPoint, SessionRecord, Store};
use bytes::Bytes;
use memchr::memmem::Finder;
use serde_json::{Map, Value, json};

/// So much is searched.
const MAX_BYTES: usize = 8 << 20;
/// Events per read: fewer if they are large.
const PAGES: std::ops::RangeInclusive<u64> = 16..=1024;
const PAGE_BYTES: usize = 256 << 10;
/// Frames per read where the end of a message is near. A frame holds what an agent says in some 25
/// ms.
const NEAR: usize = 2;

/// Why nothing was found.
pub enum ForkSearchError {
    Nowhere,
    /// It may be further back than is searched.
    Far {
        events: u64,
    },
    Store(store::Error),
}

impl From<store::Error> for ForkSearchError {
    fn from(error: store::Error) -> Self {
        Self::Store(error)
    }
}

pub struct ForkSearch<'a> {
    pub store: &'a dyn Store,
    pub log: LogId,
    pub record: &'a SessionRecord,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum EventMatch {
    /// Nobody sees it.
    Hidden,
    Wanted,
    Other,
}

impl ForkSearch<'_> {
    /// The last event of the message, with what came after it and nobody saw; and the view there.
    pub async fn cut_after(&self, message: &str) -> Result<ForkPoint, ForkSearchError> {
        let wanted = UpdateMatcher::message(message);
        let upto = match self.of_the_user(message, &wanted).await? {
            Some(upto) => upto,
            None => self.backwards(&wanted).await?,
        };
        let view = self.view_at(upto).await?;
        Ok(ForkPoint { upto, view })
    }

    /// `user-N` comes right after the event N, with which its turn begins. In a store that was
    /// restored it has more after the number, or is another message than one that was lost.
    async fn of_the_user(
        &self,
        message: &str,
        wanted: &UpdateMatcher<'_>,
    ) -> Result<Option<u64>, ForkSearchError> {
        let number = message.strip_prefix("user-");
        let number = number.and_then(|number| number.split('-').next());
        let Some(mut next) = number.and_then(|number| number.parse().ok()) else {
            return Ok(None);
        };
        let mut found = None;
        while next > 0 && next <= self.record.head {
            let frames = self.store.read(&self.log, next, NEAR).await?;
            let Some(last) = frames.last() else {
                break;
            };
            for (seq, event) in within(&frames, next, self.record.head) {
                match wanted.sight(event) {
                    EventMatch::Wanted => found = Some(seq),
                    EventMatch::Hidden => found = found.map(|_| seq),
                    EventMatch::Other => return Ok(found),
                }
            }
            next = last.last() + 1;
        }
        Ok(found)
    }

    async fn backwards(&self, wanted: &UpdateMatcher<'_>) -> Result<u64, ForkSearchError> {
        let mut pages = BackwardPages::before(self.record.head + 1);
        // The first event after the message that somebody saw.
        let mut after = self.record.head + 1;
        while let Some(events) = pages.next(self).await? {
            for (seq, event) in events.iter().rev() {
                match wanted.sight(event) {
                    EventMatch::Wanted => return Ok(after - 1),
                    EventMatch::Other => after = *seq,
                    EventMatch::Hidden => {}
                }
            }
        }
        Err(ForkSearchError::Nowhere)
    }

    /// Modes and options as they were at an event. Those to choose from do not change.
    pub async fn view_at(&self, upto: u64) -> Result<Bytes, ForkSearchError> {
        let mut view: Map<String, Value> =
            serde_json::from_slice(&self.record.view).unwrap_or_default();
        let line = self.record.shown.as_deref();
        for what in ShownSetting::ALL {
            let then = settings_history::last(line, what, upto);
            let update = match then {
                // It is what the session shows now.
                LastChange::At(_) | LastChange::None
                    if then == settings_history::last(line, what, self.record.head) =>
                {
                    continue;
                }
                LastChange::At(seq) => self.update(seq).await?,
                LastChange::None => None,
                LastChange::Unknown => self.change_before(what, upto).await?,
            };
            match update {
                Some(update) => note(&mut view, what, &update),
                None => self.begin(&mut view, what).await?,
            }
        }
        Ok(json!(view).to_string().into())
    }

    async fn update(&self, seq: u64) -> Result<Option<Value>, ForkSearchError> {
        let frames = self.store.read(&self.log, seq, 1).await?;
        let event = within(&frames, seq, seq).next();
        Ok(event.and_then(|(_, event)| update_of(event)))
    }

    /// For a session that does not know any more where it was.
    async fn change_before(
        &self,
        what: ShownSetting,
        upto: u64,
    ) -> Result<Option<Value>, ForkSearchError> {
        let wanted = UpdateMatcher::kind(what.kind());
        let mut pages = BackwardPages::before(upto + 1);
        while let Some(events) = pages.next(self).await? {
            let mut events = events.iter().rev();
            let found = events.find(|(_, event)| wanted.sight(event) == EventMatch::Wanted);
            if let Some((_, event)) = found {
                return Ok(update_of(event));
            }
        }
        Ok(None)
    }

    /// A session begins with what its agent showed.
    async fn begin(
        &self,
        view: &mut Map<String, Value>,
        what: ShownSetting,
    ) -> Result<(), ForkSearchError> {
        let field = match what {
            ShownSetting::Mode => "modes",
            ShownSetting::Options => "configOptions",
        };
        let frames = self.store.read(&self.log, 1, 1).await?;
        if let Some((_, Event::Response { message, .. })) = within(&frames, 1, 1).next()
            && let Some(result) = result_of(message)
            && let Some(value) = result.get(field)
        {
            view.insert(field.to_owned(), value.clone());
        }
        Ok(())
    }
}

/// Reads backwards.
struct BackwardPages {
    before: u64,
    events: u64,
    read: usize,
    seen: u64,
}

impl BackwardPages {
    fn before(seq: u64) -> Self {
        Self {
            before: seq,
            events: *PAGES.start(),
            read: 0,
            seen: 0,
        }
    }

    /// In the order of the log; `None` at its beginning.
    async fn next(
        &mut self,
        search: &ForkSearch<'_>,
    ) -> Result<Option<Vec<(u64, Event)>>, ForkSearchError> {
        let upto = self.before - 1;
        if upto == 0 {
            return Ok(None);
        }
        if self.read >= MAX_BYTES {
            return Err(ForkSearchError::Far { events: self.seen });
        }
        let from = upto.saturating_sub(self.events) + 1;
        let mut page: Vec<(u64, Event)> = Vec::new();
        let mut next = from;
        while next <= upto {
            let frames = search.store.read_between(&search.log, next, upto).await?;
            let Some(last) = frames.last() else {
                break;
            };
            // All that came, also before `from`: it has been read.
            let start = if page.is_empty() { 1 } else { next };
            let events = within(&frames, start, upto);
            page.extend(events.map(|(seq, event)| (seq, event.clone())));
            next = last.last() + 1;
        }
        let bytes: usize = page.iter().map(|(_, event)| event.size()).sum();
        self.events = if bytes < PAGE_BYTES {
            (self.events * 4).min(*PAGES.end())
        } else {
            (self.events / 4).max(*PAGES.start())
        };
        self.before = page.first().map_or(1, |(seq, _)| *seq);
        self.read += bytes;
        self.seen += page.len() as u64;
        Ok(Some(page))
    }
}

/// The condition that an update has to meet.
struct UpdateMatcher<'a> {
    field: &'static str,
    value: &'a str,
    /// Text that it must contain to be parsed. `None`: the value could be written in several ways.
    word: Option<Finder<'a>>,
}

impl<'a> UpdateMatcher<'a> {
    fn message(id: &'a str) -> Self {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:@/".contains(&byte);
        let is_plain = !id.is_empty() && id.bytes().all(plain);
        Self {
            field: "messageId",
            value: id,
            word: is_plain.then(|| Finder::new(id)),
        }
    }

    fn kind(kind: &'a str) -> Self {
        Self {
            field: update::KIND_FIELD,
            value: kind,
            word: Some(Finder::new(kind)),
        }
    }

    /// All that do not contain the word, which are nearly all, are not taken apart.
    fn sight(&self, event: &Event) -> EventMatch {
        let (Event::Update { message, .. } | Event::Echo { message, .. }) = event else {
            return EventMatch::Hidden;
        };
        let word = self.word.as_ref();
        let is_wanted = word.is_none_or(|word| word.find(message).is_some())
            && update_of(event).is_some_and(|update| update[self.field] == self.value);
        if is_wanted {
            EventMatch::Wanted
        } else {
            EventMatch::Other
        }
    }
}

fn update_of(event: &Event) -> Option<Value> {
    let (Event::Update { message, .. } | Event::Echo { message, .. }) = event else {
        return None;
    };
    update::read(message)
}

fn result_of(answer: &[u8]) -> Option<Value> {
    let answer = Envelope::read(answer).ok()?;
    serde_json::from_str(answer.result?.get()).ok()
}

fn note(view: &mut Map<String, Value>, what: ShownSetting, update: &Value) {
    match what {
        ShownSetting::Mode => {
            if let Some(Value::Object(modes)) = view.get_mut("modes") {
                modes.insert("currentModeId".into(), update["currentModeId"].clone());
            }
        }
        ShownSetting::Options => {
            view.insert("configOptions".into(), update["configOptions"].clone());
        }
    }
}

fn within(frames: &[Arc<Frame>], from: u64, upto: u64) -> impl Iterator<Item = (u64, &Event)> {
    let events = frames.iter().flat_map(|frame| frame.numbered());
    events.filter(move |(seq, _)| (from..=upto).contains(seq))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(kind: &str, id: &str) -> Event {
        let update = json!({ "sessionUpdate": kind, "messageId": id, "currentModeId": "ask" });
        Event::Update {
            turn: true,
            message: json!({ "params": { "update": update } }).to_string().into(),
        }
    }

    #[test]
    fn what_is_wanted_is_told_from_others() {
        let wanted = UpdateMatcher::message("m-1");
        let sights = [
            ("m-1", EventMatch::Wanted),
            ("m-2", EventMatch::Other),
            ("m-11", EventMatch::Other),
        ];
        for (id, sight) in sights {
            assert!(
                wanted.sight(&update("agent_message_chunk", id)) == sight,
                "{id}"
            );
        }
        let mode = UpdateMatcher::kind("current_mode_update");
        assert!(mode.sight(&update("current_mode_update", "x")) == EventMatch::Wanted);
        assert!(mode.sight(&update("x", "current_mode_update")) == EventMatch::Other);
        assert!(mode.sight(&Event::Closed) == EventMatch::Hidden);
        // It could be written as an escape.
        assert!(UpdateMatcher::message("ä").word.is_none());
        assert!(UpdateMatcher::message("ä").sight(&update("x", "ä")) == EventMatch::Wanted);
    }
}
