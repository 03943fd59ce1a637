//! Whether everybody could read a message. What nobody here asks for is passed over without a close look,
//! while those it is passed on to may look at all of it. So it is taken only if it can be read as a whole:
//! no number beyond all bounds, no half of a character, not nested without end, no key by which a library
//! would take an object for something else.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor};

pub fn check(text: &str) -> serde_json::Result<()> {
    serde_json::from_str::<Readable>(text).map(|_| ())
}

struct Readable;

impl<'de> Deserialize<'de> for Readable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Readable {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self, A::Error> {
        while members.next_entry::<Key, Self>()?.is_some() {}
        Ok(self)
    }
}

/// serde_json takes an object that begins with such a key for what it has in a string: something that
/// other readers do not see there.
const PRIVATE: &str = "$serde_json::private::";

struct Key;

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Self)
    }
}

impl Visitor<'_> for Key {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key that means itself")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self, E> {
        match key.starts_with(PRIVATE) {
            true => Err(E::invalid_value(Unexpected::Str(PRIVATE), &self)),
            false => Ok(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::dispatch::parse;

    fn is_taken(value: &str) -> bool {
        let inside = [
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"_meta":{value}}}}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","unheard-of":[{value}]}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":1,"result":{value}}}"#),
        ];
        let taken = inside.map(|message| parse(message.as_bytes()).is_ok());
        assert!(taken.iter().all(|one| *one == taken[0]), "{value}");
        taken[0]
    }

    fn nested(depth: usize) -> String {
        format!("{}{}", "[".repeat(depth), "]".repeat(depth))
    }

    #[test]
    fn what_some_could_not_read_is_refused_wherever_it_is() {
        for good in [
            "1e308",
            "-0.0",
            "123456789012345678901234567890",
            r#"{"\u00e9":"\ud83c\udfad"}"#,
            r#"{"$serde_json":"$serde_json::private::RawValue"}"#,
            &nested(100),
        ] {
            assert!(is_taken(good), "{good}");
        }
        for bad in [
            "1e999",
            "[-1E+400]",
            r#""\ud83c""#,
            r#"{"\udfad":1}"#,
            r#"{"$serde_json::private::RawValue":"[1]"}"#,
            r#"{"a":1,"\u0024serde_json::private::Number":"7"}"#,
            r#""\ud83cx""#,
            &nested(200),
        ] {
            assert!(!is_taken(bad), "{bad}");
        }
    }
}
