//! Tokens that are bound to a key, and the proofs that they need.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
use jsonwebtoken::jwk::{Jwk, ThumbprintHash};
use jsonwebtoken::{Algorithm, EncodingKey, crypto};
use reqwest::StatusCode;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::auth::provider::{Provider, arguments, claims, now, with_tokens, with_tokens_and};
use crate::auth::{Guarded, told};
use crate::support::Redis;
use crate::support::cluster::{address, ready, url, write_keys};
use crate::support::process::{Process, baton, free_port};
use crate::support::websocket::{Socket, initialize};

pub const CHALLENGE: &str = r#"DPoP error="invalid_dpop_proof", algs="ES256 EdDSA""#;

/// Whoever holds the key that a token is bound to.
pub struct Holder {
    algorithm: Algorithm,
    /// As it is written in a proof.
    pub jwk: Value,
    pub private: Value,
    signing: EncodingKey,
}

impl Holder {
    pub fn new(algorithm: Algorithm) -> Self {
        // The fixed beginnings of PKCS#8 around a bare key: RFC 8410, section 7, and RFC 5915.
        let (name, prefix): (_, &[u8]) = match algorithm {
            Algorithm::EdDSA => (
                "eddsa",
                &[48, 46, 2, 1, 0, 48, 5, 6, 3, 43, 101, 112, 4, 34, 4, 32],
            ),
            _ => (
                "es256",
                &[
                    48, 65, 2, 1, 0, 48, 19, 6, 7, 42, 134, 72, 206, 61, 2, 1, 6, 8, 42, 134, 72,
                    206, 61, 3, 1, 7, 4, 39, 48, 37, 2, 1, 1, 4, 32,
                ],
            ),
        };
        let made = baton().args(["token", "keygen", "--alg", name]).output();
        let set: Value = serde_json::from_slice(&made.expect("baton runs").stdout).unwrap();
        let private = set["keys"][0].clone();
        let secret = BASE64URL.decode(private["d"].as_str().unwrap()).unwrap();
        let der = [prefix, &secret].concat();
        // As browsers export a key.
        let mut jwk = json!({ "ext": true, "key_ops": ["verify"] });
        for member in ["kty", "crv", "x", "y"] {
            if let Some(value) = private.get(member) {
                jwk[member] = value.clone();
            }
        }
        Self {
            algorithm,
            jwk,
            private,
            signing: match algorithm {
                Algorithm::EdDSA => EncodingKey::from_ed_der(&der),
                _ => EncodingKey::from_ec_der(&der),
            },
        }
    }

    fn thumbprint(&self) -> String {
        let jwk: Jwk = serde_json::from_value(self.jwk.clone()).unwrap();
        jwk.thumbprint(ThumbprintHash::SHA256).unwrap()
    }

    /// A token of the provider that is bound to this key.
    pub fn token(&self, provider: &Provider) -> String {
        let mut claims = claims("alice");
        claims["cnf"] = json!({ "jkt": self.thumbprint() });
        provider.token("k1", &claims)
    }

    pub fn head(&self) -> Value {
        json!({ "typ": "dpop+jwt", "alg": self.algorithm, "jwk": self.jwk })
    }

    pub fn signed(&self, head: &Value, claims: &Value) -> String {
        let part = |value: &Value| BASE64URL.encode(value.to_string());
        let message = format!("{}.{}", part(head), part(claims));
        let signature = crypto::sign(message.as_bytes(), &self.signing, self.algorithm);
        format!("{message}.{}", signature.unwrap())
    }

    pub fn proof(&self, method: &str, url: &str, token: &str) -> String {
        self.signed(&self.head(), &about(method, url, token))
    }
}

/// What a proof says, with a name of its own.
pub fn about(method: &str, url: &str, token: &str) -> Value {
    json!({
        "jti": format!("{:032x}", rand::random::<u128>()),
        "htm": method,
        "htu": url,
        "iat": now(),
        "ath": BASE64URL.encode(Sha256::digest(token)),
    })
}

pub async fn open(url: &str, headers: &[(&str, &str)]) -> reqwest::Response {
    let mut request = reqwest::Client::new().post(url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request
        .header("content-type", "application/json")
        .body(initialize().to_string())
        .send()
        .await
        .expect("the gateway answers")
}

pub async fn open_with(url: &str, token: &str, proof: &str) -> StatusCode {
    let credential = format!("DPoP {token}");
    let headers = [("authorization", credential.as_str()), ("dpop", proof)];
    open(url, &headers).await.status()
}

#[tokio::test]
async fn a_bound_token_is_good_with_a_new_proof_for_every_request() {
    let provider = Provider::new("k1");
    let guarded = with_tokens(&provider).await;
    let url = &guarded.url;
    for algorithm in [Algorithm::ES256, Algorithm::EdDSA] {
        let holder = Holder::new(algorithm);
        let token = holder.token(&provider);
        for _ in 0..2 {
            let proof = holder.proof("POST", url, &token);
            assert_eq!(open_with(url, &token, &proof).await, 200, "{algorithm:?}");
        }
        // An upgrade is a GET like others.
        let credential = format!("DPoP {token}");
        for (method, expected) in [("GET", None), ("POST", Some(401))] {
            let proof = holder.proof(method, url, &token);
            let headers = [
                ("authorization", credential.as_str()),
                ("dpop", proof.as_str()),
            ];
            let refused = Socket::try_open(url, &headers).await.err();
            assert_eq!(refused.map(|refused| refused.0), expected, "{method}");
        }
    }
}

#[tokio::test]
async fn a_proof_is_good_once_on_all_gateways() {
    let provider = Provider::new("k1");
    let (redis, dir) = (Redis::start().await, TempDir::new().unwrap());
    let set = json!({ "keys": [provider.public] }).to_string();
    fs::write(dir.path().join("jwks.json"), set).unwrap();
    write_keys(&dir.path().join("keys.json"));
    let ports = [free_port(), free_port()];
    let mut gateways = Vec::new();
    for port in ports {
        let mut command = baton();
        command.current_dir(dir.path());
        command.args(["gateway", "--store", &redis.store(), "--keys", "keys.json"]);
        command.args(["--listen", &address(port)]);
        command.args(arguments("jwks.json"));
        command.args(["--trust-proxy", "127.0.0.1/32"]);
        let name = format!("gateway-{port}");
        gateways.push(Process::start(dir.path(), &name, &mut command));
        ready(port).await;
    }
    let holder = Holder::new(Algorithm::EdDSA);
    let token = holder.token(&provider);
    let credential = format!("DPoP {token}");
    // As clients address both of them, through a proxy that ends TLS.
    let proof = holder.proof("POST", "https://localhost/acp", &token);
    let in_clear = holder.proof("POST", "http://localhost/acp", &token);
    let mut statuses = Vec::new();
    for (port, proof) in [
        (ports[0], &in_clear),
        (ports[0], &proof),
        (ports[1], &proof),
        (ports[0], &proof),
    ] {
        let headers = [
            ("authorization", credential.as_str()),
            ("dpop", proof.as_str()),
            ("host", "localhost"),
            ("x-forwarded-for", "192.0.2.1"),
            ("x-forwarded-proto", "https"),
        ];
        statuses.push(open(&url(port), &headers).await.status().as_u16());
    }
    assert_eq!(statuses, [401, 200, 401, 401]);
}

#[tokio::test]
async fn what_a_bound_token_is_exchanged_for_is_asked_for_with_a_proof() {
    let provider = Provider::new("k1");
    let guarded = with_tokens(&provider).await;
    let holder = Holder::new(Algorithm::ES256);
    let token = holder.token(&provider);
    let credential = format!("DPoP {token}");
    for path in ["/v1/tickets", "/v1/login"] {
        let url = guarded.url.replace("/acp", path);
        // The proof of a request elsewhere does not do.
        for (about, expected) in [(&guarded.url, false), (&url, true)] {
            let proof = holder.proof("POST", about, &token);
            let headers = [("authorization", credential.as_str()), ("dpop", &proof)];
            let answer = open(&url, &headers).await;
            assert_eq!(answer.status().is_success(), expected, "{path}");
            if expected && path == "/v1/tickets" {
                let answer: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
                let ticket = answer["ticket"].as_str().unwrap();
                let offered = format!("acp, baton.ticket.{ticket}");
                let headers = [("sec-websocket-protocol", offered.as_str())];
                let socket = Socket::try_open(&guarded.url, &headers).await;
                assert!(socket.is_ok(), "{:?}", socket.err());
            }
        }
    }
}

#[tokio::test]
async fn tokens_that_are_bound_to_nothing_can_be_refused() {
    let provider = Provider::new("k1");
    let strict = with_tokens_and(&provider, &["--auth-require-dpop"]).await;
    let lenient = with_tokens(&provider).await;
    let holder = Holder::new(Algorithm::ES256);
    let (bound, plain) = (
        holder.token(&provider),
        provider.token("k1", &claims("alice")),
    );
    let nothing = told(strict.initialize(None).await).await;
    assert_eq!(nothing.0, StatusCode::UNAUTHORIZED);
    let challenge = r#"DPoP algs="ES256 EdDSA""#;
    let challenge = ("www-authenticate".to_owned(), format!("{challenge:?}"));
    assert!(nothing.1.contains(&challenge), "{:?}", nothing.1);
    assert_eq!(told(strict.initialize(Some(&plain)).await).await, nothing);
    assert_eq!(lenient.initialize(Some(&plain)).await.status(), 200);
    for guarded in [&strict, &lenient] {
        let proof = holder.proof("POST", &guarded.url, &bound);
        assert_eq!(open_with(&guarded.url, &bound, &proof).await, 200);
        // A proof makes no bound token of one that is not.
        let proof = holder.proof("POST", &guarded.url, &plain);
        assert_eq!(open_with(&guarded.url, &plain, &proof).await, 401);
        // What it is bound to is nothing that is looked at here.
        let mut claims = claims("alice");
        claims["cnf"] = json!({ "x5t#S256": "A4DtL2JmUMhAsvJj5tKyn64SqzmuXbMrJa0n761y5v0" });
        let other = provider.token("k1", &claims);
        assert_eq!(guarded.initialize(Some(&other)).await.status(), 401);
    }
}

#[tokio::test]
async fn an_api_key_needs_no_proof_and_cannot_be_made_to() {
    let guarded = Guarded::with_keys().await;
    let credential = format!("DPoP {}", crate::auth::A);
    let refused = open(&guarded.url, &[("authorization", &credential)]).await;
    assert_eq!(refused.status(), 401);
    assert_eq!(refused.headers()["www-authenticate"], "Bearer");
    let mut command = baton();
    command.args(["serve", "--ephemeral", "--auth-require-dpop"]);
    let output = command.output().expect("baton runs");
    assert_eq!(output.status.code(), Some(64));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("needs --auth jwt"), "{said}");
}
