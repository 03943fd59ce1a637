//! Processes of their own: agents of workers, and where callers are asked who they are, may read `/proc`.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use tempfile::TempDir;

use super::hostile::{hostile, visit_in};
use crate::support::Served;
use crate::support::auth::{BOB, write_keys};
use crate::support::cluster::{address, ready, url};
use crate::support::process::{Process, baton, free_port};

/// Nobody, in most places.
const SOMEBODY: u32 = 65534;

/// What a program that was started by the agent's program sees, and what it returns.
fn inside(script: &str) -> (String, Option<i32>) {
    inside_as(None, script)
}

/// Root makes namespaces as it is; others need one of users as well.
fn inside_as(user: Option<u32>, script: &str) -> (String, Option<i32>) {
    let mut command = baton();
    if let Some(user) = user {
        command.uid(user).gid(user).current_dir("/");
    }
    command.args(["guard", "--sandbox", "--enforced", "--own-processes"]);
    command.args(["--read", "/", "--write", "/dev/null"]);
    let script = format!("sh -c '{script}'; exit $?");
    let output = command
        .args(["--", "sh", "-c", &script])
        .stdin(std::process::Stdio::piped())
        .output()
        .expect("baton runs");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    (said, output.status.code())
}

#[test]
fn f3_a_program_of_an_agent_reads_its_own_proc_and_no_other() {
    let is_root = fs::metadata("/proc/self").expect("ourselves").uid() == 0;
    for user in [None, is_root.then_some(SOMEBODY)] {
        let script = "cat /proc/self/maps >/dev/null && echo fine; exit 7";
        let (said, code) = inside_as(user, script);
        assert_eq!((said.as_str(), code), ("fine\n", Some(7)), "{user:?}");
    }
    if is_root {
        // What it takes to mount is not left to the agent.
        let (said, _) = inside_as(Some(SOMEBODY), "grep ^Cap /proc/self/status; id -u");
        let mut lines = said.lines();
        for kind in ["CapInh", "CapPrm", "CapEff"] {
            let given = lines.next().and_then(|line| line.split_whitespace().nth(1));
            assert_eq!(given, Some("0000000000000000"), "{kind}: {said}");
        }
        assert_eq!(lines.last(), Some("65534"), "{said}");
    }
    let (said, code) = inside("kill -SEGV $$");
    assert_eq!(code, Some(128 + 11), "{said}");
    // Whoever has started it is not seen, nor are we.
    let (said, _) = inside("echo /proc/[0-9]*/");
    let seen: Vec<u32> = said
        .split_whitespace()
        .filter_map(|path| path.split('/').nth(2)?.parse().ok())
        .collect();
    // The shell, and the one that it has started.
    assert_eq!(seen.len(), 2, "{said}");
    assert!(!seen.contains(&1), "{said}");
    // The kernel's own files stay closed, but for those that programs need.
    let (said, _) = inside("cat /proc/kallsyms /proc/keys; ls /proc/bus; wc -l </proc/uptime");
    assert_eq!(said, "1\n");
}

/// Nothing that is mounted for an agent is seen outside.
#[test]
fn f3_what_is_mounted_for_an_agent_is_mounted_for_it_alone() {
    let before = fs::read_to_string("/proc/self/mounts").expect("mounts");
    let (said, _) = inside("grep -c hidepid=ptraceable /proc/self/mounts");
    assert_eq!(said, "1\n");
    let after = fs::read_to_string("/proc/self/mounts").expect("mounts");
    assert_eq!(before, after);
}

#[tokio::test]
async fn f3_the_log_says_which_processes_agents_see() {
    let dir = TempDir::new().expect("a temporary directory");
    let keys = write_keys(dir.path());
    for (wanted, given) in [
        ("own", "processes=\"own\""),
        ("system", "processes=\"system\""),
    ] {
        let agent = hostile();
        let arguments = ["--ephemeral", "--auth", "keys", "--auth-keys", &keys];
        let more = ["--agent", &agent, "--agent-processes", wanted];
        let baton = Served::start_with(&[&arguments[..], &more].concat()).await;
        let work = TempDir::new().expect("a temporary directory");
        let work = work.path().display().to_string();
        let mut bob = visit_in(&baton.url(), BOB, &work).await;
        let orders = serde_json::json!({ "own": [work] });
        super::hostile::comes_away_with_nothing(&mut bob, orders).await;
        let log = baton.process.output();
        assert!(log.contains(given), "{log}");
    }
}

/// As in most containers: agents run as they did, with their first program's own `/proc` alone, and the log says why.
#[tokio::test]
async fn f3_where_no_namespaces_are_to_be_had_agents_run_without() {
    let dir = TempDir::new().expect("a temporary directory");
    let (keys, port) = (write_keys(dir.path()), free_port());
    let denied =
        "echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c", denied, "sh"]);
    let agent = hostile();
    command.args([env!("CARGO_BIN_EXE_baton"), "serve", "--ephemeral"]);
    command.args(["--auth", "keys", "--auth-keys", &keys, "--agent", &agent]);
    command.args(["--admin-listen", "none", "--listen", &address(port)]);
    let process = Process::start(dir.path(), "serve", &mut command);
    ready(port).await;
    let work = TempDir::new().expect("a temporary directory");
    let work = work.path().display().to_string();
    let mut bob = visit_in(&url(port), BOB, &work).await;
    let orders = serde_json::json!({ "own": [work] });
    super::hostile::comes_away_with_nothing(&mut bob, orders).await;
    let log = process.output();
    assert!(log.contains("no processes of their own here"), "{log}");
    assert!(log.contains("processes=\"system\""), "{log}");
}
