//! Callers that cannot send headers of their own: tickets for WebSockets, logins for pages.

use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};

use crate::auth::provider::{Provider, claims, now, with_tokens};
use crate::auth::{A, B, Guarded, write_keys};
use crate::support::auth::{ALICE, BOB};
use crate::support::process::ADMIN_TOKEN;
use crate::support::websocket::{Socket, initialize};
use crate::support::{Client, Cluster, Stream, until};

pub const PAGE: (&str, &str) = ("origin", "http://localhost:3000");
pub const SAME: (&str, &str) = ("sec-fetch-site", "same-origin");

/// A request to another path than that of `url`, as it stands.
pub async fn send(
    url: &str,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<Value>,
) -> Response {
    let url = url.replace("/acp", path);
    let posts = method == Method::POST;
    let mut request = reqwest::Client::new().request(method, url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    if posts {
        request = request.header("content-type", "application/json");
    }
    if let Some(body) = body {
        request = request.body(body.to_string());
    }
    request.send().await.expect("the gateway answers")
}

pub async fn open(url: &str, headers: &[(&str, &str)]) -> StatusCode {
    let opened = send(url, Method::POST, "/acp", headers, Some(initialize())).await;
    opened.status()
}

pub fn bearer(key: &str) -> String {
    format!("Bearer {key}")
}

pub async fn ticket(url: &str, headers: &[(&str, &str)]) -> String {
    let response = send(url, Method::POST, "/v1/tickets", headers, None).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["cache-control"], "no-store");
    let answer: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
    assert_eq!(answer["expiresIn"], 30);
    answer["ticket"].as_str().expect("a ticket").to_owned()
}

pub async fn ticket_of(url: &str, key: &str) -> String {
    ticket(url, &[("authorization", &bearer(key))]).await
}

/// As a page opens a socket: with a ticket among the subprotocols.
pub async fn enter(url: &str, ticket: &str) -> Result<Socket, (u16, Option<String>, String)> {
    let offered = format!("baton.ticket.{ticket}, acp");
    Socket::try_open(url, &[("sec-websocket-protocol", &offered)]).await
}

/// The `name=value` of a login.
pub async fn login(url: &str, credential: &str) -> String {
    let headers = [("authorization", credential)];
    let response = send(url, Method::POST, "/v1/login", &headers, None).await;
    assert_eq!(response.status(), StatusCode::NO_CONTENT);
    assert_eq!(response.headers()["cache-control"], "no-store");
    let cookie = response.headers()["set-cookie"].to_str().unwrap();
    for part in ["; Path=/", "; Secure", "; HttpOnly", "; SameSite=Strict"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains("Domain"), "{cookie}");
    let pair = cookie.split(';').next().unwrap();
    assert!(pair.starts_with("__Host-baton-login="), "{cookie}");
    pair.to_owned()
}

#[tokio::test]
async fn a_ticket_opens_one_socket_on_whichever_gateway() {
    let cluster = Cluster::start_with_keys().await;
    let ticket = ticket_of(&cluster.gateway_url(0), ALICE).await;
    // By whichever path, too.
    let path = format!("{}/scripted", cluster.gateway_url(1));
    let mut socket = enter(&path, &ticket).await.expect("let in");
    // A browser would give up otherwise; and the ticket is not told again.
    assert_eq!(socket.protocol.as_deref(), Some("acp"));
    socket.send(initialize()).await;
    assert_eq!(socket.next().await["id"], 0);
    socket
        .send(crate::support::http::new_session(json!(1)))
        .await;
    let session = socket.next().await["result"]["sessionId"].clone();
    let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "session/list", "params": {} });
    for (key, expected) in [(ALICE, json!([session])), (BOB, json!([]))] {
        let client = Client::with_key(&cluster.url(), key).await;
        let listed = client
            .one_shot(list.clone())
            .await
            .response(&json!(2))
            .await;
        let sessions = listed["result"]["sessions"].as_array().unwrap().iter();
        let ids: Vec<_> = sessions.map(|known| known["sessionId"].clone()).collect();
        assert_eq!(json!(ids), expected, "{key}");
    }
    let forged = enter(&cluster.gateway_url(0), "a.b.c").await.err().unwrap();
    assert_eq!((forged.0, forged.1.as_deref()), (401, Some("Bearer")));
    for gateway in 0..2 {
        let again = enter(&cluster.gateway_url(gateway), &ticket).await;
        assert_eq!(again.err(), Some(forged.clone()), "gateway {gateway}");
    }
    // Many at once, at both: one of them is let in.
    let ticket = ticket_of(&cluster.url(), ALICE).await;
    let urls = [cluster.gateway_url(0), cluster.gateway_url(1)];
    let tries = (0..8).map(|at| enter(&urls[at % 2], &ticket));
    let entered = futures_util::future::join_all(tries).await;
    let entered = entered.iter().filter(|entered| entered.is_ok());
    assert_eq!(entered.count(), 1);
}

#[tokio::test]
async fn a_ticket_is_a_subprotocol_beside_another_and_nothing_else() {
    let guarded = Guarded::with_keys().await;
    let (url, key) = (&guarded.url, bearer(A));
    let ticket = ticket_of(url, A).await;
    let offered = format!("baton.ticket.{ticket}");
    let refused = Socket::try_open(url, &[("sec-websocket-protocol", &offered)]).await;
    let refused = refused.err().unwrap();
    assert_eq!(refused.0, 400);
    assert!(refused.2.contains("acp"), "{}", refused.2);
    // In a URL, as a bearer, for a request that is no upgrade.
    for query in ["ticket", "access_token", "token"] {
        let url = format!("{url}?{query}={ticket}");
        let refused = Socket::try_open(&url, &[]).await.err().unwrap();
        assert_eq!(refused.0, 401, "{query}");
    }
    let both = format!("acp, {offered}");
    assert_eq!(open(url, &[("authorization", &bearer(&ticket))]).await, 401);
    assert_eq!(open(url, &[("sec-websocket-protocol", &both)]).await, 401);
    // It opens a socket, and nothing that would outlast it.
    let base = url.trim_end_matches("/acp");
    for path in ["/acp", "/v1/tickets", "/v1/login"] {
        let request = reqwest::Client::new().post(format!("{base}{path}"));
        let request = request.header("upgrade", "websocket");
        let request = request.header("sec-websocket-protocol", &both);
        assert_eq!(request.send().await.unwrap().status(), 401, "{path}");
    }
    let cookie = format!("__Host-baton-login={ticket}");
    assert_eq!(open(url, &[("cookie", &cookie), PAGE]).await, 401);
    // Nor is another token a ticket.
    let connection = guarded.open(A).await.connection;
    assert_eq!(enter(url, &connection).await.err().unwrap().0, 401);
    let cookie = login(url, &key).await;
    let (_, token) = cookie.split_once('=').unwrap();
    assert_eq!(enter(url, token).await.err().unwrap().0, 401);
    // A credential that is wrong is not mended by a ticket.
    let headers = [
        ("authorization", "Bearer wrong"),
        ("sec-websocket-protocol", both.as_str()),
    ];
    assert_eq!(Socket::try_open(url, &headers).await.err().unwrap().0, 401);
    // None of this has used it.
    enter(url, &ticket).await.expect("a good ticket");
    // Who offers the subprotocol with a credential gets it, too.
    let headers = [
        ("authorization", key.as_str()),
        ("sec-websocket-protocol", "other, acp"),
    ];
    let socket = Socket::try_open(url, &headers).await.expect("let in");
    assert_eq!(socket.protocol.as_deref(), Some("acp"));
    let headers = [("authorization", key.as_str())];
    let socket = Socket::try_open(url, &headers).await.expect("let in");
    assert_eq!(socket.protocol, None);
}

async fn revoke_alice(cluster: &Cluster) {
    let revoked = reqwest::Client::new()
        .post(format!("{}/revocations", cluster.admin_url(0)))
        .bearer_auth(ADMIN_TOKEN)
        .header("content-type", "application/json")
        .body(json!({ "principal": "key:alice" }).to_string())
        .send()
        .await;
    assert_eq!(revoked.unwrap().status(), StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn what_stood_for_a_principal_that_was_revoked_is_refused() {
    let cluster = Cluster::start_with_keys().await;
    let url = cluster.gateway_url(0);
    let before = ticket_of(&url, ALICE).await;
    let cookie = login(&url, &bearer(ALICE)).await;
    let page = [("cookie", cookie.as_str()), PAGE];
    assert_eq!(open(&url, &page).await, 200);
    revoke_alice(&cluster).await;
    assert_eq!(enter(&url, &before).await.err().unwrap().0, 401);
    assert_eq!(open(&url, &page).await, 401);
    let other = cluster.gateway_url(1);
    until("the other gateway knows", async || {
        (open(&other, &page).await == 401).then_some(())
    })
    .await;
    // The key was not taken away: what is made with it now is good.
    let after = ticket_of(&url, ALICE).await;
    enter(&url, &after).await.expect("a good ticket");
    let cookie = login(&url, &bearer(ALICE)).await;
    assert_eq!(open(&url, &[("cookie", &cookie), PAGE]).await, 200);
}

#[tokio::test]
async fn what_stands_for_a_credential_ends_with_it() {
    let provider = Provider::new("k1");
    let guarded = with_tokens(&provider).await;
    let mut short = claims("alice");
    short["exp"] = json!(now() + 6);
    let token = bearer(&provider.token("k1", &short));
    let headers = [("authorization", token.as_str())];
    let answer = send(&guarded.url, Method::POST, "/v1/tickets", &headers, None).await;
    let answer: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
    assert!(answer["expiresIn"].as_u64().unwrap() <= 6, "{answer}");
    let ticket = answer["ticket"].as_str().unwrap();
    let mut socket = enter(&guarded.url, ticket).await.expect("let in");
    socket.send(initialize()).await;
    assert_eq!(socket.next().await["id"], 0);
    let answer = send(&guarded.url, Method::POST, "/v1/login", &headers, None).await;
    let cookie = answer.headers()["set-cookie"].to_str().unwrap().to_owned();
    let (_, age) = cookie.rsplit_once("Max-Age=").unwrap();
    assert!(age.parse::<u64>().unwrap() <= 6, "{age}");
    assert_eq!(socket.closed().await, 4003);
    let page = [("cookie", cookie.split(';').next().unwrap()), PAGE];
    assert_eq!(open(&guarded.url, &page).await, 401);
}

#[tokio::test]
async fn a_logout_ends_the_login_on_all_gateways_and_what_is_open_with_it() {
    let cluster = Cluster::start_with_keys().await;
    let urls = [cluster.gateway_url(0), cluster.gateway_url(1)];
    let cookie = login(&urls[0], &bearer(ALICE)).await;
    let other = login(&urls[0], &bearer(ALICE)).await;
    let page = [("cookie", cookie.as_str()), PAGE];
    let opened = send(&urls[1], Method::POST, "/acp", &page, Some(initialize())).await;
    let connection = opened.headers()["acp-connection-id"].to_str().unwrap();
    let reading = [
        page[0],
        page[1],
        ("acp-connection-id", connection),
        ("accept", "text/event-stream"),
    ];
    let stream = send(&urls[1], Method::GET, "/acp", &reading, None).await;
    assert_eq!(stream.status(), StatusCode::OK);
    let unused = ticket(&urls[0], &page).await;
    let used = ticket(&urls[0], &page).await;
    let mut socket = enter(&urls[1], &used).await.expect("let in");
    socket.send(initialize()).await;
    assert_eq!(socket.next().await["id"], 0);

    // Nobody else can do it for the page.
    let blind = [page[0]];
    let refused = send(&urls[0], Method::POST, "/v1/logout", &blind, None).await;
    assert_eq!(refused.status(), 401);
    let left = send(&urls[0], Method::POST, "/v1/logout", &page, None).await;
    assert_eq!(left.status(), StatusCode::NO_CONTENT);
    let cleared = left.headers()["set-cookie"].to_str().unwrap();
    assert!(cleared.starts_with("__Host-baton-login=;"), "{cleared}");
    assert!(cleared.ends_with("Max-Age=0"), "{cleared}");

    assert_eq!(open(&urls[0], &page).await, 401);
    Stream::unchecked(stream).ends().await;
    assert_eq!(socket.closed().await, 4003);
    assert_eq!(open(&urls[1], &page).await, 401);
    assert_eq!(enter(&urls[0], &unused).await.err().unwrap().0, 401);
    // Another login of the same principal is another matter.
    assert_eq!(open(&urls[1], &[("cookie", &other), PAGE]).await, 200);
}

#[tokio::test]
async fn a_login_is_over_when_its_principal_has_no_key_any_more() {
    let guarded = Guarded::with_keys().await;
    let cookie = login(&guarded.url, &bearer(B)).await;
    let page = [("cookie", cookie.as_str()), PAGE];
    assert_eq!(open(&guarded.url, &page).await, 200);
    write_keys(guarded.dir.path(), &[("alice", A)]);
    until("the key is gone", async || {
        (open(&guarded.url, &page).await == 401).then_some(())
    })
    .await;
}

#[tokio::test]
async fn where_nobody_is_asked_a_login_says_nothing() {
    let open = Guarded::start(&[], |_| ()).await;
    let answer = send(&open.url, Method::POST, "/v1/login", &[PAGE], None).await;
    assert_eq!(answer.status(), StatusCode::NO_CONTENT);
    assert!(!answer.headers().contains_key("set-cookie"));
    // The same page works all the same.
    let ticket = ticket(&open.url, &[PAGE]).await;
    let socket = enter(&open.url, &ticket).await.expect("let in");
    assert_eq!(socket.protocol.as_deref(), Some("acp"));
}
