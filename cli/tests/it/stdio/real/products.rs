//! A product as it comes from npm, without credentials and without a network: it starts, and tells clients itself what
//! is missing.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::super::{Staged, Visit, descendants, served_by};
use super::project;
use crate::support::http::{new_session, prompt};
use crate::support::process::free_port;
use crate::support::{Client, until, within};

/// Where nobody has logged in.
struct Home {
    dir: TempDir,
    /// Nobody is there.
    proxy: String,
}

impl Home {
    fn new() -> Self {
        Self {
            dir: TempDir::new().expect("a temporary directory"),
            proxy: format!("http://127.0.0.1:{}", free_port()),
        }
    }

    fn variables(&self) -> [(&str, &str); 3] {
        let home = self.dir.path().to_str().expect("a plain path");
        [
            ("HOME", home),
            ("HTTPS_PROXY", &self.proxy),
            ("HTTP_PROXY", &self.proxy),
        ]
    }

    /// Two workers that run it.
    async fn employs(&self, name: &str, command: &str) -> Staged {
        let passed = ("BATON_AGENT_ENV", "HTTPS_PROXY,HTTP_PROXY");
        let variables = [&self.variables()[..], &[passed]].concat();
        Staged::with(name, &format!("stdio:{command}"), &variables).await
    }

    /// The product itself, without Baton.
    fn direct(&self, command: &str) -> Direct {
        let mut words = command.split(' ');
        let mut child = Command::new(words.next().expect("a program"))
            .args(words)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").expect("there is a PATH"))
            .envs(self.variables())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("`make setup` installs it");
        Direct {
            input: child.stdin.take().expect("a pipe"),
            lines: BufReader::new(child.stdout.take().expect("a pipe")).lines(),
            _child: child,
        }
    }
}

struct Direct {
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    _child: Child,
}

impl Direct {
    /// The answer to a request.
    async fn answer(&mut self, mut request: Value) -> Value {
        request["jsonrpc"] = json!("2.0");
        let line = format!("{request}\n");
        let written = self.input.write_all(line.as_bytes()).await;
        written.expect("it reads");
        within("it answers", async {
            loop {
                let line = self.lines.next_line().await.expect("it writes");
                let message = serde_json::from_str(&line.expect("it goes on"));
                let message: Value = message.unwrap_or_default();
                if message["id"] == request["id"] && message["method"].is_null() {
                    return message;
                }
            }
        })
        .await
    }

    async fn initialize(&mut self) -> Value {
        let capabilities = json!({ "fs": { "readTextFile": false, "writeTextFile": false } });
        let params = json!({ "protocolVersion": 1, "clientCapabilities": capabilities });
        let request = json!({ "id": 0, "method": "initialize", "params": params });
        self.answer(request).await["result"].clone()
    }
}

fn installed(name: &str) -> String {
    let bin = project("tests/agents/product/node_modules/.bin");
    Path::new(&bin).join(name).display().to_string()
}

/// A connection, with what it was told of the agent; it is what the agent says of itself.
async fn introduced(staged: &Staged, itself: &Value) -> Client {
    let params = json!({ "protocolVersion": 1 });
    let opened = Client::open(&staged.url(), params).await;
    let (client, answer) = opened.expect("initialize succeeds");
    assert!(!itself["agentInfo"].is_null(), "{itself}");
    assert_eq!(answer["result"]["agentInfo"], itself["agentInfo"]);
    // The operator logs in.
    assert_eq!(answer["result"]["authMethods"], json!([]));
    client
}

async fn nothing_is_left(staged: &Staged) {
    until("its processes end", async || {
        let workers = staged.workers.iter();
        let left = workers.flat_map(|worker| descendants(&worker.id().to_string()));
        (left.count() == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn claude_code_opens_a_session_and_says_that_nobody_is_logged_in() {
    let home = Home::new();
    let command = installed("claude-agent-acp");
    let mut direct = home.direct(&command);
    let itself = direct.initialize().await;
    let opened = direct.answer(new_session(json!(1))).await;
    let opened = opened["result"]["sessionId"].as_str();
    let asked = prompt(json!(2), opened.expect("a session"), "hello");
    let refusal = direct.answer(asked).await["error"].clone();
    assert_eq!(refusal["message"], "Authentication required", "{refusal}");

    let name = "agentclientprotocol-claude-agent-acp";
    let staged = home.employs(name, &command).await;
    let client = introduced(&staged, &itself).await;
    let session = client.new_session().await;
    let mut visit = Visit::of(client, session).await;
    let (_, answer) = visit.turn("hello").await;
    assert_eq!(answer["error"], refusal);

    let holder = &staged.workers[staged.holder(&visit.session)];
    assert_ne!(descendants(&holder.id().to_string()).len(), 0);
    let close = json!({ "sessionId": visit.session });
    let close = json!({ "jsonrpc": "2.0", "id": "c", "method": "session/close", "params": close });
    visit.client.post(close).await;
    nothing_is_left(&staged).await;
}

/// Without any option: on somebody's own machine it runs in the box as it is.
#[tokio::test]
async fn claude_code_runs_confined_on_ones_own_machine() {
    let home = TempDir::new().expect("a temporary directory");
    let agent = format!("stdio:{}", installed("claude-agent-acp"));
    let home = home.path().to_str().expect("a plain path");
    let baton = served_by(&agent, &["--agent-home", home]).await;
    let client = Client::initialize(&baton.url()).await;
    let session = client.new_session().await;
    let mut visit = Visit::of(client, session).await;
    let (_, answer) = visit.turn("hello").await;
    let said = &answer["error"]["message"];
    assert_eq!(said, "Authentication required", "{answer}");
    let log = baton.process.output();
    assert!(log.contains("agents are confined by Landlock"), "{log}");
}
