//! Who calls. What they may touch is in `threats`.

use std::fs;
use std::path::Path;
use std::process::Command;

use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::cluster::{address, ready, url};
use crate::support::process::{Process, baton, free_port};
use crate::support::{Stream, until, within};

pub mod provider;

pub const A: &str = "bk_first-test-key-000000000000000000000000000";
pub const B: &str = "bk_second-test-key-00000000000000000000000000";

/// `baton serve` that asks who calls.
pub struct Guarded {
    pub process: Process,
    pub url: String,
    pub dir: TempDir,
}

impl Guarded {
    pub async fn start(arguments: &[&str], prepare: impl FnOnce(&Path)) -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        prepare(dir.path());
        Self::start_in(dir, arguments, |_| ()).await
    }

    /// In this directory, in a process that `prepare` has a hand in. Without a `--data-dir` everything
    /// is in memory.
    pub async fn start_in(
        dir: TempDir,
        arguments: &[&str],
        prepare: impl FnOnce(&mut Command),
    ) -> Self {
        let port = free_port();
        let mut command = baton();
        command.current_dir(dir.path());
        command.args(["serve", "--listen", &address(port)]);
        if !arguments.contains(&"--data-dir") {
            command.arg("--ephemeral");
        }
        if !arguments.contains(&"--allow-origin") {
            command.args(["--allow-origin", crate::browser::PAGE.1]);
        }
        command.args(arguments);
        prepare(&mut command);
        let process = Process::start(dir.path(), "serve", &mut command);
        ready(port).await;
        Self {
            process,
            url: url(port),
            dir,
        }
    }

    /// Stopped, and started again on what it has kept, with other arguments.
    pub async fn again(self, arguments: &[&str]) -> Self {
        let Self {
            mut process, dir, ..
        } = self;
        process.kill();
        Self::start_in(dir, arguments, |_| ()).await
    }

    pub async fn with_keys() -> Self {
        let arguments = ["--auth", "keys", "--auth-keys", "api-keys.json"];
        Self::start(&arguments, |dir| {
            write_keys(dir, &[("alice", A), ("bob", B)])
        })
        .await
    }

    pub async fn send(
        &self,
        method: Method,
        credential: Option<&str>,
        headers: &[(&str, &str)],
        body: Option<Value>,
    ) -> Response {
        let mut request = reqwest::Client::new().request(method, &self.url);
        if let Some(credential) = credential {
            request = request.header("authorization", format!("Bearer {credential}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json");
            request = request.body(body.to_string());
        }
        request.send().await.expect("the gateway answers")
    }

    pub async fn initialize(&self, credential: Option<&str>) -> Response {
        let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": { "protocolVersion": 1 } });
        self.send(Method::POST, credential, &[], Some(body)).await
    }

    pub async fn open(&self, credential: &str) -> Caller<'_> {
        let answer = self.initialize(Some(credential)).await;
        assert_eq!(answer.status(), StatusCode::OK);
        let token = answer.headers()["acp-connection-id"].to_str().unwrap();
        Caller {
            guarded: self,
            credential: credential.to_owned(),
            connection: token.to_owned(),
        }
    }
}

pub struct Caller<'a> {
    guarded: &'a Guarded,
    credential: String,
    pub connection: String,
}

impl Caller<'_> {
    pub async fn call(&self, id: u64, method: &str, params: Value) -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let headers = [
            ("acp-connection-id", self.connection.as_str()),
            ("accept", "text/event-stream"),
        ];
        let credential = Some(self.credential.as_str());
        let sent = self
            .guarded
            .send(Method::POST, credential, &headers, Some(body));
        let response = sent.await;
        assert_eq!(response.status(), StatusCode::OK, "{method}");
        Stream::unchecked(response).response(&json!(id)).await
    }

    pub async fn new_session(&self) -> String {
        let params = json!({ "cwd": "/tmp", "mcpServers": [] });
        let answer = self.call(1, "session/new", params).await;
        answer["result"]["sessionId"].as_str().unwrap().to_owned()
    }
}

pub fn write_keys(dir: &Path, keys: &[(&str, &str)]) {
    use sha2::{Digest as _, Sha256};
    let entry = |(principal, key): &(&str, &str)| {
        let hash = Sha256::digest(key);
        let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        json!({ "principal": principal, "sha256": hex })
    };
    let file = json!({ "keys": keys.iter().map(entry).collect::<Vec<_>>() });
    fs::write(dir.join("api-keys.json"), file.to_string()).expect("writable");
}

/// Status, headers that could tell something, and body.
pub async fn told(response: Response) -> (StatusCode, Vec<(String, String)>, String) {
    let status = response.status();
    let mut headers: Vec<_> = response
        .headers()
        .iter()
        .filter(|(name, _)| *name != "date")
        .map(|(name, value)| (name.to_string(), format!("{value:?}")))
        .collect();
    headers.sort();
    let body = within("the end of an answer", response.text()).await;
    (status, headers, body.unwrap())
}

#[tokio::test]
async fn nobody_gets_in_without_a_credential() {
    let guarded = Guarded::with_keys().await;
    let nothing = told(guarded.initialize(None).await).await;
    assert_eq!(nothing.0, StatusCode::UNAUTHORIZED);
    assert!(
        nothing
            .1
            .iter()
            .any(|(name, value)| name == "www-authenticate" && value.contains("Bearer"))
    );
    for wrong in ["", "wrong", &format!("{A} "), &A[..A.len() - 1]] {
        let answer = told(guarded.initialize(Some(wrong)).await).await;
        // A trailing space is not part of a header's value.
        match wrong.trim_end() == A {
            true => assert_eq!(answer.0, StatusCode::OK),
            false => assert_eq!(answer, nothing, "{wrong:?}"),
        }
    }
    for method in [Method::GET, Method::DELETE] {
        let answer = guarded.send(method, None, &[], None).await;
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
    }
    let base = guarded.url.trim_end_matches("/acp").to_owned();
    let export = reqwest::get(format!(
        "{base}/v1/sessions/000-0123456789012345678901/export"
    ));
    assert_eq!(export.await.unwrap().status(), StatusCode::UNAUTHORIZED);
    for open in ["/healthz", "/readyz", "/metrics"] {
        let answer = reqwest::get(format!("{base}{open}")).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK, "{open}");
    }
}

#[tokio::test]
async fn keys_come_and_go_without_a_restart() {
    let guarded = Guarded::with_keys().await;
    guarded.open(B).await;
    write_keys(guarded.dir.path(), &[("alice", A)]);
    until("the key is gone", async || {
        let status = guarded.initialize(Some(B)).await.status();
        (status == StatusCode::UNAUTHORIZED).then_some(())
    })
    .await;
    guarded.open(A).await;
    // A file that makes no sense changes nothing.
    fs::write(guarded.dir.path().join("api-keys.json"), "oops").unwrap();
    guarded.open(A).await;
}

#[tokio::test]
async fn a_key_is_made_with_its_entry() {
    let made = baton()
        .args(["token", "api-key", "--principal", "carol"])
        .output()
        .expect("baton runs");
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    let file = json!({ "keys": [made["entry"]] }).to_string();
    assert!(!file.contains(made["key"].as_str().unwrap()));
    let arguments = ["--auth", "keys", "--auth-keys", "api-keys.json"];
    let guarded = Guarded::start(&arguments, |dir| {
        fs::write(dir.join("api-keys.json"), file).unwrap();
    })
    .await;
    guarded.open(made["key"].as_str().unwrap()).await;
}

#[tokio::test]
async fn an_operator_brings_a_credential_from_a_file() {
    let guarded = Guarded::with_keys().await;
    let session = guarded.open(A).await.new_session().await;
    let base = guarded.url.trim_end_matches("/acp");
    for (key, expected) in [(A, true), (B, false)] {
        let file = guarded.dir.path().join("credential");
        fs::write(&file, format!("{key}\n")).unwrap();
        let mut command = baton();
        command.args(["sessions", "export", &session, "--url", base]);
        let output = command.arg("--credential-file").arg(file).output().unwrap();
        assert_eq!(output.status.success(), expected, "{output:?}");
    }
}

#[test]
fn an_open_gateway_stays_on_its_machine() {
    let start = |arguments: &[&str]| {
        let output = baton()
            .args(["serve", "--ephemeral"])
            .args(arguments)
            .output();
        let output = output.expect("baton runs");
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, said) = start(&["--listen", "0.0.0.0:0"]);
    assert_eq!(code, Some(64));
    assert!(said.contains("--insecure"), "{said}");
    let (code, said) = start(&["--auth", "keys"]);
    assert_eq!(code, Some(64));
    assert!(said.contains("--auth-keys FILE"), "{said}");
    let (code, said) = start(&["--auth", "jwt", "--auth-issuer", "x"]);
    assert_eq!(code, Some(64));
    assert!(said.contains("--auth-audience"), "{said}");
}
