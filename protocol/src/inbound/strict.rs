//! Whether everybody could read a message. Fields that nobody here asks for are passed over without
//! a close look, while those they are passed on to may look at all of it. So a message is taken
//! only if it can be read as a whole: no number beyond all bounds, no half of a character, not
//! nested without end, no key by which a library would take an object for something else.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor};

use super::params::ValueShape;
use crate::limits::MAX_NESTING;

/// Reads a value of which nothing is wanted but its shape. `depth` counts the arrays and objects
/// around it.
#[derive(Clone, Copy)]
pub struct StrictValue {
    pub depth: u8,
}

/// Checks a value that is `depth` levels inside of a message.
pub fn check(text: &str, depth: u8) -> serde_json::Result<ValueShape> {
    let mut read = serde_json::Deserializer::from_str(text);
    let shape = StrictValue { depth }.deserialize(&mut read)?;
    read.end()?;
    Ok(shape)
}

impl StrictValue {
    fn inside<E: Error>(self) -> Result<Self, E> {
        let depth = self.depth + 1;
        if depth > MAX_NESTING {
            return Err(E::custom("recursion limit exceeded"));
        }
        Ok(Self { depth })
    }
}

impl<'de> DeserializeSeed<'de> for StrictValue {
    type Value = ValueShape;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<ValueShape, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictValue {
    type Value = ValueShape;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<ValueShape, E> {
        Ok(ValueShape::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<ValueShape, E> {
        Ok(ValueShape::Other)
    }

    fn visit_i64<E>(self, _: i64) -> Result<ValueShape, E> {
        Ok(ValueShape::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<ValueShape, E> {
        Ok(ValueShape::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<ValueShape, E> {
        Ok(ValueShape::Other)
    }

    fn visit_str<E>(self, _: &str) -> Result<ValueShape, E> {
        Ok(ValueShape::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<ValueShape, A::Error> {
        let item = self.inside()?;
        while items.next_element_seed(item)?.is_some() {}
        Ok(ValueShape::Array)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<ValueShape, A::Error> {
        let value = self.inside()?;
        while members.next_key_seed(MemberKey(|_: &str| ()))?.is_some() {
            members.next_value_seed(value)?;
        }
        Ok(ValueShape::Object)
    }
}

/// serde_json takes an object that begins with such a key for the text in it: something that other
/// readers do not see there.
const PRIVATE: &str = "$serde_json::private::";

/// Reads a key, and makes of it what the caller wants.
pub struct MemberKey<F>(pub F);

impl<'de, T, F: FnOnce(&str) -> T> DeserializeSeed<'de> for MemberKey<F> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<T, D::Error> {
        from.deserialize_str(self)
    }
}

impl<T, F: FnOnce(&str) -> T> Visitor<'_> for MemberKey<F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key that means itself")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<T, E> {
        if key.starts_with(PRIVATE) {
            return Err(E::invalid_value(Unexpected::Str(PRIVATE), &self));
        }
        Ok((self.0)(key))
    }
}
