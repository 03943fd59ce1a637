//! Conversations of other tools move in.

use std::fs;
use std::path::{Path, PathBuf};

use reqwest::StatusCode;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::sessions::sessions;
use crate::support::auth::{ALICE, BOB};
use crate::support::http::{bearing, prompt};
use crate::support::process::baton;
use crate::support::{Client, Cluster, Served};

mod bulk;
mod resume;

fn seed(target: &str, name: &str) -> PathBuf {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds");
    seeds.join(target).join(name)
}

/// What `baton sessions import --json` prints.
fn import(url: &str, arguments: &[&str]) -> Value {
    let elsewhere: &[&str] = if arguments.contains(&"--cwd") {
        &[]
    } else {
        &["--cwd", "/tmp"]
    };
    let arguments = [&["import", "--json"], elsewhere, arguments].concat();
    let output = sessions(url, &arguments, b"");
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn imported(document: &Value) -> Vec<&Value> {
    let files = document["files"].as_array().expect("files").iter();
    files
        .flat_map(|file| file["sessions"].as_array().into_iter().flatten())
        .collect()
}

fn id_of<'a>(document: &'a Value, branch: &str) -> &'a str {
    let sessions = imported(document);
    let found = sessions.iter().find(|session| session["branch"] == branch);
    found.expect("the branch")["sessionId"]
        .as_str()
        .expect("an id")
}

fn shown(url: &str, session: &str) -> String {
    let output = sessions(url, &["show", session], b"");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

fn listed(url: &str) -> Vec<Value> {
    let output = sessions(url, &["list", "--json"], b"");
    let list: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    list["sessions"].as_array().expect("sessions").clone()
}

#[tokio::test]
async fn a_tree_becomes_a_session_and_forks_and_a_second_import_changes_nothing() {
    let cluster = Cluster::start().await;
    tree(&cluster.url()).await;
    let baton = Served::start().await;
    tree(&baton.url()).await;
    let url = baton.url();
    drop(baton);
    let file = seed("claude_file", "rewinds.jsonl");
    let output = sessions(
        &url,
        &["import", "--from", "claude", file.to_str().unwrap()],
        b"",
    );
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("cannot reach"), "{said}");
}

async fn tree(url: &str) {
    let file = seed("claude_file", "rewinds.jsonl");
    let file = file.to_str().expect("text");
    let first = import(url, &["--from", "claude", file]);
    assert_eq!(
        (&first["created"], &first["unchanged"]),
        (&json!(5), &json!(0))
    );
    let before = listed(url);
    let live = shown(url, id_of(&first, "u3b"));
    assert!(
        live.contains("three, again") && live.contains("fourth"),
        "{live}"
    );
    assert!(
        live.contains("first\n") && !live.contains("two, again"),
        "{live}"
    );
    let again = import(url, &["--from", "claude", file]);
    assert_eq!(
        (&again["created"], &again["unchanged"]),
        (&json!(0), &json!(5))
    );
    assert_eq!(id_of(&again, "u3b"), id_of(&first, "u3b"));
    assert_eq!(listed(url), before);
    let copy = import(url, &["--from", "claude", "--as", "copy", file]);
    assert_eq!(copy["created"], 5);
    assert_ne!(id_of(&copy, ""), id_of(&first, ""));

    // It goes on here, and its branches do not notice.
    let client = Client::initialize(url).await;
    let session = id_of(&first, "u2b");
    let load = crate::support::http::load(json!("load"), session);
    let loaded = client.one_shot(load).await.response(&json!("load")).await;
    assert!(loaded["result"].is_object(), "{loaded}");
    let id = json!("go");
    let mut turn = client
        .one_shot(prompt(id.clone(), session, "/count 3"))
        .await;
    let answer = turn.response(&id).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let words = shown(url, session);
    assert!(
        words.contains("second, again") && words.contains("/count 3"),
        "{words}"
    );
    assert!(!shown(url, id_of(&first, "a2c")).contains("/count 3"));
    // A branch outlives the session whose beginning it shares.
    let output = sessions(url, &["delete", id_of(&first, "")], b"");
    assert!(output.status.success());
    assert_eq!(shown(url, id_of(&first, "u3b")), live);
}

#[tokio::test]
async fn a_conversation_is_shown_with_all_that_was_in_it() {
    let baton = Served::start().await;
    let file = seed("claude_file", "plain.jsonl");
    let document = import(&baton.url(), &["--from", "claude", file.to_str().unwrap()]);
    let sessions_of = imported(&document);
    assert_eq!(
        (sessions_of.len(), &sessions_of[0]["turns"]),
        (1, &json!(4))
    );
    let output = sessions(&baton.url(), &["show", id_of(&document, ""), "--json"], b"");
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    let kinds: Vec<&str> = shown["updates"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|update| update["sessionUpdate"].as_str())
        .collect();
    for kind in [
        "agent_thought_chunk",
        "tool_call",
        "tool_call_update",
        "plan",
        "notice",
    ] {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
    let list = listed(&baton.url());
    assert_eq!(list[0]["title"], "About a.txt");
    assert_eq!(list[0]["updatedAt"], "2026-05-01T10:00:23.000Z");
    // In words for people, beside the ids.
    let arguments = [
        "import",
        "--from",
        "claude",
        "--cwd",
        "/tmp",
        file.to_str().unwrap(),
    ];
    let output = sessions(&baton.url(), &arguments, b"");
    let said = String::from_utf8(output.stderr).unwrap();
    let first = "0 sessions imported, 1 unchanged (0 forks, 4 turns, 36 lines)\n";
    assert!(said.starts_with(first), "{said}");
    assert!(
        said.contains("not part of conversations: 1 agent-name, "),
        "{said}"
    );
    let id = format!("{} About a.txt\n", id_of(&document, ""));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), id);
}

#[tokio::test]
async fn a_folder_is_searched_and_what_fails_is_named() {
    let baton = Served::start().await;
    let home = TempDir::new().unwrap();
    let project = home.path().join(".claude/projects/-home-me");
    fs::create_dir_all(project.join("abc/subagents")).unwrap();
    fs::copy(
        seed("claude_file", "plain.jsonl"),
        project.join("abc.jsonl"),
    )
    .unwrap();
    let sidechains = seed("claude_file", "sidechains.jsonl");
    fs::copy(sidechains, project.join("abc/subagents/agent-1.jsonl")).unwrap();
    fs::write(project.join("broken.jsonl"), "nothing known\n").unwrap();
    fs::write(project.join("notes.txt"), "no conversation\n").unwrap();
    let output = baton_import(
        &baton.url(),
        home.path(),
        &["--scan", "--cwd", "/tmp", "--json"],
    );
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let files: Vec<(String, bool)> = document["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| {
            let name = Path::new(file["file"].as_str().unwrap())
                .file_name()
                .unwrap();
            (name.to_str().unwrap().to_owned(), file["error"].is_null())
        })
        .collect();
    let expected = [
        ("abc.jsonl", true),
        ("agent-1.jsonl", true),
        ("broken.jsonl", false),
    ];
    assert_eq!(files, expected.map(|(name, good)| (name.to_owned(), good)));
    // A conversation brings its subagents.
    let file = project.join("abc.jsonl");
    let file = file.to_str().unwrap();
    let document = import(&baton.url(), &["--from", "claude", file]);
    assert_eq!(document["files"].as_array().unwrap().len(), 2);
    for wrong in [
        &["import", "--scan"][..],
        &["import", "--from", "word", file],
        &["import", "--from", "claude"],
        &["import", "--from", "claude", "--scan", file],
        &["import", file],
    ] {
        let output = sessions(&baton.url(), wrong, b"");
        assert_eq!(output.status.code(), Some(64), "{wrong:?}: {output:?}");
    }
    let hostile = seed("claude_file", "hostile.jsonl");
    let arguments = ["import", "--from", "claude", hostile.to_str().unwrap()];
    let output = sessions(&baton.url(), &arguments, b"");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("is no absolute path here"), "{said}");
}

fn baton_import(url: &str, home: &Path, arguments: &[&str]) -> std::process::Output {
    baton()
        .args(["sessions", "--url", url.trim_end_matches("/acp"), "import"])
        .args(["--from", "claude"])
        .args(arguments)
        .env("HOME", home)
        .env_remove("CLAUDE_CONFIG_DIR")
        .output()
        .expect("baton runs")
}

const HISTORY: &str = "application/vnd.baton.history+x-ndjson";

async fn send(url: &str, key: &str, query: &str, body: String) -> (StatusCode, Value) {
    let url = url.replace("/acp", &format!("/v1/sessions/import{query}"));
    let request = bearing(key)
        .post(url)
        .header("content-type", HISTORY)
        .body(body);
    let answer = request.send().await.expect("an answer");
    let status = answer.status();
    let text = answer.text().await.expect("a body");
    (status, serde_json::from_str(&text).expect("JSON"))
}

fn head(source: &str, branch: &str, fork: Option<(&str, u64)>) -> String {
    let fork = fork.map(|(branch, after)| json!({ "branch": branch, "after": after }));
    let mut head = json!({
        "from": "claude", "source": source, "branch": branch, "title": "A title", "cwd": "/tmp",
        "updated": 5, "live": true,
    });
    if let Some(fork) = fork {
        head["fork"] = fork;
    }
    format!("{}\n", json!({ "session": head }))
}

fn turn(words: &str) -> String {
    let content = json!({ "type": "text", "text": words });
    let user = json!({ "sessionUpdate": "user_message_chunk", "content": content });
    let end = json!({ "stopReason": "end_turn" });
    format!(
        "\"begin\"\n{}\n{}\n",
        json!({ "user": user }),
        json!({ "end": end })
    )
}

#[tokio::test]
async fn an_import_tells_nobody_about_others_and_takes_only_what_is_whole() {
    let cluster = Cluster::start_with_keys().await;
    let url = cluster.url();
    let body = head("a", "", None) + &turn("hers");
    let (status, hers) = send(&url, ALICE, "", body.clone()).await;
    assert_eq!(status, StatusCode::CREATED, "{hers}");
    // Somebody else brings the same, and gets a session of his own.
    let (status, his) = send(&url, BOB, "", body.clone()).await;
    assert_eq!(status, StatusCode::CREATED, "{his}");
    assert_ne!(
        hers["sessions"][0]["sessionId"],
        his["sessions"][0]["sessionId"]
    );
    let (status, again) = send(&url, ALICE, "", body.clone()).await;
    assert_eq!(
        (status, &again["sessions"][0]["created"]),
        (StatusCode::OK, &json!(false))
    );

    let update = |kind: &str| json!({ "update": { "sessionUpdate": kind } }).to_string() + "\n";
    for (body, expected) in [
        (turn("no head"), "line 1: the head of a session comes first"),
        ("{}\n".into(), "line 1: not a line of a history"),
        (
            head("b1", "", None) + "\"begin\"\n",
            "the last turn of a session has no end",
        ),
        (
            head("b2", "", None) + "\"begin\"\n\"begin\"\n",
            "the turn before has no end",
        ),
        (
            head("b3", "", None) + "{\"end\":{\"stopReason\":\"end_turn\"}}\n",
            "no turn has begun",
        ),
        (
            head("b4", "", None) + &update("user_message_chunk"),
            "words of the user",
        ),
        (head("b5", "", None) + "{\"update\":5}\n", "no update"),
        (
            head("b6", "x", Some(("y", 1))),
            "the branch that this one leaves is not there",
        ),
        (
            head("a", "x", Some(("", 4))),
            "was imported when the file was shorter",
        ),
        (head(&"x".repeat(300), "", None), "source is 300 bytes long"),
        (
            head("b7", "", None).replace("/tmp", "tmp"),
            "is no absolute path here",
        ),
        (
            head("b8", "", None).replace("/tmp", "/a\\u0000b"),
            "is no absolute path here",
        ),
    ] {
        let (status, answer) = send(&url, ALICE, "", body).await;
        let said = answer["error"]["message"].as_str().unwrap_or_default();
        assert_eq!(status, StatusCode::BAD_REQUEST, "{expected}: {answer}");
        assert!(said.contains(expected), "{expected}: {said}");
    }
    for (query, expected) in [
        ("?agent=nobody", "nobody"),
        ("?colour=red", "colour"),
        ("?cwd=here", "is no absolute path here"),
    ] {
        let (status, answer) = send(&url, ALICE, query, body.clone()).await;
        let said = answer["error"]["message"].as_str().unwrap_or_default();
        assert_eq!(status, StatusCode::BAD_REQUEST, "{query}: {answer}");
        assert!(said.contains(expected), "{query}: {said}");
    }
    // Of what was refused nothing is left, and a fork reads as one.
    let fork = head("a", "x", Some(("", 3))) + &turn("and on");
    let (status, answer) = send(&url, ALICE, "?agent=scripted", fork).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    let alice = Client::with_key(&url, ALICE).await;
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "session/list", "params": {} });
    let list = alice.one_shot(list).await.response(&json!(1)).await;
    assert_eq!(
        list["result"]["sessions"].as_array().unwrap().len(),
        2,
        "{list}"
    );
}

fn exported(url: &str, session: &str, form: &str) -> (String, String) {
    let output = sessions(url, &["export", session, "--to", form], b"");
    assert!(output.status.success(), "{output:?}");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (text(output.stdout), text(output.stderr))
}

#[tokio::test]
async fn what_goes_out_to_claude_code_comes_back_as_it_was() {
    let baton = Served::start().await;
    let url = baton.url();
    let dir = TempDir::new().unwrap();
    let file = seed("claude_file", "plain.jsonl");
    let brought = import(&url, &["--from", "claude", file.to_str().unwrap()]);
    let client = Client::initialize(&url).await;
    let own = client.new_session().await;
    let id = json!("1");
    let mut turn = client
        .one_shot(prompt(
            id.clone(),
            &own,
            "/title Mine\n/think hm\n/tool\n/count 3",
        ))
        .await;
    turn.response(&id).await;
    for session in [id_of(&brought, ""), &own] {
        let (first, said) = exported(&url, session, "claude");
        let uuid = said.trim().rsplit(' ').next().expect("an id").to_owned();
        assert!(
            said.starts_with(&format!("as ~/.claude/projects/-tmp/{uuid}.jsonl")),
            "{said}"
        );
        let path = dir.path().join(format!("{uuid}.jsonl"));
        fs::write(&path, &first).unwrap();
        let again = import(&url, &["--from", "claude", path.to_str().unwrap()]);
        assert_eq!(again["created"], 1, "{again}");
        let (second, said) = exported(&url, id_of(&again, ""), "claude");
        let other = said.trim().rsplit(' ').next().expect("an id");
        assert_eq!(second.replace(other, &uuid), first);
        let (page, _) = exported(&url, session, "html");
        assert!(
            page.starts_with("<!doctype html>") && page.ends_with("</html>\n"),
            "{page}"
        );
        let (page, _) = exported(&url, session, "markdown");
        assert!(page.contains("## User"), "{page}");
    }
    let output = sessions(&url, &["export", &own, "--to", "word"], b"");
    assert_eq!(output.status.code(), Some(64), "{output:?}");
    let unknown = "000-aaaaaaaaaaaaaaaaaaaaaa";
    let output = sessions(&url, &["export", unknown, "--to", "html"], b"");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    for (tool, folder) in [("goose", "goose_file"), ("opencode", "opencode_file")] {
        let file = seed(folder, "export.json");
        let brought = import(&url, &["--from", tool, file.to_str().unwrap()]);
        assert_eq!(brought["created"], 1, "{brought}");
    }
}
