//! The session token in a message's `_meta`. It is between the client and the gateways: what is kept
//! and what the agent sees goes without it.

use std::borrow::Cow;
use std::fmt;

use baton_session::secret::Secret;
use baton_session::token::carriers;
use bytes::Bytes;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::Envelope;
use crate::error::Reject;

pub struct Carried {
    pub token: Secret,
    /// The message without it, and every other byte as it came.
    pub message: Bytes,
}

const TWICE: Reject = Reject::NotAMessage(
    "params has sessionId, _meta, or the session token in it twice: which one counts is nobody's guess",
);

/// `params._meta["baton/session"].token`, if it is there and a string. `bytes` is what the envelope was
/// read from.
pub fn carried(envelope: &Envelope<'_>, bytes: &Bytes) -> Result<Option<Carried>, Reject> {
    let Some(meta) = envelope.about().map_err(|_| TWICE)?.meta else {
        return Ok(None);
    };
    let members = Members::read(meta);
    let Some(session) = members.one(carriers::META)? else {
        return Ok(None);
    };
    let token = Members::read(session).one("token")?;
    let token = token.and_then(|token| serde_json::from_str::<String>(token.get()).ok());
    Ok(token.map(|token| Carried {
        token: token.into(),
        message: replace(bytes, meta.get(), &members.without(carriers::META)),
    }))
}

/// `part` is a slice of `whole`.
fn replace(whole: &Bytes, part: &str, with: &str) -> Bytes {
    let from = part.as_ptr() as usize - whole.as_ptr() as usize;
    let (before, after) = (&whole[..from], &whole[from + part.len()..]);
    [before, with.as_bytes(), after].concat().into()
}

/// An object as it is written: in order, with what comes twice.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Members<'a> {
    /// None, if it is no object.
    fn read(value: &'a RawValue) -> Self {
        serde_json::from_str(value.get()).unwrap_or(Self(Vec::new()))
    }

    fn one(&self, wanted: &str) -> Result<Option<&'a RawValue>, Reject> {
        let mut found = self.0.iter().filter(|(name, _)| name == wanted);
        let first = found.next().map(|(_, value)| *value);
        match found.next() {
            None => Ok(first),
            Some(_) => Err(TWICE),
        }
    }

    fn without(&self, unwanted: &str) -> String {
        let others = self.0.iter().filter(|(name, _)| name != unwanted);
        let others = others.map(|(name, value)| {
            let name = serde_json::to_string(name).expect("plain strings encode");
            format!("{name}:{}", value.get())
        });
        format!("{{{}}}", others.collect::<Vec<_>>().join(","))
    }
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(name) = map.next_key::<Name>()? {
                    members.push((name.0, map.next_value()?));
                }
                Ok(Members(members))
            }
        }
        from.deserialize_map(InOrder)
    }
}

/// Borrowed unless something in it is escaped.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(String, String)> {
        let bytes = Bytes::copy_from_slice(text.as_bytes());
        let envelope: Envelope = serde_json::from_slice(&bytes).unwrap();
        let Ok(carried) = carried(&envelope, &bytes) else {
            panic!("refused {text}");
        };
        let carried = carried?;
        let message = String::from_utf8(carried.message.to_vec()).unwrap();
        Some((carried.token.expose().into(), message))
    }

    #[test]
    fn row_24_the_token_is_taken_out_and_nothing_else() {
        for (meta, rest) in [
            (r#"{"baton/session":{"token":"t"}}"#, "{}"),
            (
                r#"{ "b" : [1, 2],"baton/session":{"gen":1,"token":"t"}, "a":{"x" : null}}"#,
                r#"{"b":[1, 2],"a":{"x" : null}}"#,
            ),
            (
                r#"{"baton\/session":{"token":"t"},"\u00e9":1}"#,
                r#"{"é":1}"#,
            ),
        ] {
            let message = |meta: &str| {
                format!(
                    r#"{{"jsonrpc":"2.0", "id": 1,"params":{{"_meta": {meta} , "x":"_meta"}},"method":"m"}}"#
                )
            };
            assert_eq!(read(&message(meta)), Some(("t".into(), message(rest))));
        }
    }

    #[test]
    fn what_carries_none_stays_as_it_is() {
        for params in [
            "[]",
            "{}",
            r#"{"_meta":null}"#,
            r#"{"_meta":{"traceparent":"00"}}"#,
            r#"{"_meta":{"baton/session":null}}"#,
            r#"{"_meta":{"baton/session":{"token":7}}}"#,
            r#"{"x":{"_meta":{"baton/session":{"token":"t"}}}}"#,
        ] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":1,"params":{params},"method":"m"}}"#);
            assert_eq!(read(&text), None, "{params}");
        }
    }

    #[test]
    fn two_of_them_are_refused() {
        for text in [
            r#"{"params":{"_meta":{"baton/session":{"token":"a"},"baton/session":{"token":"b"}}}}"#,
            r#"{"params":{"_meta":{"baton/session":null,"baton/session":{"token":"b"}}}}"#,
            r#"{"params":{"_meta":{"baton/session":{"token":"a","token":"b"}}}}"#,
            r#"{"params":{"_meta":{},"_meta":{"baton/session":{"token":"b"}}}}"#,
            r#"{"params":{"sessionId":"a","sessionId":"b","_meta":{}}}"#,
        ] {
            let bytes = Bytes::from_static(text.as_bytes());
            let envelope: Envelope = serde_json::from_slice(&bytes).unwrap();
            assert!(carried(&envelope, &bytes).is_err(), "{text}");
        }
    }
}
