//! Processes of their own: agents of workers, and where callers are asked who they are, may read `/proc`.

use std::fs;

use tempfile::TempDir;

use super::hostile::{hostile, visit_in};
use crate::support::Served;
use crate::support::auth::{BOB, write_keys};
use crate::support::process::baton;

/// What a program that was started by the agent's program sees, and what it returns.
fn inside(script: &str) -> (String, Option<i32>) {
    let mut command = baton();
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
    let (said, code) = inside("cat /proc/self/maps >/dev/null && echo fine; exit 7");
    assert_eq!((said.as_str(), code), ("fine\n", Some(7)));
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
