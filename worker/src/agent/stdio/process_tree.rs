//! Processes and their children, as `/proc` shows them.

use std::collections::HashMap;
use std::fs;

/// Lines of `/proc/PID/status` with memory that a process has for itself alone, in kB.
const OWN_MEMORY: [&str; 3] = ["RssAnon:", "RssShmem:", "VmSwap:"];

/// Every process and its parent.
pub fn parents() -> impl Iterator<Item = (u32, u32)> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| {
        // The name, in parentheses, may hold anything; then come the state and the parent.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, after) = stat.rsplit_once(')')?;
        let parent = after.split_whitespace().nth(1)?;
        Some((pid, parent.parse().ok()?))
    })
}

/// The memory in bytes that each of these processes takes together with all below it. Program files
/// are left out, which all of them share.
pub fn memory_of(roots: &[u32]) -> HashMap<u32, u64> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for (pid, parent) in parents() {
        children.entry(parent).or_default().push(pid);
    }
    roots
        .iter()
        .map(|root| {
            let (mut bytes, mut left) = (0, vec![*root]);
            while let Some(pid) = left.pop() {
                bytes += own_memory(pid);
                // A child is visited once: it is taken out.
                left.extend(children.remove(&pid).unwrap_or_default());
            }
            (*root, bytes)
        })
        .collect()
}

/// Nothing for a process that has ended.
fn own_memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let lines = status.lines().filter_map(|line| {
        let given = OWN_MEMORY.iter().find_map(|name| line.strip_prefix(name))?;
        given.split_whitespace().next()?.parse::<u64>().ok()
    });
    lines.sum::<u64>() << 10
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::Read as _;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn memory_counts_children_and_what_they_allocate() {
        // A shell that stays, and below it a program that fills 64 MiB.
        let fill = "a = bytearray(64 << 20); print('x', flush=True); input()";
        let mut shell = Command::new("sh")
            .args(["-c", &format!("python3 -c \"{fill}\"; true")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let mut output = shell.stdout.take().expect("a pipe");
        output.read_exact(&mut [0]).expect("it has filled it");
        let root = shell.id();
        let memory = memory_of(&[root, u32::MAX]);
        assert!(memory[&root] > 64 << 20, "{memory:?}");
        assert!(memory[&root] < 128 << 20, "{memory:?}");
        assert_eq!(memory[&u32::MAX], 0, "there is no such process");
        drop(shell.stdin.take());
        shell.wait().expect("it ends");
        assert_eq!(memory_of(&[root])[&root], 0);
    }
}
