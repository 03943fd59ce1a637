//! A key as it is written in a file (RFC 7517), and what is made of it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
use ed25519_dalek::SigningKey;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey};
use p256::SecretKey;
use p256::elliptic_curve::sec1::ToEncodedPoint as _;
use p256::pkcs8::EncodePrivateKey as _;
use rand::RngExt as _;
use serde::{Deserialize, Serialize};

use super::weak::weakness;
use crate::id::random_text;

const SECRET_BYTES: usize = 32;
/// Short, since every token carries it.
const KID_CHARS: usize = 4;
const MAX_KID_CHARS: usize = 64;

#[derive(Serialize, Deserialize)]
pub(super) struct KeySet {
    pub keys: Vec<Jwk>,
}

#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct Jwk {
    pub kty: String,
    pub kid: String,
    pub alg: String,
    #[serde(rename = "use", skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub k: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crv: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub y: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub d: Option<String>,
}

/// Ready to sign and to verify.
pub(super) struct RingKey {
    pub id: String,
    pub algorithm: Algorithm,
    pub encoding: EncodingKey,
    pub decoding: DecodingKey,
    /// The public part; `None` if a key that verifies could also sign.
    pub public: Option<Jwk>,
}

/// Makes a key set with one new key, as text for a file.
pub fn generate(algorithm: Algorithm) -> String {
    let kid = random_text(KID_CHARS);
    let key = loop {
        let secret: [u8; SECRET_BYTES] = rand::rng().random();
        let written = Some(BASE64URL.encode(secret));
        match algorithm {
            Algorithm::EdDSA => {
                break Jwk {
                    d: written,
                    ..ed25519(&kid, &secret)
                };
            }
            // One in 2^32 is not a number below the curve's order.
            Algorithm::ES256 => match SecretKey::from_slice(&secret) {
                Ok(private) => {
                    break Jwk {
                        d: written,
                        ..p256(&kid, &private)
                    };
                }
                Err(_) => continue,
            },
            _ => break octets(kid, written),
        }
    };
    serde_json::to_string_pretty(&KeySet { keys: vec![key] }).expect("plain strings encode")
}

fn octets(kid: String, k: Option<String>) -> Jwk {
    Jwk {
        kty: "oct".into(),
        kid,
        alg: "HS256".into(),
        k,
        ..Jwk::default()
    }
}

/// The public part.
fn ed25519(kid: &str, seed: &[u8; SECRET_BYTES]) -> Jwk {
    let public = SigningKey::from_bytes(seed).verifying_key();
    Jwk {
        kty: "OKP".into(),
        kid: kid.into(),
        alg: "EdDSA".into(),
        purpose: Some("sig".into()),
        crv: Some("Ed25519".into()),
        x: Some(BASE64URL.encode(public.as_bytes())),
        ..Jwk::default()
    }
}

/// The public part.
fn p256(kid: &str, private: &SecretKey) -> Jwk {
    let point = private.public_key().to_encoded_point(false);
    Jwk {
        kty: "EC".into(),
        kid: kid.into(),
        alg: "ES256".into(),
        purpose: Some("sig".into()),
        crv: Some("P-256".into()),
        x: point.x().map(|x| BASE64URL.encode(x)),
        y: point.y().map(|y| BASE64URL.encode(y)),
        ..Jwk::default()
    }
}

impl RingKey {
    pub fn from_jwk(jwk: &Jwk) -> Result<Self, &'static str> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if !(1..=MAX_KID_CHARS).contains(&jwk.kid.len()) || !jwk.kid.bytes().all(plain) {
            return Err("a kid has 1 to 64 letters, digits, dots, underscores or dashes");
        }
        let curve = jwk.crv.as_deref().unwrap_or_default();
        match (jwk.kty.as_str(), jwk.alg.as_str(), curve) {
            ("oct", "HS256", "") => Self::hs256(jwk),
            ("OKP", "EdDSA", "Ed25519") => Self::eddsa(jwk),
            ("EC", "ES256", "P-256") => Self::es256(jwk),
            _ => Err(
                "only oct with HS256, OKP with EdDSA on Ed25519 and EC with ES256 on P-256 can be \
                 used",
            ),
        }
    }

    fn hs256(jwk: &Jwk) -> Result<Self, &'static str> {
        let secret = secret(&jwk.k, "an oct key needs the field k")?;
        Ok(Self {
            id: jwk.kid.clone(),
            algorithm: Algorithm::HS256,
            encoding: EncodingKey::from_secret(&secret),
            decoding: DecodingKey::from_secret(&secret),
            public: None,
        })
    }

    fn eddsa(jwk: &Jwk) -> Result<Self, &'static str> {
        let seed = secret(&jwk.d, "an OKP key that signs needs the field d")?;
        let seed = seed.try_into().map_err(|_| "d is not 32 bytes")?;
        let public = ed25519(&jwk.kid, &seed);
        let x = belongs(&public.x, &jwk.x)?;
        Ok(Self {
            id: jwk.kid.clone(),
            algorithm: Algorithm::EdDSA,
            encoding: EncodingKey::from_ed_der(&pkcs8(&seed)),
            decoding: DecodingKey::from_ed_components(x).map_err(|_| "x cannot be used")?,
            public: Some(public),
        })
    }

    fn es256(jwk: &Jwk) -> Result<Self, &'static str> {
        let number = secret(&jwk.d, "an EC key that signs needs the field d")?;
        let private = SecretKey::from_slice(&number).map_err(|_| "d is not on the curve")?;
        let der = private.to_pkcs8_der().map_err(|_| "d cannot be used")?;
        let public = p256(&jwk.kid, &private);
        let x = belongs(&public.x, &jwk.x)?;
        let y = belongs(&public.y, &jwk.y)?;
        Ok(Self {
            id: jwk.kid.clone(),
            algorithm: Algorithm::ES256,
            encoding: EncodingKey::from_ec_der(der.as_bytes()),
            decoding: DecodingKey::from_ec_components(x, y).map_err(|_| "x, y cannot be used")?,
            public: Some(public),
        })
    }
}

/// A file that contradicts itself was put together from two keys.
fn belongs<'a>(
    computed: &'a Option<String>,
    written: &Option<String>,
) -> Result<&'a str, &'static str> {
    if written.is_none() || written == computed {
        Ok(computed.as_deref().unwrap_or_default())
    } else {
        Err("x or y is not that of d")
    }
}

fn secret(value: &Option<String>, missing: &'static str) -> Result<Vec<u8>, &'static str> {
    let written = value.as_deref().ok_or(missing)?;
    let secret = BASE64URL.decode(written);
    let secret = secret.map_err(|_| "the secret is not base64url without padding")?;
    if secret.len() < SECRET_BYTES {
        return Err("shorter than 32 bytes");
    }
    match weakness(&secret, written) {
        Some(why) => Err(why),
        None => Ok(secret),
    }
}

/// The fixed PKCS#8 wrapping of an Ed25519 seed (RFC 8410, section 7).
fn pkcs8(seed: &[u8; SECRET_BYTES]) -> Vec<u8> {
    const PREFIX: [u8; 16] = [
        0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04,
        0x20,
    ];
    [&PREFIX[..], seed].concat()
}
