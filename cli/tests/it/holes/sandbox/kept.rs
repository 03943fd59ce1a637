//! What is written for operators, or lets them in, is no agent's: no session may be around it.

use std::fs;

use tempfile::TempDir;

use super::hostile::{hostile, new_in};
use crate::support::auth::{ALICE, write_keys};
use crate::support::process::ADMIN_TOKEN;
use crate::support::{Client, Served};

#[tokio::test]
async fn f3_a_session_around_the_audit_log_or_the_administrators_socket_is_refused() {
    let dir = TempDir::new().expect("a temporary directory");
    for name in ["keys", "audit", "admin", "secret", "work"] {
        fs::create_dir(dir.path().join(name)).expect("a directory");
    }
    let path = |name: &str| dir.path().join(name).display().to_string();
    let keys = write_keys(&dir.path().join("keys"));
    fs::write(path("secret/token"), ADMIN_TOKEN).expect("a file");
    let (agent, audit, secret) = (hostile(), path("audit/log"), path("secret/token"));
    let admin = format!("unix:{}", path("admin/socket"));
    let arguments = ["--ephemeral", "--auth", "keys", "--auth-keys", &keys];
    let more = ["--agent", &agent, "--audit-log", &audit];
    let admins = ["--admin-listen", &admin, "--admin-token-file", &secret];
    let baton = Served::start_with(&[&arguments[..], &more, &admins].concat()).await;
    let client = Client::with_key(&baton.url(), ALICE).await;
    for name in ["keys", "audit", "admin", "secret"] {
        let answer = new_in(&client, &path(name), &[]).await;
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("params.cwd"), "{name}: {answer}");
    }
    let answer = new_in(&client, &path("work"), &[]).await;
    assert!(answer["result"].is_object(), "{answer}");
}
