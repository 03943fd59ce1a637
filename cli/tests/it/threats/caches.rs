//! What is left behind on the way: a shared cache between two callers.

use std::fs;
use std::path::Path;
use std::process::Command;

use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};

use super::forge::{Forge, SESSION, claims, said};
use super::guarded;
use crate::auth::provider::now;
use crate::auth::{A, B};
use crate::browser::{PAGE, bearer, open, send};
use crate::support::Stream;
use crate::support::cluster::{address, ready, url};
use crate::support::http::{new_session, prompt};
use crate::support::process::{Process, free_port};
use crate::support::websocket::{Socket, initialize};

/// A cache that keeps whatever it may, and takes requests to one path for the same.
fn cache(dir: &Path, port: u16, gateway: u16) -> Process {
    let base = dir.display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|what| format!("{what}_temp_path {base}/{what};\n"))
        .concat();
    let (listen, gateway) = (address(port), address(gateway));
    let text = format!(
        "events {{}}
        http {{
            {temporary}
            access_log off;
            proxy_cache_path {base}/cache keys_zone=shared:1m;
            server {{
                listen {listen};
                location / {{
                    proxy_pass http://{gateway};
                    proxy_http_version 1.1;
                    proxy_set_header Host localhost;
                    proxy_cache shared;
                    proxy_cache_methods GET HEAD POST;
                    proxy_cache_key $uri;
                    proxy_cache_valid any 10m;
                    add_header X-Cache $upstream_cache_status always;
                }}
            }}
        }}"
    );
    let path = dir.join("cache.conf");
    fs::write(&path, text).expect("the directory is writable");
    let globals = format!("daemon off; master_process off; pid {base}/nginx.pid;");
    let mut command = Command::new("nginx");
    let known = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{known}:/usr/sbin:/usr/local/sbin"));
    command.args(["-g", &globals, "-e", "stderr", "-p"]);
    command.arg(dir).arg("-c").arg(path);
    Process::start(dir, "cache", &mut command)
}

/// Nobody in between may keep what this answer has.
fn is_kept_by_nobody(answer: &Response) {
    assert_eq!(answer.headers()["cache-control"], "no-store", "{answer:?}");
}

#[tokio::test]
async fn row_39_caches_in_between() {
    let guarded = guarded().await;
    let gateway = guarded
        .url
        .trim_end_matches("/acp")
        .rsplit(':')
        .next()
        .unwrap();
    let port = free_port();
    let _cache = cache(guarded.dir.path(), port, gateway.parse().unwrap());
    ready(port).await;
    let (cached, base) = (url(port), url(port).replace("/acp", ""));
    // It does keep what it may.
    for expected in ["MISS", "HIT"] {
        let keys = reqwest::get(format!("{base}/.well-known/jwks.json")).await;
        assert_eq!(keys.unwrap().headers()["x-cache"], expected);
    }
    let (a, b) = (bearer(A), bearer(B));
    let mut seen: Vec<String> = Vec::new();
    let mut fresh = |value: &str| {
        assert!(
            !seen.iter().any(|seen| seen == value),
            "seen before: {value}"
        );
        seen.push(value.to_owned());
    };
    // Nobody's refusal is another's.
    assert_eq!(open(&cached, &[]).await, 401);
    for key in [&a, &b, &a] {
        let headers = [("authorization", key.as_str()), PAGE];
        let opened = send(&cached, Method::POST, "/acp", &headers, Some(initialize())).await;
        is_kept_by_nobody(&opened);
        let connection = opened.headers()["acp-connection-id"]
            .to_str()
            .unwrap()
            .to_owned();
        fresh(&connection);
        for path in ["/v1/tickets", "/v1/login"] {
            let answer = send(&cached, Method::POST, path, &headers, None).await;
            is_kept_by_nobody(&answer);
            match answer.headers().get("set-cookie") {
                Some(cookie) => fresh(cookie.to_str().unwrap()),
                None => {
                    let answer: Value =
                        serde_json::from_str(&answer.text().await.unwrap()).unwrap();
                    fresh(answer["ticket"].as_str().unwrap());
                }
            }
        }
        let named = [headers[0], PAGE, ("acp-connection-id", &connection)];
        let accepted = send(
            &cached,
            Method::POST,
            "/acp",
            &named,
            Some(new_session(json!(1))),
        )
        .await;
        assert_eq!(accepted.status(), StatusCode::ACCEPTED);
        is_kept_by_nobody(&accepted);
        fresh(accepted.headers()["acp-session-token"].to_str().unwrap());
        fresh(accepted.headers()["set-cookie"].to_str().unwrap());
        // In the body of the POST as well, although that is a stream.
        let one_shot = [&named[..], &[("accept", "text/event-stream")]].concat();
        let made = send(
            &cached,
            Method::POST,
            "/acp",
            &one_shot,
            Some(new_session(json!(2))),
        )
        .await;
        is_kept_by_nobody(&made);
        fresh(made.headers()["acp-session-token"].to_str().unwrap());
        let session =
            Stream::unchecked(made).response(&json!(2)).await["result"]["sessionId"].clone();
        let session = session.as_str().unwrap();
        fresh(session);
        // So is a token that is renewed with an answer.
        let principal = if *key == a { "key:alice" } else { "key:bob" };
        let mut old = claims(principal);
        old["sid"] = json!(session);
        old["iat"] = json!(now() - 3000);
        old["exp"] = json!(now() + 600);
        let old = Forge::of(&guarded).token(SESSION, &old);
        let alone = [
            headers[0],
            ("acp-session-token", old.as_str()),
            ("accept", "text/event-stream"),
        ];
        let body = Some(prompt(json!(3), session, "/count 1"));
        for (method, body) in [(Method::POST, body), (Method::GET, None)] {
            let answer = send(&cached, method, "/acp", &alone, body).await;
            assert_eq!(answer.status(), StatusCode::OK);
            is_kept_by_nobody(&answer);
            let renewed = answer.headers()["acp-session-token"].to_str().unwrap();
            assert_eq!(said(renewed)["sid"], json!(session));
        }
    }
    let socket = Socket::try_open(&cached, &[("authorization", &a)]).await;
    // The cache speaks no WebSocket; asked itself, the gateway says it there, too.
    assert!(socket.is_err());
    let upgrade = [
        ("authorization", a.as_str()),
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    let upgraded = send(&guarded.url, Method::GET, "/acp", &upgrade, None).await;
    assert_eq!(upgraded.status(), StatusCode::SWITCHING_PROTOCOLS);
    is_kept_by_nobody(&upgraded);
}
