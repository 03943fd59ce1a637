//! Envoy verifies session tokens with what the gateways publish, and routes by the session that a
//! good one names.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
use baton_session::clock::unix_seconds;
use baton_session::id::SessionId;
use baton_session::token::{KeyRing, SessionGrant, TokenScope, generate};
use jsonwebtoken::Algorithm;
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};

use super::heard;
use crate::support::balancer::Kind;
use crate::support::http::{JSON, ONE_SHOT, prompt};
use crate::support::{Client, Cluster, Stream, within};

fn grant(session: &str) -> SessionGrant {
    let session = SessionId::parse(session).expect("an id");
    let hour = Duration::from_secs(3600);
    SessionGrant::new(session, "anonymous".into(), TokenScope::Control, hour)
}

fn signed(keys: &str, grant: &SessionGrant) -> String {
    let ring = KeyRing::parse(keys).expect("a key set");
    ring.sign_session(grant).expose().to_owned()
}

/// The keys with the one at this place in front, which signs.
fn with_first(keys: &str, first: usize) -> String {
    let mut set: Value = serde_json::from_str(keys).expect("a key set");
    let keys = set["keys"].as_array_mut().expect("keys");
    keys.swap(0, first);
    set.to_string()
}

async fn send(url: &str, method: Method, headers: &[(&str, &str)], body: String) -> Response {
    let mut request = reqwest::Client::new().request(method, url).body(body);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    within("an answer", request.send())
        .await
        .expect("an answer")
}

/// Which gateway hears a prompt that has these headers and no connection. The token in the payload is
/// not for Envoy.
async fn gateway_of(
    cluster: &Cluster,
    headers: &[(&str, &str)],
    payload: &str,
    session: &str,
) -> usize {
    let before = heard(cluster).await;
    let mut body = prompt(json!(1), session, "/count 1");
    body["params"]["_meta"] = json!({ "baton/session": { "token": payload } });
    let headers = [&[JSON, ONE_SHOT], headers].concat();
    let response = send(&cluster.url(), Method::POST, &headers, body.to_string()).await;
    assert!(response.status() != StatusCode::UNAUTHORIZED, "{headers:?}");
    if response.status() == StatusCode::OK {
        Stream::unchecked(response).response(&json!(1)).await;
    }
    let after = heard(cluster).await;
    match [0, 1].map(|at| after[at] - before[at]) {
        [1, 0] => 0,
        [0, 1] => 1,
        other => panic!("heard by {other:?}"),
    }
}

/// A session for each gateway, as `Acp-Session-Id` has it.
async fn one_for_each(cluster: &Cluster, client: &Client) -> [String; 2] {
    let mut found = [None, None];
    // So many are not on one gateway by chance.
    for _ in 0..64 {
        let session = client.new_session().await;
        let token = signed(&cluster.keys(), &grant(&session));
        let named = [("acp-session-id", session.as_str())];
        let home = gateway_of(cluster, &named, &token, &session).await;
        found[home] = Some(session);
        if let [Some(first), Some(second)] = &found {
            return [first.clone(), second.clone()];
        }
    }
    panic!("all sessions are on one gateway");
}

#[tokio::test]
async fn envoy_routes_by_the_session_that_a_token_names() {
    let cluster = Cluster::start_behind(Kind::Envoy).await;
    let client = Client::initialize(&cluster.url()).await;
    let sessions = one_for_each(&cluster, &client).await;
    for (home, session) in sessions.iter().enumerate() {
        let other = sessions[1 - home].as_str();
        for (first, algorithm) in ["EdDSA", "ES256"].into_iter().enumerate() {
            let token = signed(&with_first(&cluster.keys(), first), &grant(session));
            assert!(token.len() <= 400, "{}", token.len());
            let header = ("acp-session-token", token.as_str());
            for repeat in 0..3 {
                let at = gateway_of(&cluster, &[header], &token, session).await;
                assert_eq!(at, home, "{algorithm}, {repeat}");
            }
            // What nobody signed does not count.
            let misled = [header, ("acp-session-id", other), ("x-baton-sid", other)];
            let at = gateway_of(&cluster, &misled, &token, session).await;
            assert_eq!(at, home, "{algorithm}");
        }
        let token = signed(&cluster.keys(), &grant(session));
        let named = [("acp-session-id", session.as_str()), ("x-baton-sid", other)];
        assert_eq!(gateway_of(&cluster, &named, &token, session).await, home);
    }
}

/// Header and claims, changed; the signature stays.
fn altered(token: &str, change: impl FnOnce(&mut Value, &mut Value)) -> String {
    let parts: Vec<&str> = token.split('.').collect();
    let part = |at: usize| {
        let json = BASE64URL.decode(parts[at]).expect("base64");
        serde_json::from_slice::<Value>(&json).expect("JSON")
    };
    let (mut header, mut claims) = (part(0), part(1));
    change(&mut header, &mut claims);
    let [header, claims] = [header, claims].map(|part| BASE64URL.encode(part.to_string()));
    format!("{header}.{claims}.{}", parts[2])
}

#[tokio::test]
async fn envoy_refuses_bad_tokens_before_any_gateway_hears_of_them() {
    let cluster = Cluster::start_behind(Kind::Envoy).await;
    let client = Client::initialize(&cluster.url()).await;
    let session = client.new_session().await;
    let other = client.new_session().await;
    let good = signed(&cluster.keys(), &grant(&session));
    let expired = SessionGrant {
        issued: unix_seconds() - 7200,
        expires: unix_seconds() - 3600,
        ..grant(&session)
    };
    let stranger = generate(Algorithm::EdDSA);
    let kid = jsonwebtoken::decode_header(&good).expect("a token").kid;
    let mut impostor: Value = serde_json::from_str(&stranger).expect("a key set");
    impostor["keys"][0]["kid"] = json!(kid);
    let other_session = altered(&good, |_, claims| claims["sid"] = json!(other));
    let unsigned = altered(&good, |header, _| header["alg"] = json!("none"));
    let other_audience = altered(&good, |_, claims| claims["aud"] = json!("else"));
    let namesake = signed(&impostor.to_string(), &grant(&session));
    let no = StatusCode::UNAUTHORIZED;
    let bad = [
        ("forged", no, other_session),
        ("unsigned", no, unsigned),
        ("expired", no, signed(&cluster.keys(), &expired)),
        ("an unknown key", no, signed(&stranger, &grant(&session))),
        ("a key of the same name", no, namesake),
        ("no token at all", no, "nonsense".to_owned()),
        // Envoy has another status for this one.
        ("for others", StatusCode::FORBIDDEN, other_audience),
    ];
    let before = heard(&cluster).await;
    for (what, status, token) in &bad {
        let connection = ("acp-connection-id", client.token.as_str());
        let token = ("acp-session-token", token.as_str());
        let body = || prompt(json!(1), &session, "/count 1").to_string();
        for headers in [vec![token], vec![token, connection]] {
            for method in [Method::POST, Method::GET] {
                let headers = [&[JSON, ONE_SHOT], &headers[..]].concat();
                let response = send(&cluster.url(), method, &headers, body()).await;
                assert_eq!(response.status(), *status, "{what}");
            }
        }
    }
    assert_eq!(heard(&cluster).await, before);
    // Past Envoy they are heard, and refused as well.
    for (what, _, token) in &bad {
        let headers = [JSON, ("acp-session-token", token.as_str())];
        let body = prompt(json!(1), &session, "/count 1").to_string();
        let response = send(&cluster.gateway_url(0), Method::POST, &headers, body).await;
        assert_eq!(response.status(), StatusCode::NOT_FOUND, "{what}");
    }
    let heard_since = heard(&cluster).await[0] - before[0];
    assert_eq!(heard_since, bad.len() as u64);
    let header = ("acp-session-token", good.as_str());
    gateway_of(&cluster, &[header], &good, &session).await;
}
