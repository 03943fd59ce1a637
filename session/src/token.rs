//! Tokens: signed names. A token says which connection or session a request belongs to; it is not a
//! credential by itself once callers authenticate. Two kinds stand for a credential that was shown
//! before, where callers cannot show it themselves: tickets, once, and logins, in a cookie.
//!
//! All of them are JWTs in the same form. `typ` says which kind it is, so that none passes for
//! another; `kid` names a key of the ring, and the key knows its algorithm.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
use jsonwebtoken::crypto::verify;
use jsonwebtoken::{Algorithm, Header, encode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::connection::{CONNECTION_LIFETIME, ConnectionToken};
pub use self::jwk::generate;
pub use self::keys::SigningKeys;
pub use self::login::{LOGIN_LIFETIME, LoginToken};
pub use self::login_attempt::{ATTEMPT_LIFETIME, LoginAttempt};
pub use self::refusal::TokenRefusal;
pub use self::ring::{KeyFaults, KeyRing};
pub use self::session::{SESSION_LIFETIME, SessionGrant, TokenScope};
pub use self::ticket::{TICKET_LIFETIME, Ticket};
use crate::clock::unix_seconds;
use crate::secret::Secret;

mod archive;
pub mod carriers;
mod connection;
mod jwk;
mod keys;
mod list_position;
mod login;
mod login_attempt;
mod refusal;
mod ring;
mod session;
#[cfg(test)]
mod threats;
mod ticket;
mod weak;

/// Longer tokens are refused before anything is decoded.
pub const MAX_TOKEN_BYTES: usize = 1024;
/// Principals are at most so long, so that every token with the usual claims fits 400 bytes,
/// however often it was renewed.
pub const MAX_PRINCIPAL: usize = 48;
/// How far ahead the clock of another replica may be, in seconds.
pub const MAX_SKEW: u64 = 60;

const AUDIENCE: &str = "baton";

/// The fields of our headers. Anything else (`jku`, `x5u`, `jwk`, `crit` …) is refused, so that
/// there is nothing to follow.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenHeader {
    typ: String,
    alg: Algorithm,
    kid: String,
}

/// The claims of every token. A time is a whole number of seconds since 1970, and nothing else is
/// taken for one.
#[derive(Serialize, Deserialize)]
struct TimedClaims<T> {
    aud: String,
    #[serde(flatten)]
    claims: T,
    iat: u64,
    exp: u64,
    /// Never written; heeded all the same.
    #[serde(default, skip_serializing)]
    nbf: Option<u64>,
}

impl KeyRing {
    fn sign(&self, kind: &str, claims: impl Serialize, issued: u64, expires: u64) -> Secret {
        let key = self.signing();
        let mut header = Header::new(key.algorithm);
        header.typ = Some(kind.into());
        header.kid = Some(key.id.clone());
        let claims = TimedClaims {
            aud: AUDIENCE.into(),
            claims,
            iat: issued,
            exp: expires,
            nbf: None,
        };
        let token = encode(&header, &claims, &key.encoding);
        token.expect("our own claims and key always encode").into()
    }

    /// The signature is checked before any claim is looked at, by the library: HMACs are compared
    /// in constant time (`verify_slice`), the others have nothing secret to compare with. The rest
    /// is done here, since the library reads header and claims several times each.
    ///
    /// Base64 is taken in its one canonical form, so bytes of a token cannot be exchanged. Still,
    /// an ECDSA signature has a twin that is as good. Identify tokens by what they say, never by
    /// their bytes.
    fn verify<T: DeserializeOwned>(
        &self,
        kind: &str,
        token: &str,
        now: u64,
    ) -> Result<TimedClaims<T>, TokenRefusal> {
        let [head, claims, signature] = parts(token)?;
        let message = &token[..head.len() + 1 + claims.len()];
        let head: TokenHeader = decode(head)?;
        if head.typ != kind {
            return Err(TokenRefusal::Kind);
        }
        let key = self.find(&head.kid).ok_or(TokenRefusal::Key)?;
        if head.alg != key.algorithm {
            return Err(TokenRefusal::Algorithm);
        }
        let signed = verify(signature, message.as_bytes(), &key.decoding, key.algorithm);
        if !signed.unwrap_or(false) {
            return Err(TokenRefusal::Signature);
        }
        let timed: TimedClaims<T> = decode(claims)?;
        if timed.aud != AUDIENCE {
            return Err(TokenRefusal::Audience);
        }
        let nbf = timed.nbf.unwrap_or(0);
        if timed.exp <= now {
            return Err(TokenRefusal::Expired);
        }
        if timed.iat.max(nbf) > now.saturating_add(MAX_SKEW) {
            return Err(TokenRefusal::Early);
        }
        Ok(timed)
    }

    /// Returns the kind of a valid token.
    pub fn verify_any(&self, token: &str) -> Result<&'static str, TokenRefusal> {
        let [head, ..] = parts(token)?;
        let kind = decode::<TokenHeader>(head)?.typ;
        match kind.as_str() {
            connection::TYPE => self.verify_connection(token).map(|_| "connection"),
            session::TYPE => self.verify_session(token).map(|_| "session"),
            ticket::TYPE => self.verify_ticket(token).map(|_| "ticket"),
            login::TYPE => self.verify_login(token).map(|_| "login"),
            login_attempt::TYPE => self.verify_attempt(token).map(|_| "login attempt"),
            list_position::TYPE => self
                .verify_any_list_position(token)
                .map(|()| "place in a list"),
            archive::HEAD | archive::END => self
                .check_any_seal(&kind, token)
                .map(|()| "seal of an archive"),
            _ => Err(TokenRefusal::Kind),
        }
    }
}

/// Header and claims as they are written, for people to read. Says nothing about who wrote them.
pub fn unverified(token: &str) -> Result<[Value; 2], TokenRefusal> {
    let part = |text: Option<&str>| {
        let json = BASE64URL.decode(text?).ok()?;
        serde_json::from_slice::<Value>(&json).ok()
    };
    let mut parts = token.split('.');
    match (part(parts.next()), part(parts.next()), parts.count()) {
        (Some(header), Some(claims), 1) => Ok([header, claims]),
        _ => Err(TokenRefusal::Malformed),
    }
}

fn parts(token: &str) -> Result<[&str; 3], TokenRefusal> {
    if token.len() > MAX_TOKEN_BYTES {
        return Err(TokenRefusal::TooLong);
    }
    let mut parts = token.split('.');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(head), Some(claims), Some(signature), None) => Ok([head, claims, signature]),
        _ => Err(TokenRefusal::Malformed),
    }
}

fn decode<T: DeserializeOwned>(part: &str) -> Result<T, TokenRefusal> {
    let json = BASE64URL.decode(part).ok();
    let read = json.and_then(|json| serde_json::from_slice(&json).ok());
    read.ok_or(TokenRefusal::Malformed)
}
