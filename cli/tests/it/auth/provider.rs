//! Tokens of an identity provider.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

use super::Guarded;
use crate::support::process::baton;

pub const ISSUER: &str = "https://issuer.example";

/// An Ed25519 key: its public half for the key set, and what signs.
pub struct Provider {
    pub public: Value,
    pub signing: EncodingKey,
}

impl Provider {
    pub fn new(kid: &str) -> Self {
        use base64::Engine as _;
        use base64::engine::general_purpose::URL_SAFE_NO_PAD;
        let made = baton().args(["token", "keygen", "--alg", "eddsa"]).output();
        let set: Value = serde_json::from_slice(&made.expect("baton runs").stdout).unwrap();
        let mut public = set["keys"][0].clone();
        let seed = URL_SAFE_NO_PAD
            .decode(public["d"].as_str().unwrap())
            .unwrap();
        public.as_object_mut().unwrap().remove("d");
        public["kid"] = json!(kid);
        // The fixed PKCS#8 wrapping of an Ed25519 seed (RFC 8410, section 7).
        let prefix = [48, 46, 2, 1, 0, 48, 5, 6, 3, 43, 101, 112, 4, 34, 4, 32];
        let der = [&prefix[..], &seed].concat();
        Self {
            public,
            signing: EncodingKey::from_ed_der(&der),
        }
    }

    /// Writes the key set that `arguments("jwks.json")` speaks of.
    pub fn publish(&self, dir: &Path) {
        let set = json!({ "keys": [self.public] }).to_string();
        fs::write(dir.join("jwks.json"), set).unwrap();
    }

    pub fn token(&self, kid: &str, claims: &Value) -> String {
        let mut header = Header::new(Algorithm::EdDSA);
        header.kid = Some(kid.into());
        encode(&header, claims, &self.signing).unwrap()
    }
}

pub fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

pub fn claims(subject: &str) -> Value {
    json!({ "iss": ISSUER, "aud": "baton", "sub": subject, "iat": now(), "exp": now() + 600 })
}

/// For `--auth jwt`, with the provider's key set in a file.
pub fn arguments(jwks: &str) -> [&str; 8] {
    [
        "--auth",
        "jwt",
        "--auth-issuer",
        ISSUER,
        "--auth-audience",
        "baton",
        "--auth-jwks",
        jwks,
    ]
}

pub async fn with_tokens(provider: &Provider) -> Guarded {
    with_tokens_and(provider, &[]).await
}

pub async fn with_tokens_and(provider: &Provider, more: &[&str]) -> Guarded {
    let arguments = [&arguments("jwks.json")[..], more].concat();
    Guarded::start(&arguments, |dir| provider.publish(dir)).await
}

#[tokio::test]
async fn a_token_of_the_provider_says_who_calls() {
    let provider = Provider::new("k1");
    let guarded = with_tokens(&provider).await;
    let alice = guarded.open(&provider.token("k1", &claims("alice"))).await;
    let session = alice.new_session().await;
    // The same person with a newer token.
    let mut newer = claims("alice");
    newer["exp"] = json!(now() + 700);
    let again = guarded.open(&provider.token("k1", &newer)).await;
    let listed = again.call(5, "session/list", json!({})).await;
    assert_eq!(listed["result"]["sessions"][0]["sessionId"], json!(session));
    // Another person, and the same subject by another client.
    let mut other_client = claims("alice");
    other_client["client_id"] = json!("other");
    for stranger in [claims("bob"), other_client] {
        let stranger = guarded.open(&provider.token("k1", &stranger)).await;
        let listed = stranger.call(5, "session/list", json!({})).await;
        assert_eq!(listed["result"]["sessions"], json!([]));
    }
}
