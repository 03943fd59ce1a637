//! Tokens of an identity provider.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::{Guarded, told};
use crate::support::Stream;
use crate::support::process::baton;

const ISSUER: &str = "https://issuer.example";

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
    let set = json!({ "keys": [provider.public] }).to_string();
    Guarded::start(&arguments, |dir| {
        fs::write(dir.join("jwks.json"), set).unwrap()
    })
    .await
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

#[tokio::test]
async fn rows_8_to_10_tokens_that_are_wrong_in_any_way_are_refused_alike() {
    let provider = Provider::new("k1");
    let guarded = with_tokens(&provider).await;
    let nothing = told(guarded.initialize(None).await).await;
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut claims = claims("alice");
        change(&mut claims);
        provider.token("k1", &claims)
    };
    let good = provider.token("k1", &claims("alice"));
    let parts: Vec<&str> = good.split('.').collect();
    let encoded = |value: &str| {
        use base64::Engine as _;
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(value)
    };
    let with_header =
        |header: &str, signature: &str| format!("{}.{}.{signature}", encoded(header), parts[1]);
    // The public key, used as if it were a shared secret.
    let shared = {
        let mut header = Header::new(Algorithm::HS256);
        header.kid = Some("k1".into());
        let secret = provider.public["x"].as_str().unwrap();
        encode(
            &header,
            &claims("alice"),
            &EncodingKey::from_secret(secret.as_bytes()),
        )
        .unwrap()
    };
    let wrong = [
        changed(&|claims| claims["exp"] = json!(now() - 100)),
        changed(&|claims| claims["exp"] = json!("never")),
        changed(&|claims| claims["exp"] = json!(1e300)),
        changed(&|claims| claims["exp"] = json!(-1)),
        changed(&|claims| drop(claims.as_object_mut().unwrap().remove("exp"))),
        changed(&|claims| claims["nbf"] = json!(now() + 3600)),
        changed(&|claims| claims["nbf"] = json!("99999999999")),
        changed(&|claims| claims["iss"] = json!("https://other.example")),
        changed(&|claims| claims["aud"] = json!("other")),
        changed(&|claims| drop(claims.as_object_mut().unwrap().remove("aud"))),
        changed(&|claims| claims["sub"] = json!(5)),
        Provider::new("k1").token("k1", &claims("alice")),
        provider.token("../../dev/null", &claims("alice")),
        provider.token("' OR 1=1", &claims("alice")),
        provider.token(&"k".repeat(4000), &claims("alice")),
        with_header(r#"{"alg":"none","kid":"k1"}"#, ""),
        with_header(r#"{"alg":"None","kid":"k1"}"#, parts[2]),
        with_header(r#"{"alg":"ES256","kid":"k1"}"#, parts[2]),
        format!("{}.{}.", parts[0], parts[1]),
        shared,
        "x".repeat(9000),
    ];
    for token in wrong {
        let answer = told(guarded.initialize(Some(&token)).await).await;
        assert_eq!(answer, nothing, "{token}");
    }
    guarded.open(&good).await;
}

#[tokio::test]
async fn row_5_a_stream_ends_with_its_credential() {
    let provider = Provider::new("k1");
    let guarded = with_tokens(&provider).await;
    let mut short = claims("alice");
    short["exp"] = json!(now() + 3);
    let token = provider.token("k1", &short);
    let alice = guarded.open(&token).await;
    let headers = [
        ("acp-connection-id", alice.connection.as_str()),
        ("accept", "text/event-stream"),
    ];
    let response = guarded
        .send(Method::GET, Some(&token), &headers, None)
        .await;
    assert_eq!(response.status(), StatusCode::OK);
    Stream::unchecked(response).ends().await;
}
