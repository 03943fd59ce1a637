//! The agent: it is started once, and has to introduce itself.

use std::env;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::Finding;
use crate::agent_policy::ClientTrust;
use crate::options::WorkerOptions;

const SUBJECT: &str = "agent";
/// Of ACP, as spoken here.
const PROTOCOL_VERSION: u64 = 1;

/// Programs and the packages of npm that have them.
const PACKAGES: [(&str, &str); 6] = [
    ("claude-agent-acp", "@agentclientprotocol/claude-agent-acp"),
    ("codex-acp", "@agentclientprotocol/codex-acp"),
    ("gemini", "@google/gemini-cli"),
    ("qwen", "@qwen-code/qwen-code"),
    ("opencode", "opencode-ai"),
    ("copilot", "@github/copilot"),
];

pub async fn check(options: &WorkerOptions, kept: &[PathBuf], clients: ClientTrust) -> Finding {
    let command = match options.agent.command() {
        Ok(Some(command)) => command,
        Ok(None) => return Finding::ok(SUBJECT, "scripted, which is built in"),
        Err(fault) => return Finding::fail(SUBJECT, fault),
    };
    let program = command.first().map_or("", String::as_str);
    let path = options.agent.search_path();
    if !can_be_found(program, &path) {
        return Finding::fail(SUBJECT, missing(program, &path));
    }
    let agent = match options.agent(kept, clients).await {
        Ok(agent) => agent,
        Err(error) => {
            return Finding::fail(
                SUBJECT,
                format!(
                    "{error:#}\nRun `{}` in a shell to see what it needs; --agent-env passes \
                     variables to it, --agent-start-timeout gives it longer",
                    command.join(" ")
                ),
            );
        }
    };
    let card = agent.card();
    let introduced = format!("{} {}", card.name, card.version);
    match card.initialize["protocolVersion"].as_u64() {
        Some(PROTOCOL_VERSION) => Finding::ok(SUBJECT, format!("{introduced} starts and answers")),
        version => Finding::fail(
            SUBJECT,
            format!(
                "{introduced} speaks version {} of ACP, and this Baton version \
                 {PROTOCOL_VERSION}. Install a version of the agent that speaks it",
                version.map_or("unknown".to_owned(), |version| version.to_string())
            ),
        ),
    }
}

/// As the system would look for it.
fn can_be_found(program: &str, path: &OsStr) -> bool {
    if program.contains('/') {
        is_executable(Path::new(program))
    } else {
        env::split_paths(path).any(|directory| is_executable(&directory.join(program)))
    }
}

fn is_executable(path: &Path) -> bool {
    let data = path.metadata();
    data.is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

fn missing(program: &str, path: &OsStr) -> String {
    let place = if program.contains('/') {
        String::new()
    } else {
        format!(" in PATH ({})", path.to_string_lossy())
    };
    let package = PACKAGES.iter().find(|(known, _)| *known == program);
    let remedy = match package {
        Some((_, package)) => format!("Install it: npm install -g {package}"),
        None => "Install it, or write its whole path into --agent".to_owned(),
    };
    format!("there is no program {program}{place}. {remedy}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_looked_for_as_the_system_does() {
        assert!(can_be_found("sh", OsStr::new("/nowhere:/bin")));
        assert!(!can_be_found("sh", OsStr::new("/nowhere")));
        assert!(can_be_found("/bin/sh", OsStr::new("")));
        assert!(!can_be_found("/etc/passwd", OsStr::new("")));
    }

    #[test]
    fn a_known_agent_comes_with_the_line_that_installs_it() {
        let known = missing("claude-agent-acp", OsStr::new("/bin"));
        assert!(known.ends_with("npm install -g @agentclientprotocol/claude-agent-acp"));
        assert!(missing("./mine", OsStr::new("")).contains("--agent"));
    }
}
