//! Whether an agent's programs are on this machine, before one is started.

use std::env;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::known::{KnownAgent, NodeVersion, by_program};

/// As the system would look for it.
pub fn find(program: &str, path: &OsStr) -> Option<PathBuf> {
    if program.contains('/') {
        Some(PathBuf::from(program)).filter(|file| is_executable(file))
    } else {
        let mut files = env::split_paths(path).map(|directory| directory.join(program));
        files.find(|file| is_executable(file))
    }
}

fn is_executable(path: &Path) -> bool {
    let data = path.metadata();
    data.is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// Everything that keeps a command from being started, with the line that installs what is missing.
pub fn fault(command: &[String], path: &OsStr) -> Option<String> {
    let program = command.first().map_or("", String::as_str);
    let known = by_program(program);
    if find(program, path).is_none() {
        return Some(missing(program, known, path));
    }
    known.and_then(|known| fault_of(known, path))
}

/// The other needs of a known agent, once its own program is there.
fn fault_of(known: &KnownAgent, path: &OsStr) -> Option<String> {
    let mut others = known.also.iter();
    if let Some(other) = others.find(|other| find(other, path).is_none()) {
        return Some(missing(other, Some(known), path));
    }
    let least = known.node?;
    let remedy = format!(
        "Install Node.js {least} or newer, such as with `npm install -g node@{}`, and let PATH \
            find it first",
        least.0
    );
    let title = known.title;
    let Some(node) = find("node", path) else {
        return Some(format!(
            "{title} needs Node.js, and there is no program node in PATH ({}). {remedy}",
            path.to_string_lossy()
        ));
    };
    // A version that cannot be read may be new enough: the agent itself will say so.
    let version = node_version(&node)?;
    (version < least).then(|| {
        format!(
            "{title} needs Node.js {least} or newer, and {} is {version}. {remedy}",
            node.display()
        )
    })
}

fn node_version(node: &Path) -> Option<NodeVersion> {
    let mut command = Command::new(node);
    let command = command.arg("--version").stdin(Stdio::null()).env_clear();
    let printed = command.output().ok()?.stdout;
    NodeVersion::parse(&String::from_utf8_lossy(&printed))
}

fn missing(program: &str, known: Option<&KnownAgent>, path: &OsStr) -> String {
    let place = if program.contains('/') {
        String::new()
    } else {
        format!(" in PATH ({})", path.to_string_lossy())
    };
    let remedy = match known {
        Some(known) => format!("Install it: {}", known.install),
        None => "Install it, or write its whole path into --agent".to_owned(),
    };
    format!("there is no program {program}{place}. {remedy}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_program_is_looked_for_as_the_system_does() {
        let found = find("sh", OsStr::new("/nowhere:/bin"));
        assert_eq!(found.expect("there is a shell"), Path::new("/bin/sh"));
        assert!(find("sh", OsStr::new("/nowhere")).is_none());
        assert!(find("/bin/sh", OsStr::new("")).is_some());
        assert!(find("/etc/passwd", OsStr::new("")).is_none());
    }

    fn program(folder: &Path, name: &str, script: &str) {
        let file = folder.join(name);
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("writable");
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).expect("ours");
    }

    #[test]
    fn what_is_missing_comes_with_the_line_that_installs_it() {
        let folder = tempfile::TempDir::new().expect("a temporary directory");
        let path = folder.path().as_os_str();
        let says = |words: &[&str]| {
            let command: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            fault(&command, path).unwrap_or_default()
        };
        let claude = says(&["claude-agent-acp"]);
        assert!(claude.ends_with("npm install -g @agentclientprotocol/claude-agent-acp"));
        assert!(says(&["./mine"]).contains("--agent"));

        program(folder.path(), "pi-acp", "");
        assert!(says(&["pi-acp"]).contains("no program pi in PATH"));
        program(folder.path(), "pi", "");
        assert!(says(&["pi-acp"]).contains("no program node"));
        program(folder.path(), "node", "echo v22.9.0");
        let old = says(&["pi-acp"]);
        assert!(
            old.contains("22.19 or newer") && old.contains("is 22.9"),
            "{old}"
        );
        program(folder.path(), "node", "echo v22.19.0");
        assert_eq!(says(&["pi-acp"]), "");
    }
}
