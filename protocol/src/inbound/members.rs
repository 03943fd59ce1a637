//! The members of `_meta`, in the order in which they were written, also those that are there
//! twice.

use std::borrow::Cow;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{Ambiguous, Span};
use crate::address::offset;
use crate::compose;

#[derive(Default)]
pub struct MetaMembers {
    members: Vec<(Box<str>, Span)>,
    pub is_object: bool,
}

impl MetaMembers {
    /// None, if it is no object.
    pub fn read(text: &str, meta: Span) -> Self {
        let Ok(ObjectMembers(members)) = serde_json::from_str(&text[meta]) else {
            return Self::default();
        };
        let members = members.into_iter().map(|(name, value)| {
            let start = offset(text.as_bytes(), value.get());
            (name.into(), start..start + value.get().len())
        });
        Self {
            members: members.collect(),
            is_object: true,
        }
    }

    pub fn find(&self, wanted: &str) -> Result<Option<Span>, Ambiguous> {
        let found = self.members.iter().filter(|(name, _)| **name == *wanted);
        only(found.map(|(_, span)| span.clone()))
    }

    /// The object without these members. `text` is the message.
    pub fn without(&self, unwanted: &str, text: &str) -> String {
        let others = self.members.iter().filter(|(name, _)| **name != *unwanted);
        let others = others.map(|(name, value)| {
            let name = compose::text(name);
            format!("{name}:{}", &text[value.clone()])
        });
        format!("{{{}}}", others.collect::<Vec<_>>().join(","))
    }
}

/// The token in the value of `baton/session`, if it is there and a string.
pub fn token(session: &str) -> Result<Option<String>, Ambiguous> {
    let Ok(ObjectMembers(members)) = serde_json::from_str(session) else {
        return Ok(None);
    };
    let tokens = members.iter().filter(|(name, _)| name == "token");
    let token = only(tokens.map(|(_, value)| value.get()))?;
    Ok(token.and_then(|token| serde_json::from_str(token).ok()))
}

fn only<T>(mut found: impl Iterator<Item = T>) -> Result<Option<T>, Ambiguous> {
    let first = found.next();
    match found.next() {
        None => Ok(first),
        Some(_) => Err(Ambiguous),
    }
}

struct ObjectMembers<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

/// Borrowed unless something in it is escaped.
#[derive(Deserialize)]
struct MemberName<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Deserialize<'de> for ObjectMembers<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(InOrder)
    }
}

struct InOrder;

impl<'de> Visitor<'de> for InOrder {
    type Value = ObjectMembers<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(name) = map.next_key::<MemberName>()? {
            members.push((name.0, map.next_value()?));
        }
        Ok(ObjectMembers(members))
    }
}
