//! Processes of the same user cannot look into ours, whether agents are confined or not.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;

use tempfile::TempDir;

use crate::stdio::{actor, descendants};
use crate::support::cluster::{address, ready};
use crate::support::process::{Process, baton, free_port};

/// Nobody, in most places.
const SOMEBODY: u32 = 65534;

/// What it holds in `/proc` belongs to root, though it runs as somebody else.
fn is_closed(pid: &str) -> bool {
    let about = |name: &str| format!("/proc/{pid}/{name}");
    let status = fs::read_to_string(about("status")).expect("the process runs");
    let mut lines = status.lines();
    let user = lines.find_map(|line| line.strip_prefix("Uid:"));
    let user = user.and_then(|line| line.split_whitespace().next()?.parse::<u32>().ok());
    assert_ne!(user, Some(0), "the test is of no use for root");
    ["environ", "mem", "fd"].into_iter().all(|name| {
        let owner = fs::metadata(about(name)).expect("the process runs").uid();
        owner == 0
    })
}

#[tokio::test]
async fn f3_nobody_of_the_same_user_looks_into_our_processes() {
    let dir = TempDir::new().expect("a temporary directory");
    let port = free_port();
    let mut command = baton();
    command.args(["serve", "--ephemeral", "--listen", &address(port)]);
    command.args(["--agent-warm", "1", "--agent", &actor("")]);
    command.env("BATON_AGENT_SANDBOX", "none").current_dir("/");
    if fs::metadata("/proc/self").expect("ourselves").uid() == 0 {
        command.uid(SOMEBODY).gid(SOMEBODY);
    }
    let process = Process::start(dir.path(), "serve", &mut command);
    ready(port).await;
    let serve = process.id().to_string();
    assert!(is_closed(&serve), "serve");
    let guards = descendants(&serve).into_iter().filter(|pid| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command.windows(7).any(|word| word == b"\0guard\0")
    });
    let guards: Vec<_> = guards.collect();
    assert!(!guards.is_empty(), "an agent is kept ready");
    for guard in guards {
        assert!(is_closed(&guard), "its guard");
    }
}
