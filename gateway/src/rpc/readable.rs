//! Whether everybody could read a message. What nobody here asks for is passed over without a close look,
//! while those it is passed on to may look at all of it. So it is taken only if it can be read as a whole:
//! no number beyond all bounds, no half of a character, not nested without end.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

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
        while members.next_entry::<Self, Self>()?.is_some() {}
        Ok(self)
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
            &nested(100),
        ] {
            assert!(is_taken(good), "{good}");
        }
        for bad in [
            "1e999",
            "[-1E+400]",
            r#""\ud83c""#,
            r#"{"\udfad":1}"#,
            r#""\ud83cx""#,
            &nested(200),
        ] {
            assert!(!is_taken(bad), "{bad}");
        }
    }
}
