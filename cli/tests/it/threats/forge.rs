//! Tokens as good as the gateway's own but for what a test changes: whoever makes them has its key.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
use baton_session::id::{ConnectionId, Partition, SessionId};
use baton_session::token::{KeyRing, unverified};
use jsonwebtoken::{Algorithm, EncodingKey, crypto};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::auth::provider::now;
use crate::auth::{A, B, Guarded};

pub const CONNECTION: &str = "baton-connection+jwt";
pub const SESSION: &str = "baton-session+jwt";
pub const TICKET: &str = "baton-ticket+jwt";
pub const LOGIN: &str = "baton-login+jwt";
pub const PLACE: &str = "baton-place+jwt";

pub struct Forge {
    kid: String,
    key: EncodingKey,
    set: String,
}

impl Forge {
    pub fn of(guarded: &Guarded) -> Self {
        let set = fs::read_to_string(guarded.dir.path().join("data/keys.json"));
        Self::with(&set.expect("it keeps its key there"))
    }

    /// With the first key of a set, which has to be an HS256 one.
    pub fn with(set: &str) -> Self {
        let keys: Value = serde_json::from_str(set).expect("a key set");
        let key = &keys["keys"][0];
        let secret = BASE64URL.decode(key["k"].as_str().expect("a shared secret"));
        Self {
            kid: key["kid"].as_str().expect("a name").to_owned(),
            key: EncodingKey::from_secret(&secret.expect("base64url")),
            set: set.to_owned(),
        }
    }

    pub fn ring(&self) -> KeyRing {
        KeyRing::parse(&self.set).expect("a key set")
    }

    pub fn header(&self, kind: &str) -> Value {
        json!({ "typ": kind, "alg": "HS256", "kid": self.kid })
    }

    /// A good one, if the claims are.
    pub fn token(&self, kind: &str, claims: &Value) -> String {
        self.signed(&self.header(kind).to_string(), &claims.to_string())
    }

    /// Whatever header and claims.
    pub fn signed(&self, header: &str, claims: &str) -> String {
        self.signed_as(Algorithm::HS256, header, claims)
    }

    pub fn signed_as(&self, algorithm: Algorithm, header: &str, claims: &str) -> String {
        let message = message(header, claims);
        let signature = crypto::sign(message.as_bytes(), &self.key, algorithm);
        format!("{message}.{}", signature.expect("a shared secret signs"))
    }
}

/// What is signed.
pub fn message(header: &str, claims: &str) -> String {
    format!("{}.{}", BASE64URL.encode(header), BASE64URL.encode(claims))
}

/// Those of every kind together, so that nothing but `typ` tells one kind from another.
pub fn claims(principal: &str) -> Value {
    claims_at(principal, now())
}

pub fn claims_at(principal: &str, now: u64) -> Value {
    let key = if principal == "key:bob" { B } else { A };
    let hash = Sha256::digest(key);
    let source: String = hash[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    json!({
        "aud": "baton", "prn": principal, "iat": now, "exp": now + 3600,
        "cid": ConnectionId::mint(Partition(3)), "ver": 1, "cap": "",
        "sid": SessionId::mint(Partition(3)), "scp": "c", "fam": "abcdefgh", "gen": 0,
        "jti": format!("{:016x}", rand::random::<u64>()), "src": source,
    })
}

/// What a token says, true or not.
pub fn said(token: &str) -> Value {
    let [_, claims] = unverified(token).expect("a token");
    claims
}
