//! Archives: a caller imports what it has written itself, or what belongs to somebody else.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use baton_session::id::{Partition, SessionId};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::stdio::{CONTEXT, Visit, actor};
use crate::support::auth::{ALICE, BOB, write_keys};
use crate::support::http::{bearing, prompt};
use crate::support::{Client, Cluster, Served, until};

const NDJSON: &str = "application/x-ndjson";

async fn says(client: &Client, id: &str, session: &str, text: &str) -> String {
    let id = json!(id);
    let mut stream = client.one_shot(prompt(id.clone(), session, text)).await;
    stream.turn(&id).await.concat()
}

async fn call(client: &Client, id: &str, method: &str, session: &str) -> Value {
    let id = json!(id);
    let params = json!({ "sessionId": session });
    let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    client.one_shot(message).await.response(&id).await
}

async fn export(url: &str, key: &str, session: &str) -> String {
    let url = url.replace("/acp", &format!("/v1/sessions/{session}/export"));
    let exported = bearing(key).get(url).send().await.expect("an answer");
    assert_eq!(exported.status(), StatusCode::OK);
    exported.text().await.expect("the whole body")
}

async fn try_import(url: &str, key: &str, archive: &str) -> (StatusCode, Value) {
    let url = url.replace("/acp", "/v1/sessions/import");
    let request = bearing(key).post(url).header("content-type", NDJSON);
    let imported = request.body(archive.to_owned()).send().await;
    let imported = imported.expect("an answer");
    let status = imported.status();
    let body = imported.text().await.expect("the whole body");
    (status, serde_json::from_str(&body).expect("JSON"))
}

async fn import(url: &str, key: &str, archive: &str) -> (String, Value) {
    let (status, answer) = try_import(url, key, archive).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    let session = answer["sessionId"].as_str().expect("an id").to_owned();
    (session, answer)
}

/// An archive without events, as anybody can write one.
fn written_by_hand(session: &str, agent: &str, more: Value) -> String {
    let mut head = json!({
        "batonSession": 1, "sessionId": session, "agent": agent, "cwd": "/tmp",
        "updated": 0, "events": 0,
    });
    let fields = more.as_object().expect("an object").clone();
    head.as_object_mut().expect("an object").extend(fields);
    format!("{head}\n")
}

fn free_id() -> String {
    SessionId::mint(Partition(0)).to_string()
}

#[tokio::test]
async fn f2_nobody_gets_what_is_bound_to_anothers_session() {
    let mut cluster = Cluster::start_with_keys().await;
    let dir = TempDir::new().expect("a temporary directory");
    let told = dir.path().join("told");
    let hook = format!("cat >> {0}; echo >> {0}", told.display());
    cluster.workers.clear();
    let worker = cluster.worker_with(2, |command| {
        command.env("BATON_ON_RELEASE", &hook);
    });
    cluster.workers.push(worker);
    let url = cluster.url();
    let alice = Client::with_key(&url, ALICE).await;
    let bob = Client::with_key(&url, BOB).await;
    let hers = alice.new_session().await;
    says(&alice, "1", &hers, "/bind sandbox vm-17").await;

    let bound = json!({ "bound": { "sandbox": "vm-17" } });
    let forged = written_by_hand(&free_id(), "scripted", bound);
    let stolen = export(&url, ALICE, &hers).await;
    for (number, archive) in [forged, stolen].iter().enumerate() {
        let (his, answer) = import(&url, BOB, archive).await;
        let dropped = answer["dropped"].as_array().expect("a list");
        assert!(dropped.contains(&json!("bound")), "{answer}");
        assert_eq!(answer["signed"], false);
        assert_eq!(
            says(&bob, &format!("b{number}"), &his, "/bound")
                .await
                .trim(),
            "{}"
        );
        call(&bob, &format!("d{number}"), "session/delete", &his).await;
    }
    // What he has bound himself is released, and that alone.
    let own = bob.new_session().await;
    says(&bob, "own", &own, "/bind sandbox vm-99").await;
    call(&bob, "last", "session/delete", &own).await;
    let released = until("a release is told", async || {
        let told = fs::read_to_string(&told).ok()?;
        told.contains("vm-99").then_some(told)
    })
    .await;
    assert!(!released.contains("vm-17"), "{released}");
    assert_eq!(
        says(&alice, "2", &hers, "/bound").await.trim(),
        r#"{"sandbox":"vm-17"}"#
    );
}

/// These agents keep what they know of several sessions in one place.
const UNCONFINED: [&str; 2] = ["--agent-sandbox", "none"];

/// The agent's process, and what it keeps, is the same for all.
async fn shared_agent(dir: &TempDir, scope: &str, more: &str) -> Served {
    let keys = write_keys(dir.path());
    let kept = dir.path().join("kept");
    fs::create_dir(&kept).expect("a directory");
    let agent = actor(&format!(
        "--keep {} --ability resume {more}",
        kept.display()
    ));
    let arguments = ["--agent", &agent, "--agent-scope", scope, "--auth", "keys"];
    let arguments = [&arguments[..], &["--auth-keys", &keys], &UNCONFINED].concat();
    Served::start_with(&arguments).await
}

#[tokio::test]
async fn f2_nobody_speaks_to_the_agent_in_anothers_session() {
    for scope in ["shared", "session"] {
        let dir = TempDir::new().expect("a temporary directory");
        let baton = shared_agent(&dir, scope, "").await;
        let client = Client::with_key(&baton.url(), ALICE).await;
        let hers = client.new_session().await;
        let mut alice = Visit::of(client, hers).await;
        alice.says("say the word is pineapple").await;
        let mut kept = fs::read_dir(dir.path().join("kept")).expect("a directory");
        let inner = kept
            .next()
            .expect("one session")
            .expect("a file")
            .file_name();
        let inner = inner.to_str().expect("a name").to_owned();

        let his = free_id();
        let state = json!({ "session": his, "agentSession": inner, "view": null }).to_string();
        let forged = written_by_hand(&his, "actor", json!({ "state": STANDARD.encode(state) }));
        let (his, answer) = import(&baton.url(), BOB, &forged).await;
        assert_eq!(answer["dropped"], json!(["state"]), "{scope}");
        let client = Client::with_key(&baton.url(), BOB).await;
        let mut bob = Visit::of(client, his).await;
        let heard = bob.told().await;
        assert_eq!(heard, [["recall"]], "{scope}");
        // Both go on, each with its own.
        assert_eq!(alice.says("say mine").await, "mine");
        assert_eq!(bob.says("say his").await, "his");
        let told = alice.told().await.concat();
        assert_eq!(
            told,
            ["say the word is pineapple", "say mine", "recall"],
            "{scope}"
        );
    }
}

#[tokio::test]
async fn f2_an_agent_gives_one_name_to_two_sessions() {
    let dir = TempDir::new().expect("a temporary directory");
    let baton = shared_agent(&dir, "shared", "--name taken").await;
    let client = Client::with_key(&baton.url(), ALICE).await;
    let hers = client.new_session().await;
    let mut alice = Visit::of(client, hers).await;
    alice.says("say secret").await;
    let bob = Client::with_key(&baton.url(), BOB).await;
    let new = json!({ "jsonrpc": "2.0", "id": 1, "method": "session/new", "params": { "cwd": "/tmp", "mcpServers": [] } });
    let answer = bob.one_shot(new).await.response(&json!(1)).await;
    let message = answer["error"]["message"].as_str().expect("an error");
    assert!(message.contains("another session"), "{answer}");
    assert_eq!(alice.says("say mine").await, "mine");
}

#[tokio::test]
async fn f2_a_name_that_is_held_is_not_brought_back() {
    let dir = TempDir::new().expect("a temporary directory");
    // Each session has a process of its own; their agent keeps all of them under one name.
    let keys = write_keys(dir.path());
    let agent = actor(&format!(
        "--keep {} --ability resume --name taken",
        dir.path().display()
    ));
    let arguments = ["--agent", &agent, "--agent-idle", "300ms", "--auth", "keys"];
    let arguments = [&arguments[..], &["--auth-keys", &keys], &UNCONFINED].concat();
    let baton = Served::start_with(&arguments).await;
    let client = Client::with_key(&baton.url(), BOB).await;
    let his = client.new_session().await;
    let mut bob = Visit::of(client, his).await;
    bob.says("say early").await;
    let pid = bob.says("pid").await;
    crate::stdio::is_gone(&pid).await;
    let client = Client::with_key(&baton.url(), ALICE).await;
    let hers = client.new_session().await;
    let mut alice = Visit::of(client, hers).await;
    // Held as long as this turn runs.
    alice.ask("say secret\nask").await;
    alice.next_chunk().await;
    let told = bob.told().await;
    assert!(told[0][0].starts_with(CONTEXT), "{told:?}");
    assert!(!told.concat().concat().contains("secret"), "{told:?}");
}

#[tokio::test]
async fn f2_who_has_signed_it_gets_everything_back() {
    let cluster = Cluster::start_with_keys().await;
    let url = cluster.url();
    let alice = Client::with_key(&url, ALICE).await;
    let hers = alice.new_session().await;
    says(&alice, "1", &hers, "/bind sandbox vm-17\n/count 3").await;
    let archive = export(&url, ALICE, &hers).await;
    // Its id is taken as long as it is there.
    let (copy, answer) = import(&url, ALICE, &archive).await;
    assert_ne!(copy, hers);
    assert_eq!(
        answer,
        json!({ "sessionId": copy, "signed": true, "dropped": [] })
    );
    let bound = r#"{"sandbox":"vm-17"}"#;
    let said = says(&alice, "2", &copy, "/count 1\n/bound").await;
    assert_eq!(said.trim(), format!("chunk 1 of 1, prompt 2 {bound}"));
    // Keys that only verify are good enough, those that were dropped are not.
    let both = with_another_key(&cluster);
    until("the new keys are in force", async || {
        let exported = export(&url, ALICE, &copy).await;
        (key_of(&exported) == both.1).then_some(())
    })
    .await;
    let (_, answer) = import(&url, ALICE, &archive).await;
    assert_eq!(answer["signed"], true);
    cluster.write_keys(&both.2);
    let dropped = until("the old key is gone", async || {
        let (_, answer) = import(&url, ALICE, &archive).await;
        (answer["signed"] == false).then_some(answer)
    })
    .await;
    assert_eq!(dropped["dropped"], json!(["state", "bound"]));
}

/// A ring with a new first key, that key's name, and the new key alone. The ring is in force soon.
fn with_another_key(cluster: &Cluster) -> (String, String, String) {
    let old: Value = serde_json::from_str(&cluster.keys()).expect("a key set");
    let new = baton_session::token::generate(jsonwebtoken::Algorithm::HS256);
    let new: Value = serde_json::from_str(&new).expect("a key set");
    let both = json!({ "keys": [new["keys"][0], old["keys"][0]] }).to_string();
    cluster.write_keys(&both);
    let kid = new["keys"][0]["kid"].as_str().expect("a name").to_owned();
    (both, kid, new.to_string())
}

fn key_of(archive: &str) -> String {
    let last = archive.lines().last().expect("lines");
    let end: Value = serde_json::from_str(last).expect("JSON");
    let seal = end["seal"].as_str().expect("a seal");
    let [header, _] = baton_session::token::unverified(seal).expect("a JWT");
    header["kid"].as_str().expect("a name").to_owned()
}

#[tokio::test]
async fn f2_what_was_signed_is_taken_as_it_was_signed() {
    let cluster = Cluster::start_with_keys().await;
    let url = cluster.url();
    let alice = Client::with_key(&url, ALICE).await;
    let (one, other) = (alice.new_session().await, alice.new_session().await);
    says(&alice, "1", &one, "/bind sandbox vm-17\n/count 3").await;
    says(&alice, "2", &other, "/bind sandbox vm-18\n/count 3").await;
    let (archive, foreign) = (
        export(&url, ALICE, &one).await,
        export(&url, ALICE, &other).await,
    );
    call(&alice, "3", "session/delete", &one).await;
    let lines: Vec<&str> = archive.split_inclusive('\n').collect();
    let others: Vec<&str> = foreign.split_inclusive('\n').collect();
    let (events, end) = (&lines[1..lines.len() - 1], lines[lines.len() - 1]);
    let joined = |parts: &[&[&str]]| parts.concat().concat();
    let swapped = [&lines[..2], &[lines[3], lines[2]], &lines[4..]].concat();
    let cases = [
        (archive.replace("vm-17", "vm-18"), "not what was signed"),
        (
            archive.replace("chunk 2 of", "chunk 7 of"),
            "not what was signed",
        ),
        (archive.replace("\n", " \n"), "not what was signed"),
        (joined(&[&lines[..lines.len() - 1]]), "cut short"),
        (joined(&[&lines[..3], &[end]]), "line 4"),
        (swapped.concat(), "expected event 2"),
        (
            joined(&[&lines[..1], &lines[..1], events, &[end]]),
            "line 2",
        ),
        (joined(&[&lines, &[end]]), "more than"),
        (joined(&[&lines, &lines]), "more than"),
        (
            joined(&[&lines[..1], events, &[others[others.len() - 1]]]),
            "not what was signed",
        ),
        (
            joined(&[&others[..1], events, &[end]]),
            "not what was signed",
        ),
    ];
    for (archive, expected) in cases {
        let (status, answer) = try_import(&url, ALICE, &archive).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{expected}: {answer}");
        let message = answer["error"]["message"].as_str().expect("a message");
        assert!(message.contains(expected), "{expected}: {message}");
    }
    // As earlier versions wrote them: only its words come.
    let mut head: Value = serde_json::from_str(lines[0]).expect("JSON");
    head.as_object_mut().expect("an object").remove("seal");
    let old = joined(&[&[&format!("{head}\n")], events]);
    let (session, answer) = import(&url, ALICE, &old).await;
    assert_eq!(answer["dropped"], json!(["state", "bound"]));
    let said = says(&alice, "4", &session, "/count 1\n/bound").await;
    assert_eq!(said.trim(), "chunk 1 of 1, prompt 2 {}");
    // Another name in the head makes it an archive that nobody signed.
    let renamed = archive.replacen(&one, &free_id(), 1);
    let (_, answer) = import(&url, ALICE, &renamed).await;
    assert_eq!(answer["dropped"], json!(["state", "bound"]));
}

#[tokio::test]
async fn l_an_import_does_not_tell_which_ids_exist() {
    let cluster = Cluster::start_with_keys().await;
    let url = cluster.url();
    let hers = Client::with_key(&url, ALICE).await.new_session().await;
    let mut answers = Vec::new();
    for id in [hers, free_id()] {
        let (his, mut answer) =
            import(&url, BOB, &written_by_hand(&id, "scripted", json!({}))).await;
        assert_ne!(his, id);
        answer["sessionId"] = json!(his.len());
        answers.push(answer);
    }
    assert_eq!(answers[0], answers[1]);
}
