//! `baton token`, and keys that change while gateways run.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use baton_session::id::{Partition, SessionId};
use baton_session::token::{KeyRing, SigningKeys, TokenScope};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::http::new_session;
use crate::support::process::baton;
use crate::support::{Client, Cluster, Served, until};

fn token(arguments: &[&str], input: &str) -> Output {
    let mut child = baton()
        .arg("token")
        .args(arguments)
        .env_remove("BATON_KEYS")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("baton runs");
    let mut stdin = child.stdin.take().expect("piped");
    // Who needs no input may be gone already.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().expect("baton ends")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn printed(output: Output) -> String {
    assert!(output.status.success(), "{}", said(&output));
    String::from_utf8(output.stdout)
        .expect("text")
        .trim()
        .to_owned()
}

struct Desk {
    dir: TempDir,
    session: String,
}

impl Desk {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().expect("a directory"),
            session: SessionId::mint(Partition(3)).to_string(),
        }
    }

    fn keys(&self, algorithm: &str) -> PathBuf {
        let path = self.dir.path().join(format!("{algorithm}.json"));
        fs::write(&path, printed(token(&["keygen", "--alg", algorithm], ""))).expect("written");
        path
    }

    fn mint(&self, keys: &Path, more: &[&str]) -> Output {
        let keys = keys.to_str().expect("text");
        let arguments = ["mint", "--keys", keys, "--session", &self.session];
        token(&[&arguments, more].concat(), "")
    }
}

#[test]
fn keys_in_a_file_are_made_once_and_for_their_owner() {
    let desk = Desk::new();
    let path = desk.dir.path().join("keys.json");
    let make = |algorithm| {
        let file = path.to_str().expect("text");
        printed(token(&["keygen", "--alg", algorithm, "--file", file], ""))
    };
    assert_eq!(make("eddsa"), "", "a secret is not printed as well");
    let first = fs::read_to_string(&path).expect("written");
    assert!(first.contains("EdDSA"), "as it was asked for");
    let mode = fs::metadata(&path)
        .expect("it is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    SigningKeys::open(&path).expect("good keys");
    make("hs256");
    assert_eq!(fs::read_to_string(&path).expect("it is there"), first);
    assert_eq!(fs::read_dir(desk.dir.path()).expect("readable").count(), 1);

    let nowhere = desk.dir.path().join("nowhere/keys.json");
    let refused = token(&["keygen", "--file", nowhere.to_str().expect("text")], "");
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        said(&refused).contains("nowhere/keys.json"),
        "{}",
        said(&refused)
    );
}

#[test]
fn a_minted_token_says_what_was_asked_for_with_every_algorithm() {
    let desk = Desk::new();
    for algorithm in ["hs256", "eddsa", "es256"] {
        let path = desk.keys(algorithm);
        let keys = SigningKeys::open(&path).expect("keys");
        let plain = printed(desk.mint(&path, &[]));
        let grant = keys.ring().verify_session(&plain).expect("a good token");
        assert_eq!(grant.session.as_str(), desk.session);
        assert_eq!(
            (grant.scope, grant.principal.as_str()),
            (TokenScope::Control, "anonymous")
        );
        assert_eq!(grant.expires - grant.issued, 3600);
        assert!(plain.len() <= 400, "{}", plain.len());
        let more = ["--scope", "observe", "--ttl", "24h", "--principal", "ada"];
        let other = printed(desk.mint(&path, &more));
        let grant = keys.ring().verify_session(&other).expect("a good token");
        assert_eq!(
            (grant.scope, grant.principal.as_str()),
            (TokenScope::Observe, "ada")
        );
        assert_eq!(grant.expires - grant.issued, 24 * 3600);
    }
}

#[test]
fn what_cannot_be_minted_is_named_all_at_once() {
    let mut desk = Desk::new();
    let keys = desk.keys("hs256");
    for ttl in ["25h", "0s"] {
        let refused = desk.mint(&keys, &["--ttl", ttl]);
        assert_eq!(refused.status.code(), Some(64));
        assert!(said(&refused).contains("--ttl"), "{}", said(&refused));
    }
    let long = desk.mint(&keys, &["--principal", &"p".repeat(1000)]);
    assert_eq!(long.status.code(), Some(64));
    assert!(said(&long).contains("--principal"));
    desk.session = "../etc/passwd".into();
    let refused = desk.mint(Path::new("missing.json"), &["--ttl", "2d"]);
    assert_eq!(refused.status.code(), Some(64));
    for fault in ["--ttl", "--session", "--keys missing.json"] {
        assert!(said(&refused).contains(fault), "{}", said(&refused));
    }
}

#[test]
fn a_token_is_shown_without_being_trusted() {
    let desk = Desk::new();
    let minted = printed(desk.mint(&desk.keys("eddsa"), &[]));
    let shown = [
        token(&["inspect"], &format!("{minted}\n")),
        token(&["inspect", "-"], &minted),
        token(&["inspect", &minted], ""),
    ];
    for output in shown {
        assert!(said(&output).contains("nothing of this was verified"));
        let shown: Value = serde_json::from_str(&printed(output)).expect("JSON");
        assert_eq!(shown["verified"], json!(false));
        assert_eq!(shown["header"]["typ"], "baton-session+jwt");
        assert_eq!(shown["claims"]["sid"], json!(desk.session));
        for date in ["issued", "expires"] {
            let date = shown[date].as_str().expect("a date");
            assert!(date.starts_with("20") && date.ends_with('Z'), "{date}");
        }
    }
    assert_eq!(token(&["inspect"], "not.a.token").status.code(), Some(1));
    assert_eq!(token(&["inspect"], "").status.code(), Some(64));
}

#[test]
fn a_token_is_verified_with_a_file_or_a_directory() {
    let desk = Desk::new();
    let keys = desk.keys("es256");
    let minted = printed(desk.mint(&keys, &[]));
    for path in [keys.as_path(), desk.dir.path()] {
        let path = path.to_str().expect("text");
        let good = token(&["verify", "--keys", path], &minted);
        assert_eq!(printed(good), "valid: a session token");
        let last = if minted.ends_with('A') { 'Q' } else { 'A' };
        let forged = format!("{}{last}", &minted[..minted.len() - 1]);
        let forged = token(&["verify", "--keys", path, "-"], &forged);
        assert_eq!(forged.status.code(), Some(1));
        assert!(
            said(&forged).contains("not a valid token"),
            "{}",
            said(&forged)
        );
    }
    let others = desk.keys("hs256");
    let others = others.to_str().expect("text");
    let foreign = token(&["verify", "--keys", others, &minted], "");
    assert_eq!(foreign.status.code(), Some(1));
    assert!(said(&foreign).contains("unknown key"), "{}", said(&foreign));
}

#[tokio::test]
async fn gateways_change_keys_while_they_run() {
    let cluster = Cluster::start().await;
    let client = Client::initialize(&cluster.url()).await;
    let old: Value = serde_json::from_str(&cluster.keys()).expect("a key set");
    let new: Value = serde_json::from_str(&printed(token(&["keygen", "--alg", "es256"], "")))
        .expect("a key set");
    let both = json!({ "keys": [new["keys"][0], old["keys"][0]] }).to_string();
    cluster.write_keys(&both);
    for number in 0..2 {
        let base = cluster.gateway_url(number).replace("/acp", "");
        let url = format!("{base}/.well-known/jwks.json");
        let published = until("the new key is published", || async {
            let answer = reqwest::get(&url).await.ok()?;
            assert_eq!(answer.headers()["content-type"], "application/json");
            assert_eq!(answer.headers()["cache-control"], "public, max-age=60");
            let answer = answer.text().await.ok()?;
            let answer: Value = serde_json::from_str(&answer).expect("JSON");
            let published = answer["keys"].as_array().expect("keys").clone();
            (!published.is_empty()).then_some(published)
        })
        .await;
        // The old one is a secret, and so is half of the new one.
        assert_eq!(published.len(), 1);
        assert_eq!(published[0]["x"], new["keys"][0]["x"]);
        assert!(published[0].get("d").is_none());
    }
    // A token of before is good, and new ones are signed with the new key.
    client.new_session().await;
    let fresh = Client::initialize(&cluster.url()).await;
    let ring = KeyRing::parse(&new.to_string()).expect("a key");
    assert!(ring.verify_connection(&fresh.token).is_ok());
    assert!(ring.verify_connection(&client.token).is_err());
}

#[tokio::test]
async fn one_process_alone_publishes_no_secret() {
    let baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    let body = new_session(json!(1)).to_string();
    assert!(
        client
            .send(&[("content-type", "application/json")], body)
            .await
            .status()
            .is_success()
    );
    let url = baton.url().replace("/acp", "/.well-known/jwks.json");
    let answer = reqwest::get(url).await.expect("an answer");
    assert_eq!(answer.text().await.expect("a body"), r#"{"keys":[]}"#);
}
