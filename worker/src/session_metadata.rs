//! Session metadata in an agent's updates: title, usage, and bindings. Read from the updates of any
//! agent, and stored together with them.

use std::borrow::Cow;
use std::sync::LazyLock;

use baton_protocol::limits::{MAX_BOUND, MAX_TITLE, MAX_VALUE, cut_title};
use baton_protocol::{UpdateKind, meta, update};
use bytes::Bytes;
use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// Updates without any of these say nothing about the session.
static WORDS: LazyLock<[Finder<'static>; 3]> = LazyLock::new(|| {
    let words = [
        UpdateKind::SessionInfo.name(),
        UpdateKind::Usage.name(),
        meta::BIND,
    ];
    words.map(|word| Finder::new(&format!("\"{word}\"")).into_owned())
});

#[derive(Default)]
pub(crate) struct SessionMetadata {
    title: Option<String>,
    usage: Option<Bytes>,
    bound: Map<String, Value>,
    bound_changed: bool,
}

/// The metadata to store.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct MetadataChanges {
    pub title: Option<String>,
    pub usage: Option<Bytes>,
    pub bound: Option<Bytes>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SessionUpdate<'a> {
    #[serde(borrow)]
    session_update: Cow<'a, str>,
    /// Absent leaves the title as it is, `null` takes it away.
    #[serde(default, deserialize_with = "present")]
    title: Option<Value>,
    #[serde(borrow)]
    used: Option<&'a RawValue>,
    #[serde(borrow)]
    size: Option<&'a RawValue>,
    #[serde(borrow)]
    cost: Option<&'a RawValue>,
    #[serde(rename = "_meta")]
    meta: Option<UpdateMeta>,
}

#[derive(Deserialize)]
struct UpdateMeta {
    #[serde(rename = "baton/bind")]
    bind: Option<Map<String, Value>>,
}

impl SessionMetadata {
    /// `bound`: what was bound before, a JSON object or nothing.
    pub fn new(bound: &[u8]) -> Self {
        Self {
            bound: serde_json::from_slice(bound).unwrap_or_default(),
            ..Self::default()
        }
    }

    pub fn bound(&self) -> &Map<String, Value> {
        &self.bound
    }

    /// Nothing is bound any more.
    pub fn unbind(&mut self) {
        self.bound_changed |= !self.bound.is_empty();
        self.bound.clear();
    }

    /// Reads a `session/update`. Nearly all of them are chunks of text and not taken apart.
    pub fn read(&mut self, message: &[u8]) {
        if !WORDS.iter().any(|word| word.find(message).is_some()) {
            return;
        }
        let Some(update) = update::read::<SessionUpdate>(message) else {
            return;
        };
        match UpdateKind::of(&update.session_update) {
            UpdateKind::SessionInfo => match &update.title {
                Some(Value::String(title)) => self.title = Some(kept_title(title)),
                Some(Value::Null) => self.title = Some(String::new()),
                _ => {}
            },
            UpdateKind::Usage => self.usage = update.usage().filter(is_kept),
            _ => {}
        }
        let bind = update.meta.and_then(|meta| meta.bind).unwrap_or_default();
        if !self.can_bind(&bind) {
            return;
        }
        for (key, value) in bind {
            match value {
                Value::Null => self.bound.remove(&key),
                value => self.bound.insert(key, value),
            };
            self.bound_changed = true;
        }
    }

    fn can_bind(&self, more: &Map<String, Value>) -> bool {
        let length = |map: &Map<String, Value>| serde_json::to_string(map).map_or(0, |it| it.len());
        let fits = more.is_empty() || length(&self.bound) + length(more) <= MAX_BOUND;
        if !fits {
            let most = MAX_BOUND;
            tracing::warn!(most, "the agent's bindings are too long: not stored");
        }
        fits
    }

    pub fn take(&mut self) -> MetadataChanges {
        let bound = std::mem::take(&mut self.bound_changed);
        MetadataChanges {
            title: self.title.take(),
            usage: self.usage.take(),
            bound: bound.then(|| Value::Object(self.bound.clone()).to_string().into()),
        }
    }
}

impl SessionUpdate<'_> {
    /// As the agent wrote it, without the rest of the update.
    fn usage(&self) -> Option<Bytes> {
        let (used, size) = (self.used?.get(), self.size?.get());
        let cost = self.cost.map(|cost| format!(",\"cost\":{}", cost.get()));
        let cost = cost.unwrap_or_default();
        Some(format!("{{\"used\":{used},\"size\":{size}{cost}}}").into())
    }
}

/// Clients get all of it with the update; in lists there is its beginning.
fn kept_title(title: &str) -> String {
    let kept = cut_title(title);
    if kept.len() < title.len() {
        let (length, most) = (title.len(), MAX_TITLE);
        tracing::warn!(length, most, "truncated the session's title");
    }
    kept.to_owned()
}

fn is_kept(usage: &Bytes) -> bool {
    let (length, most) = (usage.len(), MAX_VALUE);
    if length > most {
        tracing::warn!(length, most, "the agent's usage is too long: not stored");
    }
    length <= most
}

fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

#[cfg(test)]
mod tests {
    use baton_protocol::compose;
    use serde_json::json;

    use super::*;

    fn noted(notes: &mut SessionMetadata, update: Value) -> MetadataChanges {
        notes.read(&compose::update("000-A", update));
        notes.take()
    }

    #[test]
    fn titles_and_usage_are_noted_once() {
        let mut notes = SessionMetadata::default();
        let update = json!({ "sessionUpdate": "session_info_update", "title": "A title" });
        assert_eq!(noted(&mut notes, update).title.as_deref(), Some("A title"));
        let other = json!({ "sessionUpdate": "session_info_update", "updatedAt": "x" });
        assert_eq!(noted(&mut notes, other), MetadataChanges::default());
        let away = json!({ "sessionUpdate": "session_info_update", "title": null });
        assert_eq!(noted(&mut notes, away).title.as_deref(), Some(""));
        let usage = json!({ "sessionUpdate": "usage_update", "used": 5, "size": 9, "cost": { "amount": 1.50 } });
        let usage = noted(&mut notes, usage).usage.unwrap();
        assert_eq!(usage, r#"{"used":5,"size":9,"cost":{"amount":1.5}}"#);
    }

    #[test]
    fn bindings_are_added_replaced_and_taken_away() {
        let mut notes = SessionMetadata::new(br#"{"kept":1,"old":2}"#);
        let bind = |bind: Value| json!({ "sessionUpdate": "tool_call_update", "_meta": { "baton/bind": bind } });
        let bound = noted(&mut notes, bind(json!({ "old": null, "sandbox": "vm-17" }))).bound;
        assert_eq!(bound.unwrap(), r#"{"kept":1,"sandbox":"vm-17"}"#);
        notes.unbind();
        assert_eq!(notes.take().bound.unwrap(), "{}");
    }

    #[test]
    fn what_an_agent_says_about_such_words_is_no_note() {
        let mut notes = SessionMetadata::default();
        let text = json!({
            "sessionUpdate": "agent_message_chunk",
            "content": { "type": "text", "text": "\"session_info_update\" title" },
        });
        assert_eq!(noted(&mut notes, text), MetadataChanges::default());
    }
}
