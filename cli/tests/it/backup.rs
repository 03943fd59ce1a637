//! Backups, with real processes: taken while the server works, restored elsewhere, and nothing is handed out twice.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};

use reqwest::StatusCode;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::cluster::{address, ready, url};
use crate::support::http::{JSON, load};
use crate::support::process::{Process, baton, free_port};
use crate::support::{Client, Event, Stream};

mod broken;
mod directory;
mod memory;
mod questions;
mod redis;

/// Data directories, and the backups of them.
struct Place {
    dir: TempDir,
}

/// `baton serve` on one of them.
struct Server {
    process: Process,
    port: u16,
}

impl Server {
    fn url(&self) -> String {
        url(self.port)
    }
}

impl Place {
    fn new() -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        Self { dir }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    async fn serve(&self, data: &str) -> Server {
        let socket = format!("unix:{}", self.at(&format!("{data}.sock")).display());
        self.serve_with(data, &["--admin-listen", &socket]).await
    }

    async fn serve_with(&self, data: &str, arguments: &[&str]) -> Server {
        let port = free_port();
        let mut command = plain();
        command.args(["serve", "--listen", &address(port), "--data-dir"]);
        command.arg(self.at(data)).args(arguments);
        let process = Process::start(self.dir.path(), data, &mut command);
        ready(port).await;
        Server { process, port }
    }

    fn backup_command(&self, data: &str, file: &str) -> Command {
        let mut command = plain();
        command.args(["store", "backup", "--data-dir"]);
        command.arg(self.at(data)).arg(self.at(file));
        command
    }

    fn backup(&self, data: &str, file: &str) {
        let output = self.backup_command(data, file).output();
        succeeded(&output.expect("baton runs"));
    }

    fn try_restore(&self, file: &str, data: &str) -> Output {
        let mut command = plain();
        command.args(["store", "restore", "--data-dir"]);
        command.arg(self.at(data)).arg(self.at(file));
        command.output().expect("baton runs")
    }

    fn restore(&self, file: &str, data: &str) {
        succeeded(&self.try_restore(file, data));
    }
}

/// The socket alone says who is an administrator.
fn plain() -> Command {
    let mut command = baton();
    command.env_remove("BATON_ADMIN_TOKEN_FILE");
    command
}

fn succeeded(output: &Output) {
    assert!(output.status.success(), "{}", said(output));
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Refused with this code and something about this.
fn refused(output: &Output, code: i32, about: &str) {
    let said = said(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.contains(about), "{said}");
}

fn modes(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    let about = std::fs::metadata(path).expect("it is there");
    about.permissions().mode() & 0o777
}

/// What the session has to tell, and what its load was answered with.
async fn loaded(client: &Client, session: &str) -> (Stream, Vec<String>, Value) {
    // A repeated id would be the same request.
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let id = json!(format!("load-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
    let mut stream = client.session_stream(session, None).await;
    client.post(load(id.clone(), session)).await;
    let (events, answer) = stream.until_response(&id).await;
    let chunks = events.iter().filter_map(Event::chunk).collect();
    (stream, chunks, answer)
}

/// The token of a session that was just opened.
fn session_token(answer: &Value) -> String {
    let token = &answer["result"]["_meta"]["baton/session"]["token"];
    token.as_str().expect("a token in _meta").to_owned()
}

/// The status of a request with nothing but a session token.
async fn with_token(url: &str, token: &str, message: Value) -> StatusCode {
    let request = reqwest::Client::new().post(url).header(JSON.0, JSON.1);
    let request = request.header("acp-session-token", token);
    let sent = request.body(message.to_string()).send().await;
    sent.expect("an answer").status()
}
