//! The fields of the params that a gateway reads, collected while the message is checked as a
//! whole.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::Span;
use super::strict::{self, MemberKey, StrictValue};
use crate::address::offset;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueShape {
    Null,
    Array,
    Object,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamField {
    SessionId,
    Meta,
    Cwd,
    McpServers,
    AdditionalDirectories,
    Cursor,
    RequestId,
    ModeId,
    ModelId,
    ConfigId,
    Value,
}

const FIELDS: usize = 11;

impl ParamField {
    const NAMES: [(&str, Self); FIELDS] = [
        ("sessionId", Self::SessionId),
        ("_meta", Self::Meta),
        ("cwd", Self::Cwd),
        ("mcpServers", Self::McpServers),
        ("additionalDirectories", Self::AdditionalDirectories),
        ("cursor", Self::Cursor),
        ("requestId", Self::RequestId),
        ("modeId", Self::ModeId),
        ("modelId", Self::ModelId),
        ("configId", Self::ConfigId),
        ("value", Self::Value),
    ];

    /// A setting is passed on to the agent; nothing is decided by it here.
    fn is_setting(self) -> bool {
        match self {
            Self::ModeId | Self::ModelId | Self::ConfigId | Self::Value => true,
            Self::SessionId
            | Self::Meta
            | Self::Cwd
            | Self::McpServers
            | Self::AdditionalDirectories
            | Self::Cursor
            | Self::RequestId => false,
        }
    }
}

#[derive(Default)]
pub struct CollectedFields {
    fields: [Option<Span>; FIELDS],
    /// The last of several.
    pub prompt: Option<ValueShape>,
    /// There are params, and they are no object.
    no_object: bool,
    /// A field that is read is there twice.
    repeated: bool,
    /// It is one of those that say what a message is about, and who sends it.
    ambiguous: bool,
}

impl CollectedFields {
    /// `None` also for `null`. The last of several.
    pub fn get(&self, field: ParamField) -> Option<Span> {
        self.fields[field as usize]
            .clone()
            .filter(|span| !span.is_empty())
    }

    pub fn are_plain(&self) -> bool {
        !self.no_object && !self.repeated
    }

    pub fn is_ambiguous(&self) -> bool {
        self.ambiguous
    }

    pub fn spans(&mut self) -> impl Iterator<Item = &mut Span> {
        self.fields.iter_mut().flatten()
    }

    fn note(&mut self, field: ParamField, span: Span) {
        let before = self.fields[field as usize].replace(span);
        if before.is_some() {
            self.repeated |= !field.is_setting() && field != ParamField::SessionId;
            self.ambiguous |= matches!(field, ParamField::SessionId | ParamField::Meta);
        }
    }

    fn note_prompt(&mut self, shape: ValueShape) {
        self.repeated |= self.prompt.replace(shape).is_some();
    }
}

/// Checks a message as a whole and collects what is wanted of its params.
pub fn collect(text: &str) -> serde_json::Result<CollectedFields> {
    let mut fields = CollectedFields::default();
    let mut read = serde_json::Deserializer::from_str(text);
    let collected = MessageReader {
        text,
        fields: &mut fields,
    }
    .deserialize(&mut read);
    match collected.and_then(|()| read.end()) {
        Ok(()) => Ok(fields),
        // A position inside of a field is not one in the message: this check finds it.
        Err(error) => Err(strict::check(text, 0).err().unwrap_or(error)),
    }
}

/// The object that is a message.
struct MessageReader<'a, 'f> {
    text: &'a str,
    fields: &'f mut CollectedFields,
}

/// The value of its `params`.
struct ParamsReader<'a, 'f> {
    text: &'a str,
    fields: &'f mut CollectedFields,
}

/// Arrays and objects around a field of the params.
const AROUND_FIELD: u8 = 2;

impl<'de> DeserializeSeed<'de> for MessageReader<'de, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for MessageReader<'de, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<(), A::Error> {
        while let Some(is_params) = members.next_key_seed(MemberKey(|key: &str| key == "params"))? {
            if is_params {
                let Self { text, fields } = &mut self;
                members.next_value_seed(ParamsReader { text, fields })?;
            } else {
                members.next_value_seed(StrictValue { depth: 1 })?;
            }
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for ParamsReader<'de, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl ParamsReader<'_, '_> {
    fn are_no_object<E>(self) -> Result<(), E> {
        self.fields.no_object = true;
        Ok(())
    }
}

impl<'de> Visitor<'de> for ParamsReader<'de, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("params")
    }

    /// As if there were none.
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        self.are_no_object()
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        self.are_no_object()
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        self.are_no_object()
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        self.are_no_object()
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        self.are_no_object()
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<(), A::Error> {
        StrictValue { depth: 1 }.visit_seq(items)?;
        self.are_no_object()
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key_seed(MemberKey(FieldName::of))? {
            let depth = AROUND_FIELD;
            match name {
                FieldName::Wanted(field) => {
                    let raw: &RawValue = members.next_value()?;
                    let shape = strict::check(raw.get(), depth).map_err(A::Error::custom)?;
                    let start = offset(self.text.as_bytes(), raw.get());
                    let length = if shape == ValueShape::Null {
                        0
                    } else {
                        raw.get().len()
                    };
                    self.fields.note(field, start..start + length);
                }
                // It may be large: its shape is all that is wanted.
                FieldName::Prompt => {
                    let shape = members.next_value_seed(StrictValue { depth })?;
                    self.fields.note_prompt(shape);
                }
                FieldName::Other => {
                    members.next_value_seed(StrictValue { depth })?;
                }
            }
        }
        Ok(())
    }
}

enum FieldName {
    Wanted(ParamField),
    Prompt,
    Other,
}

impl FieldName {
    fn of(name: &str) -> Self {
        let mut names = ParamField::NAMES.iter();
        match names.find(|(known, _)| *known == name) {
            Some((_, field)) => Self::Wanted(*field),
            None if name == "prompt" => Self::Prompt,
            None => Self::Other,
        }
    }
}
