//! What a token is good for, and for how long; what pages may send.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::browser::{bearer, login};
use crate::support::auth::ALICE;
use crate::support::http::{JSON, ONE_SHOT};
use crate::support::{Client, Cluster, Stream};

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
