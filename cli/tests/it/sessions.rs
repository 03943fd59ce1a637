//! `baton sessions`, as an operator uses it.

mod following;
mod looking;

use std::io::Write as _;
use std::process::{Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::auth::{ALICE, BOB};
use crate::support::http::prompt;
use crate::support::process::baton;
use crate::support::tls::Secured;
use crate::support::{Client, Cluster, Served};

pub fn sessions(url: &str, arguments: &[&str], input: &[u8]) -> Output {
    let base = url.trim_end_matches("/acp");
    let mut child = baton()
        .args(["sessions", "--url", base])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("baton runs");
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().expect("baton ends");
    writer.join().expect("nothing panics there");
    output
}

/// What it prints when all is well.
fn printed(url: &str, arguments: &[&str]) -> String {
    let output = sessions(url, arguments, b"");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
    String::from_utf8(output.stdout).expect("text")
}

/// One JSON document.
fn document(url: &str, arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(url, arguments)).expect("JSON")
}

/// What it says when something is wrong.
fn refused(url: &str, arguments: &[&str]) -> String {
    let output = sessions(url, arguments, b"");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    String::from_utf8(output.stderr).expect("text")
}

async fn said(client: &Client, session: &str, id: &str, text: &str) {
    let mut stream = client.one_shot(prompt(json!(id), session, text)).await;
    stream.turn(&json!(id)).await;
}

const NOBODY: &str = "000-nothing";

#[tokio::test]
async fn a_fork_has_the_same_past_or_a_part_of_it() {
    let baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    let parent = client.new_session().await;
    said(&client, &parent, "1", "/count 2").await;
    said(&client, &parent, "2", "/count 3").await;
    let chunks = |session: &str| {
        let shown = document(&baton.url(), &["show", session, "--json"]);
        shown["updates"].as_array().expect("a list").clone()
    };
    let all = chunks(&parent);
    let child = printed(&baton.url(), &["fork", &parent]);
    assert_eq!(chunks(child.trim()), all);
    // At the end of the first answer.
    let first = &all[1]["messageId"];
    let at = first.as_str().expect("messages have ids");
    let forked = document(&baton.url(), &["fork", &parent, "--at", at, "--json"]);
    let child = forked["sessionId"].as_str().expect("an id");
    assert_eq!(chunks(child), all[..3]);
    said(&client, child, "3", "/count 1").await;
    assert_eq!(chunks(&parent), all);

    let fault = refused(&baton.url(), &["fork", &parent, "--at", "no-such"]);
    assert!(fault.contains("no message \"no-such\""), "{fault}");
    let fault = refused(&baton.url(), &["fork", NOBODY]);
    assert!(fault.contains("there is no session"), "{fault}");
}

#[tokio::test]
async fn what_is_deleted_is_gone_however_often() {
    let baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    let [gone, stays] = [client.new_session().await, client.new_session().await];
    for _ in 0..2 {
        assert_eq!(printed(&baton.url(), &["delete", &gone]), "");
    }
    let list = printed(&baton.url(), &["list"]);
    assert!(list.contains(&stays) && !list.contains(&gone), "{list}");
    let fault = refused(&baton.url(), &["show", &gone]);
    assert!(fault.contains("there is no session"), "{fault}");
}

#[tokio::test]
async fn a_credential_opens_what_is_its_own() {
    let cluster = Cluster::start_with_keys().await;
    let url = cluster.url();
    let alice = Client::with_key(&url, ALICE).await;
    let session = alice.new_session().await;
    said(&alice, &session, "1", "hello").await;
    let dir = TempDir::new().expect("a temporary directory");
    let file = |name: &str, key: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, format!("{key}\n")).expect("writable");
        path.display().to_string()
    };
    let [alices, bobs, bad] = [
        file("alice", ALICE),
        file("bob", BOB),
        file("bad", "bk_nobody"),
    ];
    let verbs: [&[&str]; 5] = [
        &["list"],
        &["show", &session],
        &["tail", &session],
        &["fork", &session],
        &["delete", &session],
    ];
    for verb in verbs {
        for credential in [&["--credential-file", &bad][..], &[]] {
            let fault = refused(&url, &[verb, credential].concat());
            assert!(fault.contains("a valid credential"), "{fault}");
        }
    }
    // To somebody else it looks as if it did not exist.
    let as_bob = ["--credential-file", bobs.as_str()];
    for verb in &verbs[1..4] {
        let fault = refused(&url, &[verb, &as_bob[..]].concat());
        assert!(fault.contains("there is no session"), "{fault}");
    }
    printed(&url, &[verbs[4], &as_bob[..]].concat());
    let list = printed(&url, &[&["list"], &as_bob[..]].concat());
    assert!(!list.contains(&session), "{list}");
    let shown = printed(&url, &["show", &session, "--credential-file", &alices]);
    assert!(shown.contains("hello"), "{shown}");
}

#[tokio::test]
async fn over_https_the_authority_that_was_named_is_trusted_and_no_other() {
    let plain = Served::start().await;
    let client = Client::initialize(&plain.url()).await;
    let session = client.new_session().await;
    said(&client, &session, "1", "hello").await;
    let archive = printed(&plain.url(), &["export", &session]);
    let secured = Secured::start(&[]).await;
    let ca = secured.authority_file().display().to_string();
    let imported = sessions(&secured.url(), &["import", "--ca", &ca], archive.as_bytes());
    assert!(imported.status.success(), "{imported:?}");
    let imported = String::from_utf8(imported.stdout).expect("text");
    let imported = imported.trim();
    let shown = printed(&secured.url(), &["show", imported, "--ca", &ca]);
    assert!(shown.contains("hello"), "{shown}");
    let again = printed(&secured.url(), &["export", imported, "--ca", &ca]);
    assert_eq!(again.lines().count(), archive.lines().count());
    let fault = refused(&secured.url(), &["list"]);
    assert!(fault.contains("certificate"), "{fault}");
}
