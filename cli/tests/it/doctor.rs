//! `baton doctor`: each fault is found by its own check, and said with what to do about it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use baton_session::token::generate;
use jsonwebtoken::Algorithm;
use tempfile::TempDir;

use crate::support::clock::Clock;
use crate::support::process::{baton, free_port};
use crate::support::{Redis, Served};

struct Report {
    code: Option<i32>,
    text: String,
}

impl Report {
    /// The line of this outcome and subject that has the words.
    fn has(&self, outcome: &str, subject: &str, words: &str) -> &Self {
        let begins = format!("{outcome:<5} {subject:<15} ");
        let found = self.text.lines().any(|line| {
            let rest = line.strip_prefix(&begins);
            rest.is_some_and(|rest| rest.contains(words))
        });
        assert!(found, "no {begins}… {words} in\n{}", self.text);
        self
    }

    fn ends_with(&self, code: i32) {
        assert_eq!(self.code, Some(code), "{}", self.text);
    }
}

fn report(command: &mut Command) -> Report {
    let output = command.output().expect("baton runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Report {
        code: output.status.code(),
        text: text(&output.stdout) + &text(&output.stderr),
    }
}

fn doctor(words: &[&str]) -> Command {
    let mut command = baton();
    command.arg("doctor").args(words);
    command
}

/// On a free port, with data in `dir`.
fn serve(dir: &Path, words: &[&str]) -> Report {
    let (listen, data) = (format!("127.0.0.1:{}", free_port()), dir.join("data"));
    let mut command = doctor(&["serve", "--listen", &listen, "--data-dir"]);
    report(command.arg(data).args(words))
}

fn gateway(redis: &Redis, keys: &Path) -> Command {
    let listen = format!("127.0.0.1:{}", free_port());
    let store = format!("redis://127.0.0.1:{}", redis.port);
    let mut command = doctor(&["gateway", "--listen", &listen, "--store", &store]);
    command.arg("--keys").arg(keys);
    command
}

fn directory() -> TempDir {
    TempDir::new().expect("a temporary directory")
}

fn key_file(dir: &Path, text: &str) -> PathBuf {
    let path = dir.join("keys.json");
    fs::write(&path, text).expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its owner's");
    path
}

#[test]
fn a_machine_on_which_serve_can_start_passes() {
    let dir = directory();
    let report = serve(dir.path(), &[]);
    report.ends_with(0);
    report
        .has("ok", "options", "")
        .has("ok", "open files", "room for")
        .has("ok", "port", "is free")
        .has("ok", "data directory", "first start")
        .has("ok", "agent", "built in");
    assert!(!dir.path().join("data").exists(), "it makes nothing");
}

#[tokio::test]
async fn a_directory_and_a_port_that_are_in_use_are_found() {
    let baton = Served::start().await;
    let url = baton.url();
    let address = url.trim_start_matches("http://").trim_end_matches("/acp");
    let mut command = doctor(&["serve", "--listen", address, "--data-dir"]);
    let report = report(command.arg(baton.data_dir()));
    report
        .has("fail", "port", "--listen")
        .has("fail", "data directory", "another process")
        .has("ok", "keys", "strong")
        .ends_with(1);
}

#[test]
fn a_directory_with_other_files_is_refused_and_left_as_it_is() {
    let dir = directory();
    fs::create_dir(dir.path().join("data")).expect("a directory");
    fs::write(dir.path().join("data/letter"), "mine").expect("a file");
    let report = serve(dir.path(), &[]);
    report
        .has("fail", "data directory", "not Baton's")
        .ends_with(1);
    let left = fs::read_dir(dir.path().join("data")).expect("a directory");
    assert_eq!(left.count(), 1);
}

#[test]
fn few_descriptors_are_warned_of() {
    let dir = directory();
    let listen = format!("127.0.0.1:{}", free_port());
    let mut command = Command::new("prlimit");
    command
        .arg("--nofile=256:256")
        .arg(env!("CARGO_BIN_EXE_baton"));
    command.args(["doctor", "serve", "--listen", &listen, "--data-dir"]);
    let report = report(command.arg(dir.path().join("data")));
    report.has("warn", "open files", "LimitNOFILE").ends_with(0);
}

#[test]
fn a_wrong_option_is_a_failure_like_others() {
    let dir = directory();
    let report = serve(dir.path(), &["--slots", "0"]);
    report.has("fail", "options", "--slots 0").ends_with(1);
    report_of_usage(&["serve", "--colour"]);
    report_of_usage(&["chat"]);
}

fn report_of_usage(words: &[&str]) {
    report(&mut doctor(words)).ends_with(64);
}

#[test]
fn an_agent_that_is_not_installed_comes_with_the_line_that_installs_it() {
    let dir = directory();
    let mut command = doctor(&["serve", "--ephemeral", "--agent", "stdio:claude-agent-acp"]);
    let port = format!("127.0.0.1:{}", free_port());
    let command = command.args(["--listen", &port]).env("PATH", dir.path());
    report(command)
        .has(
            "fail",
            "agent",
            "npm install -g @agentclientprotocol/claude-agent-acp",
        )
        .ends_with(1);
}

#[test]
fn a_product_without_a_key_is_warned_of_and_one_with_an_old_node_is_refused() {
    let dir = directory();
    let file = dir.path().join("node");
    let listen = format!("127.0.0.1:{}", free_port());
    let answer = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}"#;
    // Its own program, by the name that is looked for.
    agent(dir.path(), Some(answer));
    fs::rename(dir.path().join("agent"), dir.path().join("codex-acp")).expect("a file");
    let run = |node: &str, key: &str| {
        fs::write(&file, format!("#!/bin/sh\necho {node}\n")).expect("a file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("a program");
        let mut command = doctor(&["serve", "--ephemeral", "--listen", &listen]);
        let path = std::env::var("PATH").expect("there is a PATH");
        let path = format!("{}:{path}", dir.path().display());
        command.args(["--agent", "codex"]).env("PATH", path);
        command.env("CODEX_API_KEY", "").env("OPENAI_API_KEY", key);
        report(&mut command)
    };
    run("v18.1.0", "x").has("fail", "agent", "needs Node.js 20 or newer");
    let without = run("v22.1.0", "");
    without.has("ok", "agent", "starts and answers");
    without
        .has("warn", "agent's login", "OPENAI_API_KEY")
        .ends_with(0);
    let with = run("v22.1.0", "x");
    assert!(!with.text.contains("agent's login"), "{}", with.text);
}

/// A program that answers every line with `answer`, or never.
fn agent(dir: &Path, answer: Option<&str>) -> String {
    let path = dir.join("agent");
    let script = match answer {
        Some(answer) => format!("#!/bin/sh\nwhile read -r line; do echo '{answer}'; done\n"),
        None => "#!/bin/sh\necho cannot log in >&2\nwhile read -r line; do :; done\n".to_owned(),
    };
    fs::write(&path, script).expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a program");
    format!("stdio:{}", path.display())
}

#[test]
fn an_agent_that_does_not_answer_is_found_with_its_last_words() {
    let dir = directory();
    let agent = agent(dir.path(), None);
    let report = serve(
        dir.path(),
        &["--agent", &agent, "--agent-start-timeout", "1s"],
    );
    report.has("fail", "agent", "did not answer").ends_with(1);
    assert!(report.text.contains("cannot log in"), "{}", report.text);
    assert!(report.text.contains("--agent-start-timeout"));
}

#[test]
fn an_agent_of_another_version_is_found_and_one_of_ours_passes() {
    let dir = directory();
    for (version, outcome, words) in [(2, "fail", "version 2 of ACP"), (1, "ok", "answers")] {
        // The first request of a process has this id.
        let answer = format!(
            r#"{{"jsonrpc":"2.0","id":0,"result":{{"protocolVersion":{version},"agentInfo":{{"name":"mine","version":"3"}}}}}}"#
        );
        let agent = agent(dir.path(), Some(&answer));
        let report = serve(
            dir.path(),
            &["--agent", &agent, "--agent-start-timeout", "20s"],
        );
        report.has(outcome, "agent", words);
    }
}

#[tokio::test]
async fn a_gateway_with_a_good_redis_and_good_keys_passes() {
    let (redis, dir) = (Redis::start().await, directory());
    let keys = key_file(dir.path(), &generate(Algorithm::EdDSA));
    report(&mut gateway(&redis, &keys))
        .has("ok", "store", "answers in")
        .has("ok", "store", "a primary")
        .has("ok", "store", "append-only")
        .has("ok", "clock", "from the store's")
        .has("ok", "keys", "strong")
        .ends_with(0);
}

#[tokio::test]
async fn settings_of_redis_that_lose_sessions_are_warned_of() {
    let bad = ["--appendonly", "no", "--maxmemory", "100mb"];
    let policy = ["--maxmemory-policy", "allkeys-lru"];
    let redis = Redis::start_with(&[&bad[..], &policy].concat()).await;
    let dir = directory();
    let keys = key_file(dir.path(), &generate(Algorithm::HS256));
    let mut command = gateway(&redis, &keys);
    report(&mut command)
        .has("warn", "store", "appendonly yes")
        .has("warn", "store", "allkeys-lru")
        .ends_with(0);
    report(command.args(["--durability", "replicated"]))
        .has("fail", "store", "no replica")
        .ends_with(1);
}

#[tokio::test]
async fn a_redis_that_is_not_there_and_a_weak_key_are_found_together() {
    let dir = directory();
    let weak = r#"{"keys":[{"kty":"oct","kid":"a","alg":"HS256","k":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}]}"#;
    let keys = key_file(dir.path(), weak);
    let store = format!("redis://127.0.0.1:{}", free_port());
    let listen = format!("127.0.0.1:{}", free_port());
    let mut command = doctor(&["gateway", "--store", &store, "--listen", &listen, "--keys"]);
    report(command.arg(keys))
        .has("fail", "store", "does not answer")
        .has("fail", "keys", "baton token keygen")
        .ends_with(1);
}

#[tokio::test]
async fn keys_that_others_can_read_are_warned_of() {
    let (redis, dir) = (Redis::start().await, directory());
    let keys = key_file(dir.path(), &generate(Algorithm::HS256));
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o644)).expect("a file");
    report(&mut gateway(&redis, &keys))
        .has("warn", "keys", "chmod o-r")
        .ends_with(0);
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o666)).expect("a file");
    report(&mut gateway(&redis, &keys))
        .has("fail", "keys", "chmod o-w")
        .ends_with(1);
}

#[tokio::test]
async fn a_clock_that_is_off_is_found() {
    let (redis, dir) = (Redis::start().await, directory());
    let clock = Clock::new(dir.path());
    let keys = key_file(dir.path(), &generate(Algorithm::HS256));
    for (offset, outcome, words) in [("+1h", "fail", "ahead of"), ("-10s", "warn", "behind")] {
        clock.set(offset);
        let mut command = gateway(&redis, &keys);
        clock.rule(&mut command);
        report(&mut command).has(outcome, "clock", words);
    }
}

#[tokio::test]
async fn a_worker_is_checked_with_its_agent_and_its_probes() {
    let redis = Redis::start().await;
    let store = format!("redis://127.0.0.1:{}", redis.port);
    let probes = format!("127.0.0.1:{}", redis.port);
    let words = ["worker", "--store", &store, "--probe-listen", &probes];
    report(&mut doctor(&words))
        .has("fail", "port", "--probe-listen")
        .has("ok", "agent", "built in")
        .has("ok", "store", "a primary")
        .ends_with(1);
}
