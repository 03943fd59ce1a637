//! Somebody who uses `baton chat` through pipes.

use std::process::Stdio;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

use crate::support::process::baton;
use crate::support::within;

/// What a conversation came to.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub said: String,
    pub errors: String,
}

pub fn start(arguments: &[&str]) -> Child {
    let mut command = Command::from(baton());
    let started = command
        .arg("chat")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn();
    started.expect("baton starts")
}

/// Types these lines, all at once, and reads to the end.
pub async fn chat(arguments: &[&str], lines: &[&str]) -> Ended {
    let mut child = start(arguments);
    let mut input = child.stdin.take().expect("a pipe");
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    // It may end before it has read everything.
    let _ = input.write_all(text.as_bytes()).await;
    drop(input);
    ended(child).await
}

pub async fn ended(child: Child) -> Ended {
    let output = within("the conversation ends", child.wait_with_output()).await;
    let output = output.expect("a status");
    Ended {
        code: output.status.code(),
        said: String::from_utf8(output.stdout).expect("text"),
        errors: String::from_utf8(output.stderr).expect("text"),
    }
}

/// Reads until this is there, and returns all that was.
pub async fn seen(output: &mut Option<impl AsyncRead + Unpin>, text: &str) -> String {
    let output = output.as_mut().expect("a pipe");
    let mut all = Vec::new();
    within(text, async {
        while !String::from_utf8_lossy(&all).contains(text) {
            let read = output.read_buf(&mut all).await.expect("a pipe");
            assert!(read > 0, "ended: {}", String::from_utf8_lossy(&all));
        }
    })
    .await;
    String::from_utf8(all).expect("text")
}

impl Ended {
    /// What was said after the session was opened, and how it ended.
    pub fn after_opening(&self) -> &str {
        let (first, rest) = self.said.split_once('\n').expect("a line");
        assert!(first.contains("session"), "{self:?}");
        rest
    }

    /// The id of the last session that was entered.
    pub fn session(&self) -> String {
        let both = format!("{}{}", self.errors, self.said);
        let entered = both.lines().filter(|line| line.starts_with('·'));
        let id = entered
            .filter_map(|line| line.split_once(": 0"))
            .next_back();
        format!("0{}", id.expect("a session was entered").1)
    }
}
