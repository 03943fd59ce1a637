//! Sessions that are shared by a link, and what guests may not do with it.

use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};

use super::Visit;
use crate::auth::{A, B, Guarded};

/// Alice with two keys, of which one may only watch.
async fn guarded() -> Guarded {
    let arguments = ["--auth", "keys", "--auth-keys", "api-keys.json"];
    Guarded::start(&arguments, |dir| {
        crate::auth::write_keys(dir, &[("alice", A), ("alice", B)]);
        let file = dir.join("api-keys.json");
        let text = std::fs::read_to_string(&file).expect("just written");
        let mut keys: Value = serde_json::from_str(&text).expect("JSON");
        keys["keys"][1]["observe"] = json!(true);
        std::fs::write(file, keys.to_string()).expect("writable");
    })
    .await
}

#[tokio::test]
async fn a_view_is_shared_by_a_link_that_ends() {
    let guarded = guarded().await;
    let keys = format!("{A} {B}");
    Visit::start("shares.mjs", &guarded.url, &keys)
        .passes()
        .await;
    let log = guarded.process.output();
    assert!(!log.contains("eyJ"), "{log}");
}

async fn ask(
    guarded: &Guarded,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: Value,
) -> Response {
    let url = format!("{}{path}", guarded.url.trim_end_matches("/acp"));
    let mut request = reqwest::Client::new().request(method, url);
    request = request.header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let sent = request.body(body.to_string()).send().await;
    sent.expect("the gateway answers")
}

#[tokio::test]
async fn a_link_is_made_by_who_owns_the_session_and_for_a_day_at_most() {
    let guarded = guarded().await;
    let session = guarded.open(A).await.new_session().await;
    let (alice, watcher) = (format!("Bearer {A}"), format!("Bearer {B}"));
    let asked = json!({ "sessionId": session, "expiresIn": 10_000_000 });
    let shares = async |bearer: &str, body: &Value| {
        let headers = [("authorization", bearer)];
        ask(&guarded, Method::POST, "/v1/shares", &headers, body.clone()).await
    };
    let made: Value = {
        let made = shares(&alice, &asked).await;
        assert_eq!(made.status(), StatusCode::OK);
        assert_eq!(made.headers()["cache-control"], "no-store");
        serde_json::from_str(&made.text().await.unwrap()).unwrap()
    };
    let until = made["expiresAt"].as_str().expect("a date");
    let until = humantime::parse_rfc3339(until).expect("a date");
    let left = until.duration_since(std::time::SystemTime::now()).unwrap();
    assert!(left.as_secs() <= 24 * 3600, "{left:?}");
    assert_eq!(
        shares(&watcher, &asked).await.status(),
        StatusCode::FORBIDDEN
    );
    let foreign = json!({ "sessionId": "000-0123456789012345678901", "expiresIn": 60 });
    assert_eq!(
        shares(&alice, &foreign).await.status(),
        StatusCode::NOT_FOUND
    );
    let odd = json!({ "sessionId": session });
    assert_eq!(shares(&alice, &odd).await.status(), StatusCode::BAD_REQUEST);

    // The token of a link is no credential, and no other token is a link.
    let token = made["token"].as_str().expect("a token");
    let bearer = format!("Bearer {token}");
    for headers in [
        &[("authorization", bearer.as_str())][..],
        &[("acp-session-token", token)],
        &[("authorization", &alice), ("acp-session-token", token)],
    ] {
        let prompt = json!({
            "jsonrpc": "2.0", "id": 1, "method": "session/load",
            "params": { "sessionId": session, "cwd": "/tmp", "mcpServers": [] },
        });
        let answer = ask(&guarded, Method::POST, "/acp", headers, prompt).await;
        assert!(answer.status().is_client_error(), "{headers:?}");
    }
    let own = guarded.url.trim_end_matches("/acp").to_owned();
    let page = [("origin", own.as_str())];
    for token in ["", "x", "a.b.c"] {
        let body = json!({ "token": token });
        let opened = ask(&guarded, Method::POST, "/v1/shares/open", &page, body).await;
        assert_eq!(opened.status(), StatusCode::UNAUTHORIZED, "{token}");
        assert!(!opened.headers().contains_key("set-cookie"));
    }
    let body = json!({ "token": token });
    let opened = ask(&guarded, Method::POST, "/v1/shares/open", &page, body).await;
    assert_eq!(opened.status(), StatusCode::OK);
    let cookies = opened.headers().get_all("set-cookie").iter();
    assert_eq!(cookies.count(), 2);
}
