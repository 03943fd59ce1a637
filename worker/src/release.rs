//! What was bound to a session, such as a sandbox, is free again when the session is closed, deleted
//! or expires. An operator's command is told so. It may be told twice: a worker can stop before it
//! has written down that it was done.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use baton_session::id::SessionId;
use serde_json::{Map, Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::time::{sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(30);
const ATTEMPTS: u32 = 3;

/// A command line for `sh`, with the release as JSON on its standard input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseHook(pub String);

impl ReleaseHook {
    /// Comes to an end, whether or not the command succeeds: a session must not hang on it.
    pub(crate) async fn run(&self, session: &SessionId, reason: &str, bound: Map<String, Value>) {
        let release = json!({ "sessionId": session, "reason": reason, "bound": bound });
        for attempt in 1..=ATTEMPTS {
            let fault = match timeout(PATIENCE, self.call(release.to_string())).await {
                Ok(Ok(status)) if status.success() => return,
                Ok(Ok(status)) => status.to_string(),
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("did not end within {PATIENCE:?}"),
            };
            tracing::warn!(session.id = %session, attempt, fault, "the release hook failed");
            sleep(Duration::from_millis(200) * attempt).await;
        }
        tracing::error!(session.id = %session, "what was bound to the session was not released");
    }

    async fn call(&self, release: String) -> std::io::Result<ExitStatus> {
        let mut child = Command::new("sh")
            .args(["-c", &self.0])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        if let Some(mut input) = child.stdin.take() {
            // A command that needs no input may have ended by now.
            let _ = input.write_all(release.as_bytes()).await;
        }
        child.wait().await
    }
}
