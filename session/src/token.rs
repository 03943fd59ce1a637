//! Tokens: signed names. A token says which connection a request belongs to; it is not
//! a credential by itself once callers authenticate.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jsonwebtoken::{Algorithm, Header, Validation, decode, decode_header, encode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use self::keys::{KeyFault, KeyRing, generate};
use crate::command::ClientCapabilities;
use crate::id::ConnectionId;

mod keys;
mod place;

/// Longer tokens are refused before anything is decoded.
pub const MAX_TOKEN_BYTES: usize = 1024;
pub const CONNECTION_LIFETIME: Duration = Duration::from_secs(24 * 3600);

const CONNECTION_TYPE: &str = "baton-connection+jwt";
const AUDIENCE: &str = "baton";

/// What a verified connection token says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    pub id: ConnectionId,
    pub principal: String,
    pub protocol_version: u16,
    pub client: ClientCapabilities,
    /// In seconds since 1970; when it is signed, 0 stands for now.
    pub issued: u64,
    /// In seconds since 1970; what was signed decides.
    pub expires: u64,
}

/// One answer for everything that is wrong with a token; which it was is for the log only.
#[derive(Debug, thiserror::Error)]
#[error("not a valid token: {0}")]
pub struct Refused(String);

#[derive(Serialize, Deserialize)]
struct Claims {
    aud: String,
    cid: ConnectionId,
    prn: String,
    ver: u16,
    cap: String,
    iat: u64,
    exp: u64,
}

impl KeyRing {
    pub fn sign_connection(&self, connection: &Connection, lifetime: Duration) -> String {
        let now = unix_seconds();
        let claims = Claims {
            aud: AUDIENCE.into(),
            cid: connection.id.clone(),
            prn: connection.principal.clone(),
            ver: connection.protocol_version,
            cap: connection.client.letters(),
            iat: match connection.issued {
                0 => now,
                issued => issued,
            },
            exp: now + lifetime.as_secs(),
        };
        self.sign(CONNECTION_TYPE, &claims)
    }

    pub fn verify_connection(&self, token: &str) -> Result<Connection, Refused> {
        let claims: Claims = self.verify(CONNECTION_TYPE, token)?;
        check_time(claims.iat, claims.exp)?;
        Ok(Connection {
            id: claims.cid,
            principal: claims.prn,
            protocol_version: claims.ver,
            client: ClientCapabilities::from_letters(&claims.cap),
            issued: claims.iat,
            expires: claims.exp,
        })
    }
}

impl KeyRing {
    fn sign(&self, kind: &str, claims: &impl Serialize) -> String {
        let key = self.signing();
        let mut header = Header::new(key.algorithm);
        header.typ = Some(kind.into());
        header.kid = Some(key.id.clone());
        encode(&header, claims, &key.encoding).expect("our own claims and key always encode")
    }

    fn verify<T: DeserializeOwned>(&self, kind: &str, token: &str) -> Result<T, Refused> {
        let refused = |why: &str| Refused(why.to_owned());
        if token.len() > MAX_TOKEN_BYTES {
            return Err(refused("too long"));
        }
        let header = decode_header(token).map_err(|e| refused(&e.to_string()))?;
        if header.typ.as_deref() != Some(kind) {
            return Err(refused("another kind of token"));
        }
        let key = header
            .kid
            .as_deref()
            .and_then(|id| self.find(id))
            .ok_or(refused("unknown key"))?;
        let decoded = decode::<T>(token, &key.decoding, &rules(key.algorithm));
        Ok(decoded.map_err(|e| refused(&e.to_string()))?.claims)
    }
}

fn check_time(issued: u64, expires: u64) -> Result<(), Refused> {
    let now = unix_seconds();
    match expires <= now || issued > now + 60 {
        true => Err(Refused("not valid at this time".into())),
        false => Ok(()),
    }
}

/// The algorithm is the key's, never the token's.
fn rules(algorithm: Algorithm) -> Validation {
    let mut rules = Validation::new(algorithm);
    rules.leeway = 0;
    rules.set_audience(&[AUDIENCE]);
    rules.set_required_spec_claims(&["exp", "aud"]);
    rules
}

fn unix_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Partition;

    fn connection() -> Connection {
        Connection {
            id: ConnectionId::mint(Partition(3)),
            principal: "anonymous".into(),
            protocol_version: 1,
            client: ClientCapabilities {
                terminal: true,
                ..Default::default()
            },
            issued: 0,
            expires: 0,
        }
    }

    #[test]
    fn a_token_is_small_and_says_what_was_signed() {
        for algorithm in [Algorithm::HS256, Algorithm::EdDSA] {
            let ring = KeyRing::parse(&generate(algorithm)).unwrap();
            let token = ring.sign_connection(&connection(), CONNECTION_LIFETIME);
            assert!(token.len() <= 400, "{} bytes", token.len());
            let read = ring.verify_connection(&token).unwrap();
            assert_eq!((read.protocol_version, read.client.terminal), (1, true));
        }
    }

    #[test]
    fn no_byte_can_be_changed() {
        let ring = KeyRing::parse(&generate(Algorithm::HS256)).unwrap();
        let token = ring.sign_connection(&connection(), CONNECTION_LIFETIME);
        for at in 0..token.len() {
            let mut forged = token.clone().into_bytes();
            forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
            let forged = String::from_utf8(forged).unwrap();
            assert!(
                ring.verify_connection(&forged).is_err(),
                "byte {at} of {}",
                token.len()
            );
        }
    }

    #[test]
    fn expired_foreign_and_oversized_tokens_are_refused() {
        let ring = KeyRing::parse(&generate(Algorithm::HS256)).unwrap();
        let other = KeyRing::parse(&generate(Algorithm::HS256)).unwrap();
        let expired = ring.sign_connection(&connection(), Duration::ZERO);
        assert!(ring.verify_connection(&expired).is_err());
        let foreign = other.sign_connection(&connection(), CONNECTION_LIFETIME);
        assert!(ring.verify_connection(&foreign).is_err());
        assert!(
            ring.verify_connection(&"a".repeat(MAX_TOKEN_BYTES + 1))
                .is_err()
        );
    }

    #[test]
    fn a_ring_verifies_with_every_key_and_signs_with_the_first() {
        let (old, new) = (generate(Algorithm::HS256), generate(Algorithm::EdDSA));
        let keys = |files: &[&str]| {
            let all = files.iter().flat_map(|file| {
                let set: serde_json::Value = serde_json::from_str(file).unwrap();
                set["keys"].as_array().unwrap().clone()
            });
            KeyRing::parse(&serde_json::json!({ "keys": all.collect::<Vec<_>>() }).to_string())
                .unwrap()
        };
        let before = keys(&[&old, &new]).sign_connection(&connection(), CONNECTION_LIFETIME);
        let during = keys(&[&new, &old]);
        assert!(during.verify_connection(&before).is_ok());
        assert!(keys(&[&new]).verify_connection(&before).is_err());
    }
}
