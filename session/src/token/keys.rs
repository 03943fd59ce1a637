//! The key ring: a JWK set as a file. The first key signs, all verify.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
use ed25519_dalek::SigningKey;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey};
use rand::RngExt as _;
use serde::{Deserialize, Serialize};

use crate::id::random_text;

pub struct KeyRing {
    keys: Vec<Key>,
}

pub(super) struct Key {
    pub id: String,
    pub algorithm: Algorithm,
    pub encoding: EncodingKey,
    pub decoding: DecodingKey,
}

#[derive(Debug, thiserror::Error)]
pub enum KeyFault {
    #[error("not a JWK set: {0}. Make one with `baton token keygen`")]
    NotAKeySet(#[from] serde_json::Error),
    #[error("the key set is empty. Make a key with `baton token keygen`")]
    Empty,
    #[error("key {0:?}: {1}")]
    Unusable(String, &'static str),
}

#[derive(Serialize, Deserialize)]
struct KeySet {
    keys: Vec<Jwk>,
}

#[derive(Serialize, Deserialize)]
struct Jwk {
    kty: String,
    kid: String,
    alg: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    k: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    crv: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    x: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    d: Option<String>,
}

/// Makes a key set with one new key, as text for a file.
pub fn generate(algorithm: Algorithm) -> String {
    let secret: [u8; 32] = rand::rng().random();
    let kid = random_text(8);
    let encoded = Some(BASE64URL.encode(secret));
    let key = if algorithm == Algorithm::EdDSA {
        let public = SigningKey::from_bytes(&secret).verifying_key();
        let (crv, x) = (
            Some("Ed25519".into()),
            Some(BASE64URL.encode(public.as_bytes())),
        );
        Jwk {
            kty: "OKP".into(),
            kid,
            alg: "EdDSA".into(),
            k: None,
            crv,
            x,
            d: encoded,
        }
    } else {
        Jwk {
            kty: "oct".into(),
            kid,
            alg: "HS256".into(),
            k: encoded,
            crv: None,
            x: None,
            d: None,
        }
    };
    serde_json::to_string_pretty(&KeySet { keys: vec![key] }).expect("plain strings encode")
}

impl KeyRing {
    pub fn parse(text: &str) -> Result<Self, KeyFault> {
        let set: KeySet = serde_json::from_str(text)?;
        let keys = set
            .keys
            .iter()
            .map(Key::from_jwk)
            .collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() {
            return Err(KeyFault::Empty);
        }
        for (at, key) in keys.iter().enumerate() {
            if keys[..at].iter().any(|other| other.id == key.id) {
                return Err(KeyFault::Unusable(
                    key.id.clone(),
                    "another key has the same kid",
                ));
            }
        }
        Ok(Self { keys })
    }

    pub(super) fn signing(&self) -> &Key {
        &self.keys[0]
    }

    pub(super) fn find(&self, id: &str) -> Option<&Key> {
        self.keys.iter().find(|key| key.id == id)
    }
}

impl Key {
    fn from_jwk(jwk: &Jwk) -> Result<Self, KeyFault> {
        let fault = |why| KeyFault::Unusable(jwk.kid.clone(), why);
        let secret = |value: &Option<String>, missing| {
            let value = value.as_deref().ok_or(fault(missing))?;
            BASE64URL
                .decode(value)
                .map_err(|_| fault("the secret is not base64url"))
        };
        let (algorithm, encoding, decoding) = match (jwk.kty.as_str(), jwk.alg.as_str()) {
            ("oct", "HS256") => {
                let secret = secret(&jwk.k, "an oct key needs the field k")?;
                if secret.len() < 32 {
                    return Err(fault("shorter than 32 bytes"));
                }
                if secret.iter().all(|byte| *byte == secret[0]) {
                    return Err(fault("not random"));
                }
                (
                    Algorithm::HS256,
                    EncodingKey::from_secret(&secret),
                    DecodingKey::from_secret(&secret),
                )
            }
            ("OKP", "EdDSA") => {
                let seed = secret(&jwk.d, "an OKP key needs the field d")?;
                let seed: [u8; 32] = seed.try_into().map_err(|_| fault("d is not 32 bytes"))?;
                let public = SigningKey::from_bytes(&seed).verifying_key();
                let decoding = DecodingKey::from_ed_der(public.as_bytes());
                (
                    Algorithm::EdDSA,
                    EncodingKey::from_ed_der(&pkcs8(&seed)),
                    decoding,
                )
            }
            _ => {
                return Err(fault(
                    "only oct with alg HS256 and OKP with alg EdDSA can be used",
                ));
            }
        };
        Ok(Self {
            id: jwk.kid.clone(),
            algorithm,
            encoding,
            decoding,
        })
    }
}

/// The fixed PKCS#8 wrapping of an Ed25519 seed (RFC 8410, section 7).
fn pkcs8(seed: &[u8; 32]) -> Vec<u8> {
    const PREFIX: [u8; 16] = [
        0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04,
        0x20,
    ];
    [&PREFIX[..], seed].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weak_and_malformed_keys_are_refused_with_a_reason() {
        let short = BASE64URL.encode([7u8; 31]);
        let constant = BASE64URL.encode([7u8; 32]);
        let key =
            |k: &str| format!(r#"{{"keys":[{{"kty":"oct","kid":"a","alg":"HS256","k":"{k}"}}]}}"#);
        let reason = |text: &str| KeyRing::parse(text).err().expect("refused").to_string();
        assert!(reason(&key(&short)).contains("shorter than 32 bytes"));
        assert!(reason(&key(&constant)).contains("not random"));
        assert!(reason(r#"{"keys":[]}"#).contains("keygen"));
        assert!(reason("secret").contains("keygen"));
    }
}
