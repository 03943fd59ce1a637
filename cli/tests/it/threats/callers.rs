//! Who calls, and whom nobody can pass for.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
use jsonwebtoken::{Algorithm, EncodingKey, crypto};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::forge::{CONNECTION, Forge, SESSION, claims, message, said};
use super::{ASKS, KEPT, Probe, guarded};
use crate::auth::provider::{self, Provider, now, with_tokens};
use crate::auth::{A, B, Guarded, told, write_keys};
use crate::dpop::{CHALLENGE, Holder, about, open, open_with};
use crate::revocation::revoke;
use crate::support::process::free_port;
use crate::support::websocket::{Socket, initialize};

#[tokio::test]
async fn row_01_session_fixation() {
    let guarded = guarded().await;
    let forge = Forge::of(&guarded);
    let (alice, probe) = (guarded.open(A).await, Probe::of(&guarded, Some(A)));
    let header = forge.header(CONNECTION).to_string();
    let unsigned = message(&header, &claims("key:alice").to_string());
    let planted = forge.token(CONNECTION, &claims("key:alice"));
    let mut known = vec![
        said(&alice.connection)["cid"].clone(),
        said(&planted)["cid"].clone(),
    ];
    for sent in ["c1.aaaa.bbbb", &unsigned, &planted, &alice.connection] {
        let headers = [("acp-connection-id", sent)];
        let opened = guarded.send(Method::POST, Some(A), &headers, Some(initialize()));
        let opened = opened.await;
        assert_eq!(opened.status(), StatusCode::OK);
        let fresh = opened.headers()["acp-connection-id"].to_str().unwrap();
        let authorization = format!("Bearer {A}");
        let headers = [
            ("authorization", authorization.as_str()),
            ("acp-connection-id", sent),
        ];
        let socket = Socket::try_open(&guarded.url, &headers)
            .await
            .expect("let in");
        for fresh in [fresh, socket.connection()] {
            let id = said(fresh)["cid"].clone();
            assert!(!known.contains(&id), "{id} was there before");
            known.push(id);
        }
    }
    for proposed in ["c1.aaaa.bbbb", &unsigned] {
        assert_eq!(probe.connection(proposed).await, 404);
    }

    // A session gets the id that the gateway gives it.
    let proposed = "000-0123456789012345678901";
    let params = json!({
        "cwd": "/tmp", "mcpServers": [], "sessionId": proposed, "id": proposed,
        "_meta": { "sessionId": proposed, "baton/session": { "id": proposed } },
    });
    let made = alice.call(1, "session/new", params).await;
    let session = made["result"]["sessionId"].as_str().unwrap().to_owned();
    assert_ne!(session, proposed);
    let load = json!({ "sessionId": proposed, "cwd": "/tmp", "mcpServers": [] });
    assert_eq!(
        alice.call(2, "session/load", load).await["error"]["code"],
        -32002
    );
    // Nor does a copy that somebody else brings in get the id of the original.
    let (export, import) = (
        guarded
            .url
            .replace("/acp", &format!("/v1/sessions/{session}/export")),
        guarded.url.replace("/acp", "/v1/sessions/import"),
    );
    let http = reqwest::Client::new();
    let copy = http.get(export).bearer_auth(A).send().await.unwrap();
    let copy = copy.text().await.unwrap();
    assert!(copy.contains(&session), "{copy}");
    let taken = http
        .post(import)
        .bearer_auth(B)
        .header("content-type", "application/x-ndjson")
        .body(copy)
        .send()
        .await
        .unwrap();
    assert_eq!(taken.status(), StatusCode::CREATED);
    assert!(!taken.text().await.unwrap().contains(&session));
}

/// What a caller is told who comes with this connection, in every way there is.
async fn told_with(
    guarded: &Guarded,
    credential: &str,
    connection: &str,
) -> Vec<(StatusCode, Vec<(String, String)>, String)> {
    let mut answers = Vec::new();
    for method in [Method::POST, Method::GET, Method::DELETE] {
        let body = (method == Method::POST)
            .then(|| json!({ "jsonrpc": "2.0", "id": 5, "method": "session/list", "params": {} }));
        let headers = [
            ("acp-connection-id", connection),
            ("accept", "text/event-stream, application/json"),
        ];
        let answer = guarded.send(method, Some(credential), &headers, body).await;
        assert!(!answer.status().is_success(), "{answer:?}");
        answers.push(told(answer).await);
    }
    let authorization = format!("Bearer {credential}");
    let headers = [
        ("authorization", authorization.as_str()),
        ("acp-resume", "1"),
    ];
    let mut socket = Socket::try_open(&guarded.url, &headers)
        .await
        .expect("let in");
    let resume = json!({ "resume": { "connection": connection, "cursor": "0" } });
    socket.send(resume).await;
    assert_eq!(socket.closed().await, 4001);
    answers
}

#[tokio::test]
async fn row_02_hijack_by_another_caller() {
    let guarded = guarded().await;
    let alice = guarded.open(A).await;
    let session = Forge::of(&guarded).token(SESSION, &claims("key:alice"));
    let unknown = format!("{}x", alice.connection);
    let foreign = told_with(&guarded, B, &alice.connection).await;
    assert_eq!(foreign[0].0, StatusCode::NOT_FOUND);
    assert_eq!(
        foreign,
        told_with(&guarded, B, &unknown).await,
        "foreign and unknown"
    );
    let bob = Probe::of(&guarded, Some(B));
    assert_eq!(bob.session(&session).await, 404);
    assert_eq!(Probe::of(&guarded, Some(A)).session(&session).await, 200);
    // Nothing of this has touched its owner.
    assert!(!alice.new_session().await.is_empty());

    // One person is a subject at an issuer, with a client.
    let provider = Provider::new("k1");
    let guarded = with_tokens(&provider).await;
    let token = |subject: &str, client: &str, issuer: &str| {
        let mut claims = provider::claims(subject);
        claims["client_id"] = json!(client);
        claims["iss"] = json!(issuer);
        provider.token("k1", &claims)
    };
    let alice = guarded.open(&token("alice", "app", provider::ISSUER)).await;
    for stranger in [
        token("bob", "app", provider::ISSUER),
        token("alice", "other", provider::ISSUER),
        token("alice", "", provider::ISSUER),
    ] {
        let foreign = told_with(&guarded, &stranger, &alice.connection).await;
        assert_eq!(foreign[0].0, StatusCode::NOT_FOUND);
        assert_eq!(foreign, told_with(&guarded, &stranger, &unknown).await);
    }
    let elsewhere = token("alice", "app", "https://other.example");
    let elsewhere = Probe::of(&guarded, Some(&elsewhere));
    assert_eq!(elsewhere.connection(&alice.connection).await, 401);
    assert!(!alice.new_session().await.is_empty());
}

#[tokio::test]
async fn row_03_principals_do_not_drift() {
    let open = Guarded::start(&KEPT, |dir| write_keys(dir, &[("alice", A)])).await;
    let anonymous = open.initialize(None).await.headers()["acp-connection-id"].clone();
    let anonymous = anonymous.to_str().unwrap();
    // The same keys sign on, but now it asks who calls.
    let guarded = open.again(&ASKS).await;
    let forge = Forge::of(&guarded);
    let alice = Probe::of(&guarded, Some(A));
    assert_eq!(alice.connection(anonymous).await, 404);
    let session = forge.token(SESSION, &claims("anonymous"));
    assert_eq!(alice.session(&session).await, 404);
    assert_eq!(Probe::of(&guarded, None).connection(anonymous).await, 401);
    let named = guarded.open(A).await.connection;
    assert_eq!(alice.connection(&named).await, 200);
    // And back.
    let open = guarded.again(&KEPT).await;
    for credential in [None, Some(A)] {
        let probe = Probe::of(&open, credential);
        assert_eq!(probe.connection(&named).await, 404);
        let session = forge.token(SESSION, &claims("key:alice"));
        assert_eq!(probe.session(&session).await, 404);
        assert_eq!(probe.connection(anonymous).await, 200);
    }
}

#[tokio::test]
async fn row_26_names_never_run_into_each_other() {
    let names = [
        "user",
        "user@example.com",
        "user:example.com",
        "example.com",
        "key:user",
        "user:",
    ];
    let keys = names.map(|name| (name, format!("bk_{name}_000000000000000000000000000")));
    let entries: Vec<_> = keys
        .iter()
        .map(|(name, key)| (*name, key.as_str()))
        .collect();
    let admin = format!("127.0.0.1:{}", free_port());
    let arguments = [&ASKS[..], &["--admin-listen", &admin]].concat();
    let guarded = Guarded::start(&arguments, |dir| write_keys(dir, &entries)).await;
    let mut callers = Vec::new();
    for (name, key) in &entries {
        let caller = guarded.open(key).await;
        assert_eq!(said(&caller.connection)["prn"], format!("key:{name}"));
        let session = caller.new_session().await;
        callers.push((*key, caller, session));
    }
    for (key, caller, session) in &callers {
        let listed = caller.call(2, "session/list", json!({})).await;
        let listed = listed["result"]["sessions"].as_array().unwrap();
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0]["sessionId"], json!(session));
        let probe = Probe::of(&guarded, Some(key));
        for (_, other, _) in &callers {
            let expected = if other.connection == caller.connection {
                200
            } else {
                404
            };
            assert_eq!(probe.connection(&other.connection).await, expected, "{key}");
        }
    }
    revoke(&format!("http://{admin}"), "--principal", "key:user");
    for (at, (key, caller, _)) in callers.iter().enumerate() {
        let expected = if at == 0 { 404 } else { 200 };
        let probe = Probe::of(&guarded, Some(key));
        assert_eq!(
            probe.connection(&caller.connection).await,
            expected,
            "{key}"
        );
    }

    let provider = Provider::new("k1");
    let guarded = with_tokens(&provider).await;
    let mut principals = Vec::new();
    for (subject, client) in [
        ("a", "bc"),
        ("ab", "c"),
        ("abc", ""),
        ("a:b", "c"),
        ("a", "b:c"),
        ("a@b", "c"),
        ("a", "b@c"),
        ("a,b", "c"),
        ("a", "b,c"),
        ("a\nb", "c"),
        ("a", "b\nc"),
    ] {
        let mut claims = provider::claims(subject);
        claims["client_id"] = json!(client);
        let caller = guarded.open(&provider.token("k1", &claims)).await;
        let principal = said(&caller.connection)["prn"].clone();
        assert!(!principals.contains(&principal), "{subject:?} {client:?}");
        principals.push(principal);
    }
}

#[tokio::test]
async fn row_38_a_stolen_token_is_worth_nothing_without_its_key() {
    let provider = Provider::new("k1");
    let guarded = with_tokens(&provider).await;
    let url = guarded.url.as_str();
    let (holder, thief) = (Holder::new(Algorithm::ES256), Holder::new(Algorithm::ES256));
    let token = holder.token(&provider);
    let credential = format!("DPoP {token}");
    let good = || holder.proof("POST", url, &token);
    let stolen = told(open(url, &[("authorization", &credential)]).await).await;
    assert_eq!(stolen.0, StatusCode::UNAUTHORIZED);
    let challenge = ("www-authenticate".to_owned(), format!("{CHALLENGE:?}"));
    assert!(stolen.1.contains(&challenge), "{:?}", stolen.1);

    let claims = |change: &dyn Fn(&mut Value)| {
        let mut claims = about("POST", url, &token);
        change(&mut claims);
        holder.signed(&holder.head(), &claims)
    };
    let without = |name: &str| claims(&|claims| drop(claims.as_object_mut().unwrap().remove(name)));
    let head = |change: &dyn Fn(&mut Value)| {
        let mut head = holder.head();
        change(&mut head);
        holder.signed(&head, &about("POST", url, &token))
    };
    // The public key, used as if it were a shared secret; and the thief's own.
    let shared = |head: Value| {
        let part = |value: &Value| BASE64URL.encode(value.to_string());
        let message = format!("{}.{}", part(&head), part(&about("POST", url, &token)));
        let key = EncodingKey::from_secret(holder.jwk["x"].as_str().unwrap().as_bytes());
        let signature = crypto::sign(message.as_bytes(), &key, Algorithm::HS256).unwrap();
        format!("{message}.{signature}")
    };
    let mut hs256 = holder.head();
    hs256["alg"] = json!("HS256");
    let octets = json!({ "typ": "dpop+jwt", "alg": "HS256", "jwk": { "kty": "oct", "k": "AAAA" } });
    let proof = good();
    let (message, _) = proof.rsplit_once('.').unwrap();
    let wrong = [
        claims(&|claims| claims["htm"] = json!("GET")),
        claims(&|claims| claims["htm"] = json!("post")),
        claims(&|claims| claims["htu"] = json!("http://evil.example/acp")),
        claims(&|claims| claims["htu"] = json!(url.replace("/acp", "/v1/login"))),
        claims(&|claims| claims["htu"] = json!("http://127.0.0.1/acp")),
        claims(&|claims| claims["iat"] = json!(now() - 360)),
        claims(&|claims| claims["iat"] = json!(now() + 360)),
        claims(&|claims| claims["iat"] = json!(now().to_string())),
        claims(&|claims| claims["exp"] = json!(now() - 1)),
        claims(&|claims| claims["ath"] = json!(BASE64URL.encode(Sha256::digest("other")))),
        claims(&|claims| claims["ath"] = json!("")),
        claims(&|claims| claims["jti"] = json!("")),
        without("jti"),
        without("htm"),
        without("htu"),
        without("iat"),
        without("ath"),
        head(&|head| head["typ"] = json!("JWT")),
        head(&|head| head["alg"] = json!("EdDSA")),
        head(&|head| head["crit"] = json!(["b64"])),
        head(&|head| head["jwk"] = holder.private.clone()),
        head(&|head| head["jwk"]["d"] = json!("AAAA")),
        head(&|head| head["jwk"] = thief.jwk.clone()),
        head(&|head| drop(head.as_object_mut().unwrap().remove("jwk"))),
        thief.proof("POST", url, &token),
        thief.signed(&holder.head(), &about("POST", url, &token)),
        shared(hs256),
        shared(octets),
        format!("{message}."),
        format!(
            "{}.{}.",
            BASE64URL.encode(r#"{"typ":"dpop+jwt","alg":"none"}"#),
            message
        ),
        claims(&|claims| claims["pad"] = json!("x".repeat(5000))),
        "x".repeat(5000),
        String::new(),
    ];
    for proof in wrong {
        let headers = [("authorization", credential.as_str()), ("dpop", &proof)];
        assert_eq!(told(open(url, &headers).await).await, stolen, "{proof}");
    }
    // Two proofs, and a good one where the token is sent as if it were not bound.
    let (one, two) = (good(), good());
    let headers = [
        ("authorization", credential.as_str()),
        ("dpop", one.as_str()),
        ("dpop", two.as_str()),
    ];
    assert_eq!(told(open(url, &headers).await).await, stolen);
    let (bearer, proof) = (format!("Bearer {token}"), good());
    let headers = [("authorization", bearer.as_str()), ("dpop", proof.as_str())];
    assert_eq!(told(open(url, &headers).await).await, stolen);

    let proof = good();
    assert_eq!(open_with(url, &token, &proof).await, 200);
    let headers = [("authorization", credential.as_str()), ("dpop", &proof)];
    assert_eq!(told(open(url, &headers).await).await, stolen, "used twice");
    assert_eq!(open_with(url, &token, &good()).await, 200);
}
