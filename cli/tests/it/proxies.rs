//! What proxies say about clients is believed if the proxy is known, and from nobody else.

use reqwest::{Response, StatusCode};
use serde_json::json;
use tempfile::TempDir;

use crate::support::auth::{ALICE, write_keys};
use crate::support::cluster::{address, ready, url};
use crate::support::process::{Process, baton, free_port};
use crate::support::until;

struct Gateway {
    process: Process,
    url: String,
    _dir: TempDir,
}

impl Gateway {
    async fn start(arguments: &[&str]) -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        write_keys(dir.path());
        let port = free_port();
        let mut command = baton();
        command.current_dir(dir.path()).env("BATON_LOG", "debug");
        command.args(["serve", "--ephemeral", "--listen", &address(port)]);
        let process = Process::start(dir.path(), "serve", command.args(arguments));
        ready(port).await;
        Self {
            process,
            url: url(port),
            _dir: dir,
        }
    }

    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Response {
        let mut request = reqwest::Client::new().get(self.url.replace("/acp", path));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.send().await.expect("an answer")
    }

    async fn initialize(&self, headers: &[(&str, &str)]) -> Response {
        let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": { "protocolVersion": 1 } });
        let mut request = reqwest::Client::new().post(&self.url).bearer_auth(ALICE);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.header("content-type", "application/json");
        request
            .body(body.to_string())
            .send()
            .await
            .expect("an answer")
    }

    /// The peer that is named in the log for a request that is refused, and whether its answer says
    /// that it came with https.
    async fn sees(&self, headers: &[(&str, &str)]) -> (String, bool) {
        let named = |text: &str| {
            let lines = text
                .lines()
                .filter(|line| line.contains("refused a request"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let before = named(&self.process.output()).len();
        let answer = self.get("/acp", headers).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
        let line = until("it is logged", async || {
            let lines = named(&self.process.output());
            lines.get(before).cloned()
        })
        .await;
        let (_, peer) = line.split_once("peer=").expect("a peer");
        let peer = peer.split_whitespace().next().unwrap_or_default();
        let secure = answer.headers().contains_key("strict-transport-security");
        (peer.trim_matches('\u{1b}').to_owned(), secure)
    }
}

const SPOOFED: [(&str, &str); 2] = [
    ("x-forwarded-for", "203.0.113.7"),
    ("x-forwarded-proto", "https"),
];

#[tokio::test]
async fn nobody_is_believed_who_is_not_listed() {
    for arguments in [&[][..], &["--trust-proxy", "10.0.0.0/8,::1"]] {
        let gateway = Gateway::start(arguments).await;
        let here = ("127.0.0.1".to_owned(), false);
        assert_eq!(gateway.sees(&SPOOFED).await, here);
        let forwarded = [("forwarded", "for=203.0.113.7;proto=https")];
        assert_eq!(gateway.sees(&forwarded).await, here);
        // Nor can it do harm.
        assert_eq!(gateway.sees(&[("forwarded", "\"")]).await, here);
        let elsewhere = [("x-forwarded-host", "evil.example")];
        assert_eq!(gateway.sees(&elsewhere).await, here);
    }
}

#[tokio::test]
async fn a_listed_proxy_is_believed_as_far_as_the_list_goes() {
    let trusted = ["--trust-proxy", "127.0.0.0/8, 10.1.0.0/16,fd00::/8"];
    let gateway = Gateway::start(&trusted).await;
    let is = |address: &str, secure| (address.to_owned(), secure);
    assert_eq!(gateway.sees(&[]).await, is("127.0.0.1", false));
    assert_eq!(gateway.sees(&SPOOFED).await, is("203.0.113.7", true));
    // What comes before the first stranger is what that stranger says.
    let hops = [
        ("x-forwarded-for", "198.51.100.1, 203.0.113.7"),
        ("x-forwarded-for", "10.1.2.3, fd00::1"),
        ("x-forwarded-proto", "https,http,https,https"),
    ];
    assert_eq!(gateway.sees(&hops).await, is("203.0.113.7", false));
    let quoted = r#"for=198.51.100.1;proto=http, For="[2001:db8::7]:4711";Proto=https;by=_lb, for=10.1.2.3;proto=http"#;
    let forwarded = [("forwarded", quoted)];
    assert_eq!(gateway.sees(&forwarded).await, is("2001:db8::7", true));

    for confused in [
        &[("forwarded", "for=\"203.0.113.7")][..],
        &[("forwarded", "for=127.0.0.1"), SPOOFED[0]],
    ] {
        let answer = gateway.get("/acp", confused).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
        let said = answer.text().await.expect("a body");
        assert!(
            said.contains("the proxy") || said.contains("a proxy"),
            "{said}"
        );
    }
}

#[tokio::test]
async fn the_name_that_a_proxy_was_asked_by_is_checked_too() {
    let arguments = [
        "--trust-proxy",
        "127.0.0.1",
        "--allow-host",
        "baton.example",
    ];
    let gateway = Gateway::start(&arguments).await;
    for (name, value, status) in [
        ("x-forwarded-host", "baton.example:443", StatusCode::OK),
        ("x-forwarded-host", "evil.example", StatusCode::FORBIDDEN),
        (
            "x-forwarded-host",
            "baton.example, evil.example",
            StatusCode::FORBIDDEN,
        ),
        ("forwarded", "host=baton.example", StatusCode::OK),
        (
            "forwarded",
            "host=\"evil.example:443\"",
            StatusCode::FORBIDDEN,
        ),
    ] {
        let answer = gateway.initialize(&[(name, value)]).await;
        assert_eq!(answer.status(), status, "{name}: {value}");
    }
}

const ASKS: [&str; 4] = ["--auth", "keys", "--auth-keys", "api-keys.json"];

#[tokio::test]
async fn credentials_that_came_in_clear_text_are_refused() {
    let trusted = ["--trust-proxy", "127.0.0.1"];
    let gateway = Gateway::start(&[&ASKS[..], &trusted].concat()).await;
    let in_clear = [
        ("x-forwarded-for", "203.0.113.7"),
        ("x-forwarded-proto", "http"),
    ];
    let silent = [("x-forwarded-for", "203.0.113.7")];
    for headers in [&in_clear[..], &silent] {
        let answer = gateway.initialize(headers).await;
        assert_eq!(answer.status(), StatusCode::FORBIDDEN);
        let said = answer.text().await.expect("a body");
        assert!(said.contains("https"), "{said}");
        // Probes bring none.
        assert_eq!(
            gateway.get("/readyz", headers).await.status(),
            StatusCode::OK
        );
    }
    assert_eq!(gateway.initialize(&SPOOFED).await.status(), StatusCode::OK);
    assert_eq!(gateway.initialize(&[]).await.status(), StatusCode::OK);

    let careless = [&ASKS[..], &trusted, &["--insecure"]].concat();
    let gateway = Gateway::start(&careless).await;
    assert_eq!(gateway.initialize(&in_clear).await.status(), StatusCode::OK);
}

#[test]
fn a_gateway_that_asks_for_credentials_does_not_take_them_in_clear_text_from_afar() {
    let dir = TempDir::new().expect("a temporary directory");
    write_keys(dir.path());
    // One fault is always there, so that nothing is ever started.
    let start = |arguments: &[&str]| {
        let mut command = baton();
        command.current_dir(dir.path());
        command.args(["serve", "--ephemeral", "--queue-limit", "0"]);
        let output = command.args(ASKS).args(arguments).output();
        let output = output.expect("baton runs");
        assert_eq!(output.status.code(), Some(64));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let afar = ["--listen", "0.0.0.0:0"];
    let said = start(&afar);
    assert!(
        said.contains("--tls-cert") && said.contains("--trust-proxy"),
        "{said}"
    );
    for (arguments, listens) in [
        (&["--trust-proxy", "10.0.0.0/8"][..], afar),
        (&["--insecure"], afar),
        (&[], ["--listen", "127.0.0.1:0"]),
    ] {
        let said = start(&[&listens[..], arguments].concat());
        assert!(!said.contains("without TLS"), "{said}");
    }
    let said = start(&["--trust-proxy", "0.0.0.0/0"]);
    assert!(said.contains("anybody could pretend"), "{said}");
}
