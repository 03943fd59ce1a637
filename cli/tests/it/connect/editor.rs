//! An editor, as far as `baton connect` can tell: it starts a process, writes lines and reads lines.

use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

use crate::support::http::{load, new_session, prompt};
use crate::support::process::baton;
use crate::support::schema::CONVERSATIONS;
use crate::support::sse::chunk_of;
use crate::support::websocket::initialize;
use crate::support::within;

pub struct Editor {
    pub child: Child,
    pub input: Option<ChildStdin>,
    lines: Option<Lines<BufReader<ChildStdout>>>,
    errors: JoinHandle<String>,
    /// By which its messages are told from those of others.
    name: String,
    requests: u64,
}

/// What an editor saw of one turn.
#[derive(Debug)]
pub struct Turn {
    pub said: Vec<String>,
    pub answer: Value,
    /// How often it was asked for permission.
    pub asked: u64,
}

impl Editor {
    /// Starts `baton connect` with these arguments and variables.
    pub fn start(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let mut command = Command::from(baton());
        command.arg("connect").args(arguments);
        command.envs(variables.iter().copied());
        let started = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn();
        let mut child = started.expect("baton starts");
        let mut errors = child.stderr.take().expect("a pipe");
        Self {
            input: child.stdin.take(),
            lines: child
                .stdout
                .take()
                .map(|output| BufReader::new(output).lines()),
            errors: tokio::spawn(async move {
                let mut text = String::new();
                let _ = errors.read_to_string(&mut text).await;
                text
            }),
            child,
            name: format!("editor-{}", COUNT.fetch_add(1, Ordering::Relaxed)),
            requests: 0,
        }
    }

    /// Started and initialized.
    pub async fn open(url: &str, arguments: &[&str]) -> Self {
        let mut editor = Self::start(&[&[url], arguments].concat(), &[]);
        let answer = editor.initialize().await;
        assert_eq!(answer["result"]["protocolVersion"], 1, "{answer}");
        editor
    }

    pub async fn send(&mut self, message: Value) {
        CONVERSATIONS.sent(&self.name, &message);
        self.send_line(&message.to_string()).await;
    }

    pub async fn send_line(&mut self, line: &str) {
        let input = self.input.as_mut().expect("the input is open");
        let line = format!("{line}\n");
        input.write_all(line.as_bytes()).await.expect("it reads");
    }

    /// The next line; `None` at the end.
    pub async fn line(&mut self) -> Option<String> {
        let lines = self.lines.as_mut().expect("the output is open");
        let line = within("a line", lines.next_line()).await;
        line.expect("text")
    }

    /// Closes the output.
    pub fn deafen(&mut self) {
        self.lines = None;
    }

    pub async fn next(&mut self) -> Value {
        let line = self.line().await.expect("it goes on");
        let message: Value = serde_json::from_str(&line).expect("every line is JSON");
        CONVERSATIONS.received(&self.name, &message);
        message
    }

    fn id(&mut self) -> Value {
        self.requests += 1;
        json!(self.requests)
    }

    pub async fn initialize(&mut self) -> Value {
        self.send(initialize()).await;
        self.answer(&json!(0)).await
    }

    /// Nothing but updates may come before.
    pub async fn answer(&mut self, id: &Value) -> Value {
        loop {
            let message = self.next().await;
            if message.get("method").is_none() {
                assert_eq!(message["id"], *id, "{message}");
                return message;
            }
        }
    }

    pub async fn new_session(&mut self) -> String {
        let id = self.id();
        self.send(new_session(id.clone())).await;
        let answer = self.answer(&id).await;
        let session = answer["result"]["sessionId"].as_str();
        session.unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    pub async fn prompt(&mut self, session: &str, text: &str) -> Value {
        let id = self.id();
        self.send(prompt(id.clone(), session, text)).await;
        id
    }

    /// A whole turn; whatever the agent wants to do is allowed.
    pub async fn turn(&mut self, session: &str, text: &str) -> Turn {
        let id = self.prompt(session, text).await;
        self.rest(&id).await
    }

    /// The rest of a turn.
    pub async fn rest(&mut self, id: &Value) -> Turn {
        let (mut said, mut asked) = (Vec::new(), 0);
        loop {
            let message = self.next().await;
            if message["method"] == "session/request_permission" {
                asked += 1;
                self.allow(&message).await;
            } else if message.get("method").is_none() {
                assert_eq!(message["id"], *id, "{message}");
                let answer = message;
                return Turn {
                    said,
                    answer,
                    asked,
                };
            }
            said.extend(chunk_of(&message));
        }
    }

    pub async fn allow(&mut self, question: &Value) {
        let outcome = json!({ "outcome": { "outcome": "selected", "optionId": "allow_once" } });
        let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": outcome });
        self.send(answer).await;
    }

    /// The words of the agent in a session's history.
    pub async fn load(&mut self, session: &str) -> Vec<String> {
        let id = self.id();
        self.send(load(id.clone(), session)).await;
        let turn = self.rest(&id).await;
        assert!(turn.answer.get("result").is_some(), "{:?}", turn.answer);
        turn.said
    }

    /// Closes the input, reads to the end, and returns the exit code and what was logged.
    pub async fn close(mut self) -> (Option<i32>, String) {
        self.input = None;
        while self.line().await.is_some() {}
        self.ended().await
    }

    pub async fn ended(mut self) -> (Option<i32>, String) {
        let status = within("it ends", self.child.wait()).await;
        let log = within("its log ends", self.errors).await;
        (status.expect("a status").code(), log.expect("a log"))
    }
}
