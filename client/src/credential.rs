//! The caller's credential. Its source is read again when the server refuses the credential, or
//! shortly before it expires.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderValue;
use serde::Deserialize;
use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// A token is renewed this long before its end.
const RENEW_BEFORE: Duration = Duration::from_secs(60);
/// A command may have to ask a person.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(120);

pub struct Credential {
    source: CredentialSource,
    /// Locked while it is fetched, so that it is fetched once for all who need it.
    current: Mutex<Option<HeaderValue>>,
}

/// Where a credential comes from.
pub enum CredentialSource {
    None,
    /// Always the same.
    Text(String),
    /// Read again when it is needed anew.
    File(PathBuf),
    /// For `sh`; what it prints is the credential.
    Command(String),
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum CredentialError {
    #[error("the credential file {}: {fault}", path.display())]
    File { path: PathBuf, fault: String },
    #[error("the credential command {0}")]
    Command(String),
    #[error("the credential is empty, or holds characters that no header can")]
    Unsendable,
}

impl Credential {
    pub fn new(source: CredentialSource) -> Self {
        Self {
            source,
            current: Mutex::new(None),
        }
    }

    pub fn none() -> Self {
        Self::new(CredentialSource::None)
    }

    pub fn is_none(&self) -> bool {
        matches!(self.source, CredentialSource::None)
    }

    /// For the header `Authorization`. `refused` is one that is not good any more.
    pub async fn header(
        &self,
        refused: Option<&HeaderValue>,
    ) -> Result<Option<HeaderValue>, CredentialError> {
        let mut current = self.current.lock().await;
        let is_good = |header: &HeaderValue| refused != Some(header) && !expires_soon(header);
        if !current.as_ref().is_some_and(is_good) {
            *current = self.fetch().await?;
        }
        Ok(current.clone())
    }

    async fn fetch(&self) -> Result<Option<HeaderValue>, CredentialError> {
        let text = match &self.source {
            CredentialSource::None => return Ok(None),
            CredentialSource::Text(text) => text.clone(),
            CredentialSource::File(path) => {
                let read = std::fs::read_to_string(path);
                read.map_err(|fault| CredentialError::File {
                    path: path.clone(),
                    fault: fault.to_string(),
                })?
            }
            CredentialSource::Command(command) => run(command).await?,
        };
        let text = text.trim();
        let header = HeaderValue::from_str(&format!("Bearer {text}"));
        let header = header.ok().filter(|_| !text.is_empty());
        let mut header = header.ok_or(CredentialError::Unsendable)?;
        header.set_sensitive(true);
        Ok(Some(header))
    }
}

async fn run(command: &str) -> Result<String, CredentialError> {
    let failed = |why: String| CredentialError::Command(why);
    let mut shell = Command::new("sh");
    shell
        .args(["-c", command])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true);
    let output = timeout(COMMAND_TIMEOUT, shell.output()).await;
    let output = output.map_err(|_| failed(format!("took longer than {COMMAND_TIMEOUT:?}")))?;
    let output = output.map_err(|error| failed(format!("cannot be run: {error}")))?;
    if output.status.success() {
        String::from_utf8(output.stdout).map_err(|_| CredentialError::Unsendable)
    } else {
        Err(failed(format!("ended with {}", output.status)))
    }
}

#[derive(Deserialize)]
struct TokenClaims {
    exp: u64,
}

/// Only JWTs say when they end. They are not verified here, this is for planning alone.
fn expires_soon(header: &HeaderValue) -> bool {
    let claims = || {
        let token = header.to_str().ok()?.strip_prefix("Bearer ")?;
        let payload = token.split('.').nth(1)?;
        let payload = URL_SAFE_NO_PAD.decode(payload).ok()?;
        serde_json::from_slice::<TokenClaims>(&payload).ok()
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let soon = now.unwrap_or_default() + RENEW_BEFORE;
    claims().is_some_and(|TokenClaims { exp }| exp <= soon.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(header: Option<HeaderValue>) -> String {
        header.unwrap().to_str().unwrap().to_owned()
    }

    #[tokio::test]
    async fn a_file_is_read_again_when_its_credential_was_refused() {
        let path = std::env::temp_dir().join(format!("baton-credential-{}", std::process::id()));
        std::fs::write(&path, "old\n").unwrap();
        let credential = Credential::new(CredentialSource::File(path.clone()));
        let old = credential.header(None).await.unwrap();
        std::fs::write(&path, "new\n").unwrap();
        assert_eq!(shown(credential.header(None).await.unwrap()), "Bearer old");
        let new = credential.header(old.as_ref()).await.unwrap();
        assert_eq!(shown(new), "Bearer new");
        // Another request was refused with the old one, too.
        std::fs::remove_file(&path).unwrap();
        let again = credential.header(old.as_ref()).await.unwrap();
        assert_eq!(shown(again), "Bearer new");
    }

    #[tokio::test]
    async fn a_command_runs_again_before_its_token_expires() {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.unwrap().as_secs();
        let token = |exp: u64| {
            format!(
                "h.{}.s",
                URL_SAFE_NO_PAD.encode(format!("{{\"exp\":{exp}}}"))
            )
        };
        for (exp, runs_again) in [(now + 30, true), (now + 3600, false)] {
            let count =
                std::env::temp_dir().join(format!("baton-runs-{}-{exp}", std::process::id()));
            let command = format!("echo run >> {}; echo {}", count.display(), token(exp));
            let credential = Credential::new(CredentialSource::Command(command));
            credential.header(None).await.unwrap();
            credential.header(None).await.unwrap();
            let runs = std::fs::read_to_string(&count).unwrap().lines().count();
            std::fs::remove_file(&count).unwrap();
            assert_eq!(runs == 2, runs_again);
        }
    }

    #[tokio::test]
    async fn a_command_that_fails_says_so() {
        let failing = Credential::new(CredentialSource::Command("exit 3".into()));
        let error = failing.header(None).await.unwrap_err();
        assert!(error.to_string().contains("exit status: 3"), "{error}");
        let silent = Credential::new(CredentialSource::Command("true".into()));
        assert!(silent.header(None).await.is_err());
    }
}
