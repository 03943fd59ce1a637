//! Logins at the page of an identity provider, which is one from npm.

use std::process::Command;

use reqwest::{Method, StatusCode};
use tempfile::TempDir;

use super::{Visit, folder};
use crate::auth::{Guarded, provider};
use crate::support::process::Process;
use crate::support::{Cluster, until};

const CALLBACK: &str = "/v1/login/oidc/callback";

struct IdentityProvider {
    _process: Process,
    _dir: TempDir,
    issuer: String,
}

impl IdentityProvider {
    async fn start() -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        let mut command = Command::new("node");
        // Of pages on this machine it does not compare the ports.
        command.arg(folder().join("provider.mjs"));
        command.arg(format!("http://127.0.0.1{CALLBACK}"));
        let process = Process::start(dir.path(), "provider", &mut command);
        let issuer = until("the provider listens", async || {
            let output = process.output();
            let mut lines = output.lines();
            let address = lines.find_map(|line| line.strip_prefix("provider "));
            address.map(str::to_owned)
        })
        .await;
        Self {
            _process: process,
            _dir: dir,
            issuer,
        }
    }

    fn arguments(&self) -> Vec<String> {
        let jwks = format!("{}/jwks", self.issuer);
        let words = [
            "--auth",
            "jwt",
            "--auth-issuer",
            &self.issuer,
            "--auth-audience",
            "baton",
            "--auth-jwks",
            &jwks,
            "--auth-oidc-client",
            "console",
        ];
        words.map(str::to_owned).to_vec()
    }
}

fn borrowed(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

#[tokio::test]
async fn people_log_in_at_a_provider_behind_any_balancer() {
    let provider = IdentityProvider::start().await;
    let cluster = Cluster::start_unused(&borrowed(&provider.arguments())).await;
    let visit = Visit::start("oidc.mjs", &cluster.url(), &provider.issuer);
    visit.passes().await;
    for gateway in &cluster.gateways {
        let log = gateway.output();
        assert!(!log.contains("eyJ") && !log.contains("code="), "{log}");
    }
}

/// Asked as a page of the gateway does, unless the headers say otherwise.
async fn begin(url: &str, headers: &[(&str, &str)]) -> reqwest::Response {
    let url = format!("{}/v1/login/oidc", url.trim_end_matches("/acp"));
    let mut request = reqwest::Client::new().request(Method::POST, url).body("{}");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.send().await.expect("the gateway answers")
}

#[tokio::test]
async fn only_a_page_of_the_gateway_begins_a_login() {
    let provider = IdentityProvider::start().await;
    let guarded = Guarded::start(&borrowed(&provider.arguments()), |_| ()).await;
    let own = guarded.url.trim_end_matches("/acp").to_owned();
    let json = ("content-type", "application/json");
    let begun = begin(&guarded.url, &[json, ("origin", &own)]).await;
    assert_eq!(begun.status(), StatusCode::OK);
    let cookie = begun.headers()["set-cookie"].to_str().unwrap();
    for part in [
        "__Host-baton-attempt=",
        "HttpOnly",
        "Secure",
        "SameSite=Lax",
    ] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let body = begun.text().await.unwrap();
    for part in ["code_challenge_method=S256", "state=", "nonce="] {
        assert!(body.contains(part), "{body}");
    }
    for wrong in [
        &[json][..],
        &[json, ("origin", "http://localhost:1")],
        &[json, ("origin", "https://evil.example")],
        &[json, ("origin", &own), ("sec-fetch-site", "cross-site")],
        &[json, ("origin", "null")],
    ] {
        let refused = begin(&guarded.url, wrong).await;
        assert_eq!(refused.status(), StatusCode::FORBIDDEN, "{wrong:?}");
        assert!(!refused.headers().contains_key("set-cookie"));
    }
    let plain = [("content-type", "text/plain"), ("origin", own.as_str())];
    let refused = begin(&guarded.url, &plain).await;
    assert_eq!(refused.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
}

#[tokio::test]
async fn without_a_provider_there_is_nothing_to_log_in_at() {
    let issuer = provider::Provider::new("k1");
    let guarded = provider::with_tokens(&issuer).await;
    let own = guarded.url.trim_end_matches("/acp").to_owned();
    let headers = [
        ("content-type", "application/json"),
        ("origin", own.as_str()),
    ];
    let begun = begin(&guarded.url, &headers).await;
    assert_eq!(begun.status(), StatusCode::NOT_FOUND);
    let back = reqwest::get(format!("{own}{CALLBACK}?code=a&state=b")).await;
    assert_eq!(back.unwrap().status(), StatusCode::NOT_FOUND);
    let methods = reqwest::get(format!("{own}/v1/login-methods")).await;
    let methods = methods.unwrap().text().await.unwrap();
    assert_eq!(methods, r#"{"auth":"jwt","provider":null}"#);
}

#[tokio::test]
async fn a_provider_that_is_away_is_said_to_be() {
    let mut arguments = IdentityProvider::start().await.arguments();
    // The process has ended with the borrow above.
    arguments.push("--auth-oidc-parameters".into());
    arguments.push("audience=baton".into());
    let guarded = Guarded::start(&borrowed(&arguments), |_| ()).await;
    let own = guarded.url.trim_end_matches("/acp").to_owned();
    let headers = [
        ("content-type", "application/json"),
        ("origin", own.as_str()),
    ];
    let begun = begin(&guarded.url, &headers).await;
    assert_eq!(begun.status(), StatusCode::BAD_GATEWAY);
    assert!(!begun.headers().contains_key("set-cookie"));
}

#[test]
fn options_that_make_no_sense_are_named_together() {
    let output = crate::support::process::baton()
        .args(["serve", "--ephemeral", "--auth-oidc-client", "console"])
        .args(["--auth-oidc-scope", "profile"])
        .args(["--auth-oidc-parameters", "state=mine"])
        .args(["--auth-oidc-secret-file", "/nowhere"])
        .output()
        .expect("baton runs");
    assert_eq!(output.status.code(), Some(64));
    let said = String::from_utf8_lossy(&output.stderr);
    for named in [
        "--auth-oidc-client",
        "--auth-oidc-scope",
        "--auth-oidc-parameters",
        "--auth-oidc-secret-file",
    ] {
        assert!(said.contains(named), "{said}");
    }
}
