//! What a token is good for, and for how long; what pages may send.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use baton_session::clock::unix_seconds;
use baton_session::id::SessionId;
use baton_session::revocation::{Revocation, RevocationSubject};
use baton_session::token::{KeyRing, SESSION_LIFETIME, SessionGrant, TokenScope, unverified};

use crate::browser::{PAGE, bearer, login, open, send};
use crate::support::auth::{ALICE, BOB};
use crate::support::cluster::redis_cli;
use crate::support::http::{JSON, ONE_SHOT};
use crate::support::{Client, Cluster, Stream, until};

/// With the session's token and nothing else but the caller's credential.
async fn with_token(url: &str, token: &str, body: Value) -> Value {
    let id = body["id"].clone();
    let request = reqwest::Client::new().post(url).bearer_auth(ALICE);
    let request = request.header("acp-session-token", token);
    let request = request
        .header(JSON.0, JSON.1)
        .header(ONE_SHOT.0, ONE_SHOT.1);
    let answer = request.body(body.to_string()).send().await;
    let answer = answer.expect("the gateway answers");
    assert_eq!(answer.status(), StatusCode::OK);
    Stream::unchecked(answer).response(&id).await
}

#[tokio::test]
async fn l_a_session_token_does_not_fork_what_was_closed() {
    let cluster = Cluster::start_with_keys().await;
    let alice = Client::with_key(&cluster.url(), ALICE).await;
    let new = crate::support::http::new_session(json!(1));
    let answer = alice.one_shot(new).await.response(&json!(1)).await;
    let session = answer["result"]["sessionId"].as_str().expect("an id");
    let token = &answer["result"]["_meta"]["baton/session"]["token"];
    let token = token.as_str().expect("a token");
    let fork = |id: u64| {
        let params = json!({ "sessionId": session, "cwd": "/tmp", "mcpServers": [] });
        json!({ "jsonrpc": "2.0", "id": id, "method": "session/fork", "params": params })
    };
    let before = with_token(&cluster.url(), token, fork(2)).await;
    assert!(before["result"]["sessionId"].is_string(), "{before}");
    let params = json!({ "sessionId": session });
    let close = json!({ "jsonrpc": "2.0", "id": 3, "method": "session/close", "params": params });
    let closed = alice.one_shot(close).await.response(&json!(3)).await;
    assert!(closed["result"].is_object(), "{closed}");
    let after = with_token(&cluster.url(), token, fork(4)).await;
    assert_eq!(after["error"]["code"], 4006, "{after}");
    // Her connection may do everything with what is hers.
    let own = alice.one_shot(fork(5)).await.response(&json!(5)).await;
    assert!(own["result"]["sessionId"].is_string(), "{own}");
}

#[tokio::test]
async fn l_what_pages_send_without_asking_is_refused() {
    let cluster = Cluster::start_with_keys().await;
    let url = cluster.url();
    let cookie = login(&url, &bearer(ALICE)).await;
    for (path, good) in [
        ("/v1/sessions/import", "application/x-ndjson"),
        ("/v1/login", "application/json"),
        ("/v1/tickets", "application/json"),
        ("/v1/logout", "application/json"),
    ] {
        let ask = async |kind: Option<&str>| {
            let url = url.replace("/acp", path);
            let mut request = reqwest::Client::new().request(Method::POST, url);
            request = request.bearer_auth(ALICE).header("cookie", &cookie);
            if let Some(kind) = kind {
                request = request.header("content-type", kind);
            }
            request.send().await.expect("the gateway answers")
        };
        let wrong = [
            None,
            Some("text/plain"),
            Some("application/x-www-form-urlencoded"),
            Some("multipart/form-data"),
            Some(""),
        ];
        for kind in wrong {
            let refused = ask(kind).await;
            assert_eq!(refused.status(), 415, "{path} {kind:?}");
            let said = refused.text().await.expect("a body");
            assert!(said.contains(good), "{said}");
        }
        assert_ne!(ask(Some(good)).await.status(), 415, "{path}");
    }
}

/// Whether a browser with this cookie gets in, on each of the gateways.
async fn gets_in(cluster: &Cluster, cookie: &str) -> [bool; 2] {
    let mut in_on = [false; 2];
    for (number, is_in) in in_on.iter_mut().enumerate() {
        let headers = [("cookie", cookie), PAGE];
        *is_in = open(&cluster.gateway_url(number), &headers).await == StatusCode::OK;
    }
    in_on
}

async fn logout(url: &str, cookie: &str) {
    let headers = [("cookie", cookie), PAGE];
    let left = send(url, Method::POST, "/v1/logout", &headers, None).await;
    assert_eq!(left.status(), StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn f4_one_callers_logouts_bring_no_other_login_back() {
    let mut cluster = Cluster::start_with_keys().await;
    let url = cluster.url();
    let hers = login(&url, &bearer(ALICE)).await;
    assert_eq!(gets_in(&cluster, &hers).await, [true; 2]);
    logout(&url, &hers).await;
    until("she is out", async || {
        (gets_in(&cluster, &hers).await == [false; 2]).then_some(())
    })
    .await;
    // Hers that goes on all the while.
    let other = login(&url, &bearer(ALICE)).await;
    let mut his = Vec::new();
    for _ in 0..30 {
        let pairs = (0..50).map(async |_| {
            let cookie = login(&url, &bearer(BOB)).await;
            // His login may have ended with the others already.
            let headers = [("cookie", cookie.as_str()), PAGE];
            send(&url, Method::POST, "/v1/logout", &headers, None).await;
            cookie
        });
        his.extend(futures_util::future::join_all(pairs).await);
    }
    // What he has left behind is little, whatever he does.
    let kept = redis_cli(cluster.redis.port, &["hlen", "baton:{revoked}:all"]);
    let kept: u64 = kept.trim().parse().expect("a number");
    assert!((1..=300).contains(&kept), "{kept} revocations are kept");
    assert_eq!(gets_in(&cluster, &hers).await, [false; 2]);
    assert_eq!(gets_in(&cluster, &other).await, [true; 2]);
    cluster.restart_gateway(0).await;
    assert_eq!(gets_in(&cluster, &hers).await, [false; 2]);
    assert_eq!(gets_in(&cluster, &other).await, [true; 2]);
    for cookie in his.iter().step_by(100) {
        until("he is out", async || {
            (gets_in(&cluster, cookie).await == [false; 2]).then_some(())
        })
        .await;
    }
}

/// A token of alice's for the session, as a gateway would have renewed it.
fn renewed(cluster: &Cluster, session: &str, issued: u64, expires: u64) -> String {
    let session = SessionId::parse(session).expect("an id");
    let principal = "key:alice".to_owned();
    let grant = SessionGrant::new(session, principal, TokenScope::Control, SESSION_LIFETIME);
    let grant = SessionGrant {
        issued,
        expires,
        generation: 1,
        ..grant
    };
    let ring = KeyRing::parse(&cluster.keys()).expect("a ring");
    ring.sign_session(&grant).expose().to_owned()
}

async fn asked(url: &str, session: &str, token: &str) -> reqwest::Response {
    let body = crate::support::http::prompt(json!(1), session, "/count 1");
    let request = reqwest::Client::new().post(url).bearer_auth(ALICE);
    let request = request.header("acp-session-token", token);
    let request = request
        .header(JSON.0, JSON.1)
        .header(ONE_SHOT.0, ONE_SHOT.1);
    let answer = request.body(body.to_string()).send().await;
    answer.expect("the gateway answers")
}

#[tokio::test]
async fn l_renewed_session_tokens_end_a_day_after_the_first() {
    let cluster = Cluster::start_with_keys().await;
    let alice = Client::with_key(&cluster.url(), ALICE).await;
    let session = alice.new_session().await;
    let now = unix_seconds();
    let day = 24 * 3600;
    let renewal = async |first: u64, expires: u64| {
        let token = renewed(&cluster, &session, first, expires);
        let answer = asked(&cluster.url(), &session, &token).await;
        assert_eq!(answer.status(), StatusCode::OK);
        let renewed = answer.headers().get("acp-session-token")?.to_str();
        let [_, claims] = unverified(renewed.expect("ASCII")).expect("a token");
        claims["exp"].as_u64()
    };
    // In the middle, shortly before the end, and at the end.
    let whole = renewal(now - 7200, now + 1600)
        .await
        .expect("it is renewed");
    assert!((now + 3600..now + 3660).contains(&whole), "{whole}");
    let rest = renewal(now + 2000 - day, now + 1600).await;
    assert_eq!(rest, Some(now + 2000));
    assert_eq!(renewal(now + 1600 - day, now + 1600).await, None);
}

#[tokio::test]
async fn l_what_was_revoked_is_not_good_again_by_renewal() {
    let cluster = Cluster::start_with_keys().await;
    let alice = Client::with_key(&cluster.url(), ALICE).await;
    let session = alice.new_session().await;
    let now = unix_seconds();
    // Renewed at the last moment, by a gateway that has not heard of the revocation yet.
    let unaware = renewed(&cluster, &session, now - 3000, now + 3600);
    let answer = asked(&cluster.url(), &session, &unaware).await;
    assert_eq!(answer.status(), StatusCode::OK);
    let id = SessionId::parse(&session).expect("an id");
    let line = Revocation::at_once(RevocationSubject::Session(id)).text();
    let (key, subject) = ("baton:{revoked}:all", format!("s {session}"));
    // The gateways are not told: they find it by themselves.
    redis_cli(cluster.redis.port, &["hset", key, &subject, &line]);
    until("it is refused", async || {
        let answer = asked(&cluster.url(), &session, &unaware).await;
        (answer.status() == StatusCode::NOT_FOUND).then_some(())
    })
    .await;
    let fresh = renewed(&cluster, &session, now + 50, now + 3600);
    let answer = asked(&cluster.url(), &session, &fresh).await;
    assert_eq!(answer.status(), StatusCode::OK);
}

#[tokio::test]
async fn l_a_session_token_does_not_open_what_was_closed() {
    let cluster = Cluster::start_with_keys().await;
    let alice = Client::with_key(&cluster.url(), ALICE).await;
    let new = crate::support::http::new_session(json!(1));
    let answer = alice.one_shot(new).await.response(&json!(1)).await;
    let session = answer["result"]["sessionId"].as_str().expect("an id");
    let token = &answer["result"]["_meta"]["baton/session"]["token"];
    let token = token.as_str().expect("a token");
    let open = |id: u64, method: &str| {
        let params = json!({ "sessionId": session, "cwd": "/tmp", "mcpServers": [] });
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
    };
    let before = with_token(&cluster.url(), token, open(2, "session/load")).await;
    assert!(before["result"].is_object(), "{before}");
    let params = json!({ "sessionId": session });
    let close = json!({ "jsonrpc": "2.0", "id": 3, "method": "session/close", "params": params });
    let closed = alice.one_shot(close).await.response(&json!(3)).await;
    assert!(closed["result"].is_object(), "{closed}");
    for (id, method) in [(4, "session/load"), (5, "session/resume")] {
        let after = with_token(&cluster.url(), token, open(id, method)).await;
        assert_eq!(after["error"]["code"], 4006, "{method}: {after}");
    }
    // It is still closed, and may be read.
    let prompt = crate::support::http::prompt(json!(6), session, "hello");
    let refused = alice.one_shot(prompt).await.response(&json!(6)).await;
    assert_eq!(refused["error"]["code"], 4006, "{refused}");
    let mut watch = open(7, "session/load");
    watch["params"]["_meta"] = json!({ "baton/observe": true });
    let read = with_token(&cluster.url(), token, watch).await;
    assert!(read["result"].is_object(), "{read}");
    // She opens it herself, and the token is good again.
    let own = alice
        .one_shot(open(8, "session/load"))
        .await
        .response(&json!(8))
        .await;
    assert!(own["result"].is_object(), "{own}");
    let again = with_token(&cluster.url(), token, open(9, "session/load")).await;
    assert!(again["result"].is_object(), "{again}");
}
