//! What an agent writes to its standard error is for the operator.

use tempfile::TempDir;

use super::hostile::visit_in;
use crate::stdio::{Visit, actor, served};
use crate::support::Served;
use crate::support::auth::{ALICE, BOB, write_keys};
use crate::support::process::baton;

#[tokio::test]
async fn m2_what_an_agent_says_of_one_caller_is_not_told_to_another() {
    let dir = TempDir::new().expect("a temporary directory");
    let (agent, keys) = (actor(""), write_keys(dir.path()));
    let arguments = [
        "--ephemeral",
        "--auth",
        "keys",
        "--auth-keys",
        &keys,
        "--agent",
        &agent,
        "--agent-scope",
        "shared",
    ];
    let baton = Served::start_with(&arguments).await;
    let work = TempDir::new().expect("a temporary directory");
    let work = work.path().display().to_string();
    let mut bob = visit_in(&baton.url(), BOB, &work).await;
    bob.says("stderr the password of bob is hunter2").await;
    let mut alice = visit_in(&baton.url(), ALICE, &work).await;
    let (_, answer) = alice.turn("exit 1").await;
    assert_eq!(answer["error"]["code"], 5006, "{answer}");
    assert!(!answer.to_string().contains("hunter2"), "{answer}");
    assert_eq!(answer["error"]["data"].get("stderr"), None, "{answer}");
    let log = baton.process.output();
    assert!(log.contains("hunter2"), "the log has it: {log}");
}

#[tokio::test]
async fn m2_a_client_is_not_told_unless_the_operator_says_so() {
    let baton = served("", &[]).await;
    let mut visit = Visit::begin(&baton.url()).await;
    let (_, answer) = visit.turn("stderr cannot open /etc/secret\nexit 1").await;
    assert_eq!(answer["error"]["code"], 5006, "{answer}");
    assert_eq!(answer["error"]["data"].get("stderr"), None, "{answer}");
    let log = baton.process.output();
    assert!(log.contains("cannot open /etc/secret"), "{log}");
}

#[test]
fn m2_a_shared_agents_words_cannot_be_given_to_clients() {
    let output = baton()
        .args([
            "serve",
            "--agent-scope",
            "shared",
            "--agent-stderr",
            "client",
        ])
        .output()
        .expect("baton runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(64), "{said}");
    assert!(said.contains("--agent-stderr client"), "{said}");
    let output = baton()
        .args(["serve", "--agent-stderr", "everybody"])
        .output()
        .expect("baton runs");
    assert_eq!(output.status.code(), Some(64));
}
