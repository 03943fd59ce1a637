//! Runs the operator's command when a session with bindings, such as a sandbox, is closed, deleted
//! or expires. It may run twice: a worker can stop before it has recorded that the command was run.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use baton_session::id::SessionId;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Map, Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::time::{sleep, timeout};

const HOOK_TIMEOUT: Duration = Duration::from_secs(30);
const ATTEMPTS: u32 = 3;

/// A command line for `sh`, with the release as JSON on its standard input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseHook(pub String);

impl ReleaseHook {
    /// Comes to an end, whether or not the command succeeds: a session must not hang on it.
    pub(crate) async fn run(&self, session: &SessionId, reason: &str, bound: Map<String, Value>) {
        let release = json!({ "sessionId": session, "reason": reason, "bound": bound });
        for attempt in 1..=ATTEMPTS {
            let fault = match timeout(HOOK_TIMEOUT, self.call(release.to_string())).await {
                Ok(Ok(status)) if status.success() => return,
                Ok(Ok(status)) => status.to_string(),
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("did not end within {HOOK_TIMEOUT:?}"),
            };
            tracing::warn!(session.id = %session, attempt, fault, "the release hook failed");
            sleep(Duration::from_millis(200) * attempt).await;
        }
        tracing::error!(session.id = %session, "the session's bindings were not released");
    }

    async fn call(&self, release: String) -> std::io::Result<ExitStatus> {
        let mut child = Command::new("sh")
            .args(["-c", &self.0])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            // Processes that the shell starts are killed with it.
            .process_group(0)
            .spawn()?;
        let group = ProcessGroup(child.id());
        if let Some(mut input) = child.stdin.take() {
            // A command that needs no input may have ended by now.
            let _ = input.write_all(release.as_bytes()).await;
        }
        let ended = child.wait().await;
        group.disarm();
        ended
    }
}

/// The process group of a call; killed if the call is dropped. Dropped before the shell is reaped,
/// so the id is not reused yet.
struct ProcessGroup(Option<u32>);

impl ProcessGroup {
    /// The shell has ended by itself: processes that it leaves behind may go on.
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        let leader = self.0.and_then(|id| Pid::from_raw(id.try_into().ok()?));
        if let Some(leader) = leader {
            // It may have ended just now.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use baton_session::id::Partition;
    use tempfile::TempDir;

    use super::*;

    #[tokio::test]
    async fn what_the_command_started_goes_with_it() {
        let dir = TempDir::new().unwrap();
        let pipe = dir.path().join("pipe");
        let made = Command::new("mkfifo").arg(&pipe).status().await;
        assert!(made.unwrap().success());
        // Both the shell and what it has started keep the pipe open.
        let hook = format!("exec 3>{}; sleep 60 & echo >&3; wait", pipe.display());
        let call = tokio::spawn(async move {
            let session = SessionId::mint(Partition(0));
            ReleaseHook(hook).run(&session, "closed", Map::new()).await;
        });
        let read = tokio::task::spawn_blocking(move || {
            let mut reader = std::fs::File::open(pipe).unwrap();
            reader.read_exact(&mut [0]).unwrap();
            reader
        });
        let mut reader = read.await.unwrap();
        call.abort();
        let rest = tokio::task::spawn_blocking(move || reader.read_to_end(&mut Vec::new()));
        let ended = timeout(HOOK_TIMEOUT, rest).await;
        assert!(ended.is_ok(), "somebody still holds the pipe");
    }
}
