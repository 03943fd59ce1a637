//! The key ring: one or more JWK sets. The first key signs, all verify.

use super::jwk::{Jwk, KeySet, RingKey};

pub struct KeyRing {
    keys: Vec<RingKey>,
}

/// Everything that is wrong with a key set. Never quotes the file, it may hold secrets.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct KeyFaults(Vec<String>);

impl KeyRing {
    pub fn parse(text: &str) -> Result<Self, KeyFaults> {
        Self::merge(&[(String::new(), text.to_owned())])
    }

    /// Several sets as one, each with a name for what is wrong with it.
    pub(super) fn merge(sets: &[(String, String)]) -> Result<Self, KeyFaults> {
        let mut keys: Vec<RingKey> = Vec::new();
        let mut faults = Vec::new();
        for (name, text) in sets {
            let named = |fault: String| {
                if name.is_empty() {
                    fault
                } else {
                    format!("{name}: {fault}")
                }
            };
            let set = match serde_json::from_str::<KeySet>(text) {
                Ok(set) => set.keys,
                Err(error) => {
                    faults.push(named(not_a_set(&error)));
                    continue;
                }
            };
            for (at, jwk) in set.iter().enumerate() {
                let fault = match RingKey::from_jwk(jwk) {
                    Ok(key) if keys.iter().any(|other| other.id == key.id) => {
                        "another key has the same kid"
                    }
                    Ok(key) => {
                        keys.push(key);
                        continue;
                    }
                    Err(fault) => fault,
                };
                let kid: String = jwk.kid.chars().take(64).collect();
                faults.push(named(format!("key {} ({kid:?}): {fault}", at + 1)));
            }
        }
        if keys.is_empty() && faults.is_empty() {
            faults.push("there is no key in it. Make one with `baton token keygen`".into());
        }
        if faults.is_empty() {
            Ok(Self { keys })
        } else {
            Err(KeyFaults(faults))
        }
    }

    /// For `/.well-known/jwks.json`: whoever has it can verify tokens, and not sign any.
    pub fn public_jwks(&self) -> String {
        let keys = self.keys.iter().filter_map(|key| key.public.clone());
        let keys: Vec<Jwk> = keys.collect();
        serde_json::to_string(&KeySet { keys }).expect("plain strings encode")
    }

    pub(super) fn signing(&self) -> &RingKey {
        &self.keys[0]
    }

    /// A kid is compared, and never used for anything else.
    pub(super) fn find(&self, id: &str) -> Option<&RingKey> {
        self.keys.iter().find(|key| key.id == id)
    }
}

fn not_a_set(error: &serde_json::Error) -> String {
    let (said, place) = (error.to_string(), (error.line(), error.column()));
    // These name a field; others quote what they found.
    let safe = said.starts_with("missing field") || said.starts_with("duplicate field");
    let what = if safe {
        said
    } else {
        format!("line {}, column {}", place.0, place.1)
    };
    format!("not a JWK set ({what}). Make one with `baton token keygen`")
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::Algorithm;
    use serde_json::{Value, json};

    use super::*;
    use crate::token::generate;

    fn reason(text: &str) -> String {
        KeyRing::parse(text).err().expect("refused").to_string()
    }

    fn changed(algorithm: Algorithm, field: &str, value: Value) -> String {
        let mut set: Value = serde_json::from_str(&generate(algorithm)).unwrap();
        set["keys"][0][field] = value;
        set.to_string()
    }

    #[test]
    fn every_fault_is_named_and_no_secret() {
        let mut set: Value =
            serde_json::from_str(&changed(Algorithm::HS256, "k", json!("c2hvcnQ"))).unwrap();
        let twin: Value = serde_json::from_str(&generate(Algorithm::ES256)).unwrap();
        let twins = [twin["keys"][0].clone(), twin["keys"][0].clone()];
        set["keys"].as_array_mut().unwrap().extend(twins);
        let said = reason(&set.to_string());
        assert!(
            said.contains("key 1 (") && said.contains("shorter than 32 bytes"),
            "{said}"
        );
        assert!(
            said.contains("key 3 (") && said.contains("the same kid"),
            "{said}"
        );
        assert!(reason(r#"{"keys":[]}"#).contains("keygen"));
        assert!(reason(r#"{"keys":[{"kty":"oct"}]}"#).contains("missing field `kid`"));
        let said = reason(r#""hunter2""#);
        assert!(
            said.contains("keygen") && !said.contains("hunter2"),
            "{said}"
        );
    }

    #[test]
    fn a_kid_is_short_and_plain() {
        let taken = |kid: &str| KeyRing::parse(&changed(Algorithm::HS256, "kid", json!(kid)));
        assert!(taken("2026-11.a_B").is_ok() && taken(&"k".repeat(64)).is_ok());
        for kid in [
            "",
            "a b",
            "../../dev/null",
            "' OR 1=1",
            "é",
            "a\n",
            &"k".repeat(65),
        ] {
            assert!(taken(kid).is_err(), "{kid}");
        }
    }

    #[test]
    fn a_key_of_two_halves_is_refused() {
        for (algorithm, field) in [
            (Algorithm::EdDSA, "x"),
            (Algorithm::ES256, "x"),
            (Algorithm::ES256, "y"),
        ] {
            let other: Value = serde_json::from_str(&generate(algorithm)).unwrap();
            let said = reason(&changed(algorithm, field, other["keys"][0][field].clone()));
            assert!(said.contains("not that of d"), "{said}");
        }
    }

    #[test]
    fn only_what_cannot_sign_is_published() {
        let [secret, ed, ec] = [Algorithm::HS256, Algorithm::EdDSA, Algorithm::ES256].map(|alg| {
            let set: Value = serde_json::from_str(&generate(alg)).unwrap();
            set["keys"][0].clone()
        });
        let set = json!({ "keys": [&secret, &ed, &ec] }).to_string();
        let public = KeyRing::parse(&set).unwrap().public_jwks();
        let public: Value = serde_json::from_str(&public).unwrap();
        let expected = |key: &Value, fields: &[&str]| {
            let kept = fields
                .iter()
                .map(|field| ((*field).to_owned(), key[*field].clone()));
            Value::Object(kept.chain([("use".to_owned(), json!("sig"))]).collect())
        };
        assert_eq!(
            public["keys"],
            json!([
                expected(&ed, &["kty", "kid", "alg", "crv", "x"]),
                expected(&ec, &["kty", "kid", "alg", "crv", "x", "y"]),
            ])
        );
        let alone = KeyRing::parse(&json!({ "keys": [&secret] }).to_string()).unwrap();
        assert_eq!(alone.public_jwks(), r#"{"keys":[]}"#);
    }
}
