//! What pages could do with the rights of who looks at them.

use baton_session::id::SessionId;
use baton_session::token::carriers;
use reqwest::{Method, StatusCode};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::forge::{Forge, SESSION, claims};
use super::{Probe, guarded, guarded_and};
use crate::auth::{A, B, Guarded};
use crate::browser::{PAGE, SAME, bearer, enter, login, open, send, ticket_of};
use crate::support::websocket::{Socket, initialize};
use crate::support::within;

const EVIL: (&str, &str) = ("origin", "https://evil.example");

/// Headers beside a login's cookie, and whether it counts with them.
const PAGES: [(&[(&str, &str)], u16); 11] = [
    (&[PAGE], 200),
    (&[SAME], 200),
    (&[PAGE, ("sec-fetch-site", "same-site")], 200),
    (&[], 401),
    (&[("sec-fetch-site", "same-site")], 401),
    (&[("sec-fetch-site", "cross-site")], 401),
    (&[("sec-fetch-site", "none")], 401),
    (&[PAGE, ("sec-fetch-site", "cross-site")], 401),
    (&[EVIL], 403),
    (&[EVIL, SAME], 403),
    (&[("origin", "null"), SAME], 403),
];

/// The cookie in which a browser has a session's token.
fn session_cookie(session: &str, token: &str) -> String {
    let session = SessionId::parse(session).expect("an id");
    let cookie = carriers::set_cookie(&session, &token.to_owned().into(), 60);
    cookie.split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn row_18_csrf() {
    let guarded = guarded().await;
    let url = &guarded.url;
    let cookie = login(url, &bearer(A)).await;
    let cookie = ("cookie", cookie.as_str());
    for (page, expected) in PAGES {
        let headers = [&[cookie], page].concat();
        assert_eq!(open(url, &headers).await, expected, "{page:?}");
        let asked = send(url, Method::POST, "/v1/tickets", &headers, None).await;
        assert_eq!(asked.status(), expected, "a ticket with {page:?}");
    }
    assert_eq!(open(url, &[PAGE, SAME]).await, 401, "no cookie");
    // A form cannot send what is no form.
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
    ] {
        for page in [PAGE, EVIL] {
            let form = [cookie, page, ("content-type", kind)];
            let sent = send(url, Method::POST, "/acp", &form, None).await;
            let expected = if page == PAGE { 415 } else { 403 };
            assert_eq!(sent.status(), expected, "{kind}");
        }
    }
    // A stream, as a page of the gateway's own origin reads it; the cookie alone opens none.
    let opened = send(
        url,
        Method::POST,
        "/acp",
        &[cookie, SAME],
        Some(initialize()),
    )
    .await;
    let connection = opened.headers()["acp-connection-id"].to_str().unwrap();
    let named = [
        ("acp-connection-id", connection),
        ("accept", "text/event-stream"),
    ];
    for (headers, expected) in [
        (&[cookie, SAME, named[0], named[1]][..], 200),
        (&[cookie, SAME, named[1]], 400),
        (&[cookie, named[0], named[1]], 401),
        (&[cookie, EVIL, named[0], named[1]], 403),
    ] {
        let stream = send(url, Method::GET, "/acp", headers, None).await;
        assert_eq!(stream.status(), expected, "{headers:?}");
    }
    // Nor does a session's cookie, without the header that names the session.
    let token = Forge::of(&guarded).token(SESSION, &claims("key:alice"));
    let session = super::forge::said(&token)["sid"]
        .as_str()
        .unwrap()
        .to_owned();
    let both = format!("{}; {}", cookie.1, session_cookie(&session, &token));
    let both = [("cookie", both.as_str()), SAME, named[1]];
    for (more, expected) in [
        (None, 400),
        (Some(("acp-session-id", session.as_str())), 200),
    ] {
        let headers: Vec<_> = both.into_iter().chain(more).collect();
        let stream = send(url, Method::GET, "/acp", &headers, None).await;
        assert_eq!(stream.status(), expected, "{headers:?}");
    }
}

#[tokio::test]
async fn row_19_cross_site_websockets() {
    let guarded = guarded().await;
    let url = &guarded.url;
    let cookie = login(url, &bearer(A)).await;
    for (page, expected) in PAGES {
        let headers = [&[("cookie", cookie.as_str())], page].concat();
        let upgraded = Socket::try_open(url, &headers).await;
        let upgraded = upgraded.err().map_or(200, |refused| refused.0);
        assert_eq!(upgraded, expected, "{page:?}");
    }
    // Whatever else it brings, a page from elsewhere stays out, and uses nothing up.
    let ticket = ticket_of(url, A).await;
    let offered = format!("acp, baton.ticket.{ticket}");
    let key = bearer(A);
    for headers in [
        &[EVIL, ("sec-websocket-protocol", offered.as_str())][..],
        &[EVIL, ("authorization", &key)],
        &[("origin", "null"), ("authorization", &key)],
        &[
            ("origin", "http://localhost.evil.example"),
            ("authorization", &key),
        ],
    ] {
        assert_eq!(Socket::try_open(url, headers).await.err().unwrap().0, 403);
    }
    enter(url, &ticket).await.expect("a good ticket");
}

/// The status of a request that is sent as it stands.
pub async fn raw(url: &str, request: &str) -> u16 {
    let address = url.trim_start_matches("http://").trim_end_matches("/acp");
    let mut socket = TcpStream::connect(address).await.expect("it listens");
    socket
        .write_all(request.as_bytes())
        .await
        .expect("it reads");
    let mut answer = [0; 12];
    let read = within("a status", socket.read_exact(&mut answer)).await;
    read.expect("an answer");
    let status = String::from_utf8_lossy(&answer[9..]).into_owned();
    status.parse().expect("a status")
}

#[tokio::test]
async fn row_20_dns_rebinding() {
    let arguments = [
        "--allow-host",
        "baton.example",
        "--allow-origin",
        "https://app.example",
    ];
    let open = Guarded::start(&arguments, |_| ()).await;
    let port = open
        .url
        .trim_end_matches("/acp")
        .rsplit(':')
        .next()
        .unwrap();
    let body = initialize().to_string();
    let length = body.len();
    let by = async |hosts: &[&str], first_line: &str| {
        let hosts: String = hosts
            .iter()
            .map(|host| format!("Host: {host}\r\n"))
            .collect();
        let request = format!(
            "{first_line} HTTP/1.1\r\n{hosts}Content-Type: application/json\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        raw(&open.url, &request).await
    };
    let (with_port, v6) = (format!("localhost:{port}"), format!("[::1]:{port}"));
    for host in [
        "localhost",
        &with_port,
        "127.0.0.1",
        "[::1]",
        &v6,
        "LOCALHOST:1",
        "baton.example:443",
    ] {
        assert_eq!(by(&[host], "POST /acp").await, 200, "{host}");
    }
    let rebound = format!("evil.example:{port}");
    for host in [
        "evil.example",
        &rebound,
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "0.0.0.0",
        "evil.example@localhost:x",
        "",
        "[::1",
        "localhost.",
    ] {
        let status = by(&[host], "POST /acp").await;
        assert!(matches!(status, 400 | 403), "{host}: {status}");
    }
    for hosts in [
        &[][..],
        &["localhost", "evil.example"],
        &["localhost", "localhost"],
    ] {
        assert!(
            matches!(by(hosts, "POST /acp").await, 400 | 403),
            "{hosts:?}"
        );
    }
    let absolute = "POST http://evil.example/acp";
    assert_eq!(by(&["localhost"], absolute).await, 403);
    let lines = [
        "GET /acp",
        "DELETE /acp",
        "POST /v1/tickets",
        "POST /v1/login",
        "GET /v1/sessions/x/export",
    ];
    for line in lines {
        assert_eq!(by(&["evil.example"], line).await, 403, "{line}");
    }
    let upgrade = Socket::try_open(&open.url, &[("host", "evil.example")]).await;
    assert_eq!(upgrade.err().unwrap().0, 403);

    let status = async |headers: &[(&str, &str)]| {
        let sent = open.send(Method::POST, None, headers, Some(initialize()));
        sent.await.status().as_u16()
    };
    assert_eq!(status(&[("origin", "https://app.example")]).await, 200);
    assert_eq!(status(&[PAGE]).await, 200);
    for origin in [
        "https://evil.example",
        "null",
        "",
        "http://localhost.evil.example",
        "file://",
    ] {
        assert_eq!(status(&[("origin", origin)]).await, 403, "{origin}");
    }
    assert_eq!(status(&[PAGE, EVIL]).await, 403);
    for (origin, expected) in [("https://app.example", 204), ("https://evil.example", 403)] {
        let asked = [
            ("origin", origin),
            ("access-control-request-method", "POST"),
        ];
        let answer = open.send(Method::OPTIONS, None, &asked, None).await;
        assert_eq!(answer.status(), expected);
        let allowed = answer.headers().get("access-control-allow-origin");
        assert_eq!(
            allowed.is_some_and(|allowed| allowed == origin),
            expected == 204
        );
    }
}

#[tokio::test]
async fn row_21_planted_cookies() {
    let guarded = guarded().await;
    let url = &guarded.url;
    let mine = login(url, &bearer(A)).await;
    let planted = login(url, &bearer(B)).await;
    for cookies in [
        format!("{planted}; {mine}"),
        format!("{mine}; {mine}"),
        format!("{mine}; __Host-baton-login="),
        "__Host-baton-login=".to_owned(),
        mine.replace("__Host-", ""),
        mine.replace("__Host-", "__host-"),
        format!("{mine}x"),
    ] {
        let status = open(url, &[("cookie", &cookies), PAGE]).await;
        assert_eq!(status, 401, "{cookies}");
    }
    // Whoever shows a credential is who that says, whatever the browser has.
    let session = guarded.open(A).await.new_session().await;
    let export = format!("/v1/sessions/{session}/export");
    let with = async |credential: &str| {
        let headers = [
            ("cookie", mine.as_str()),
            PAGE,
            ("authorization", credential),
        ];
        let answer = send(url, Method::GET, &export, &headers, None).await;
        answer.status()
    };
    assert_eq!(with(&bearer(A)).await, 200);
    assert_eq!(with(&bearer(B)).await, 404);
    assert_eq!(with("Bearer wrong").await, 401);
    assert_eq!(with("Basic YTpi").await, 401);
    let alone = [("cookie", mine.as_str()), PAGE];
    let answer = send(url, Method::GET, &export, &alone, None).await;
    assert_eq!(answer.status(), 200);
    // A login is made with the credential, not with another login.
    let again = send(url, Method::POST, "/v1/login", &alone, None).await;
    assert_eq!(again.status(), 401);
    assert!(!again.headers().contains_key("set-cookie"));

    // The cookies of a session: of two neither counts, and the header does.
    let (forge, alice) = (Forge::of(&guarded), Probe::of(&guarded, Some(A)));
    let mut claims = claims("key:alice");
    claims["sid"] = json!(session);
    let token = forge.token(SESSION, &claims);
    claims["fam"] = json!("planted");
    let mine = session_cookie(&session, &token);
    let planted = session_cookie(&session, &forge.token(SESSION, &claims));
    let get = async |cookies: &str, header: bool| {
        let header = header.then_some(("acp-session-token", token.as_str()));
        let named = [("cookie", cookies), ("acp-session-id", session.as_str())];
        let headers: Vec<_> = named.into_iter().chain(header).collect();
        alice.get(&headers).await
    };
    assert_eq!(get(&mine, false).await, 200);
    assert_eq!(get(&mine, true).await, 200);
    assert_eq!(get(&planted, true).await, 400, "they differ");
    for cookies in [
        format!("{mine}; {planted}"),
        format!("{planted}; {mine}"),
        planted.replace("__Host-", ""),
        planted.replace("__Host-", "__Secure-"),
    ] {
        assert_eq!(get(&cookies, false).await, 400, "{cookies}");
        assert_eq!(get(&cookies, true).await, 200, "{cookies}");
    }
}

#[tokio::test]
async fn row_23_tokens_in_urls() {
    let guarded = guarded_and(&[]).await;
    let alice = guarded.open(A).await;
    let session = Forge::of(&guarded).token(SESSION, &claims("key:alice"));
    let ticket = ticket_of(&guarded.url, A).await;
    let key = bearer(A);
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "session/list", "params": {} });
    for name in [
        "session_id",
        "sessionId",
        "session",
        "token",
        "acp-connection-id",
        "Acp-Connection-Id",
        "connection",
        "acp-session-token",
        "resume",
    ] {
        for token in [&alice.connection, &session] {
            let path = format!("/acp?{name}={token}");
            for (method, body) in [
                (Method::GET, None),
                (Method::POST, Some(list.clone())),
                (Method::DELETE, None),
            ] {
                let headers = [
                    ("authorization", key.as_str()),
                    ("accept", "text/event-stream, application/json"),
                ];
                let answer = send(&guarded.url, method, &path, &headers, body).await;
                assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{name}");
                assert_eq!(answer.headers()["referrer-policy"], "no-referrer");
            }
        }
    }
    for token in [&alice.connection, &session, &ticket, &A.to_owned()] {
        // Neither in a path,
        for path in [format!("/acp/{token}"), format!("/{token}/acp")] {
            let headers = [("authorization", key.as_str())];
            let answer = send(&guarded.url, Method::GET, &path, &headers, None).await;
            // A key might be the name of an agent; it brings no connection along.
            let expected = match path == format!("/acp/{A}") {
                true => StatusCode::BAD_REQUEST,
                false => StatusCode::NOT_FOUND,
            };
            assert_eq!(answer.status(), expected);
            let answer = send(&guarded.url, Method::GET, &path, &[], None).await;
            let outside = [StatusCode::UNAUTHORIZED, StatusCode::NOT_FOUND];
            assert!(outside.contains(&answer.status()));
        }
        // nor as what says who calls.
        for name in ["access_token", "token", "ticket", "key", "authorization"] {
            let path = format!("/acp?{name}={token}");
            let answer = send(&guarded.url, Method::POST, &path, &[], Some(initialize())).await;
            assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{name}");
            let url = guarded.url.replace("/acp", &path);
            assert_eq!(
                Socket::try_open(&url, &[]).await.err().unwrap().0,
                401,
                "{name}"
            );
        }
    }
    // None of this has used anything up.
    enter(&guarded.url, &ticket).await.expect("a good ticket");
    assert!(!alice.new_session().await.is_empty());
}
