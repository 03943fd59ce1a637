//! What administrators do, and sessions that are shared: rarely done, and the first that is asked about.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::{audited, line, lines, log_of};
use crate::auth::{A, B};
use crate::browser::{bearer, send};
use crate::support::http::load;
use crate::support::process::{ADMIN_TOKEN, baton};
use crate::support::{Client, Stream};

fn of(lines: &[Value], decision: &str) -> Vec<Value> {
    let fits = |line: &&Value| line["decision"] == decision;
    lines.iter().filter(fits).cloned().collect()
}

#[tokio::test]
async fn audit_tells_what_administrators_do_and_what_they_are_refused() {
    let mut guarded = audited(&["--admin-listen", "unix:admin.sock"]).await;
    let path = log_of(&guarded);
    let alice = Client::with_key(&guarded.url, A).await;
    let session = alice.new_session().await;
    let socket = guarded.dir.path().join("admin.sock");
    let admin = format!("unix:{}", socket.display());
    let revoke = |subject: &str, name: &str| {
        let mut command = baton();
        command.args(["token", "revoke", "--admin", &admin, subject, name]);
        command.output().expect("baton runs").status.success()
    };
    assert!(revoke("--session", &session));
    assert!(revoke("--principal", "key:alice"));
    assert!(!revoke("--session", "no-such-form"));
    let http = reqwest::Client::builder().unix_socket(socket).build();
    let http = http.expect("a client");
    let revocations = "http://localhost/revocations";
    let listed = http.get(revocations).bearer_auth(ADMIN_TOKEN).send().await;
    assert_eq!(listed.expect("an answer").status(), StatusCode::OK);
    // Whoever has not the secret is no administrator.
    let refused = http.get(revocations).send().await.expect("an answer");
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    guarded.process.signal("TERM");
    guarded.process.exit_status().await;

    let all = lines(&path);
    let revoked: Vec<_> = of(&all, "revoked");
    let subjects: Vec<_> = revoked.iter().map(|line| line["subject"].clone()).collect();
    let session = format!("s {session}");
    assert_eq!(subjects, [json!(session), json!("p key:alice")]);
    let calls = of(&all, "admin_call");
    let calls: Vec<_> = calls
        .iter()
        .map(|line| {
            assert_eq!(line["path"], "/revocations", "{line}");
            json!([line["method"], line["status"], line["outcome"]])
        })
        .collect();
    assert_eq!(
        calls,
        [
            json!(["POST", 204, "done"]),
            json!(["POST", 204, "done"]),
            json!(["POST", 400, "refused"]),
            json!(["GET", 200, "done"]),
        ]
    );
    let refused = of(&all, "refused");
    let fits = |line: &&Value| line["status"] == 401 && line["method"] == "GET";
    assert_eq!(refused.iter().filter(fits).count(), 1, "{refused:#?}");
}

#[tokio::test]
async fn audit_tells_who_watches_a_session_of_somebody_else() {
    let guarded = audited(&["--data-dir", "data"]).await;
    let (url, path) = (guarded.url.clone(), log_of(&guarded));
    let alice = Client::with_key(&url, A).await;
    let session = alice.new_session().await;
    let mut command = baton();
    command.args(["token", "mint", "--session", &session, "--scope", "observe"]);
    command.args(["--principal", "key:alice", "--share-with", "key:bob"]);
    command.arg("--keys");
    let made = command.arg(guarded.dir.path().join("data/keys.json"));
    let made = made.output().expect("baton runs");
    let token = String::from_utf8(made.stdout).expect("text");
    let (token, credential) = (token.trim(), bearer(B));
    let headers = [
        ("authorization", credential.as_str()),
        ("acp-session-token", token),
        ("accept", "text/event-stream"),
    ];
    let asked = Some(load(json!(2), &session));
    let loaded = send(&url, Method::POST, "/acp", &headers, asked).await;
    Stream::unchecked(loaded).response(&json!(2)).await;
    let by_load = line(&path, "session_shared", |_| true).await;
    // On a stream of its own it is a second look.
    let watched = send(&url, Method::GET, "/acp", &headers, None).await;
    let mut watched = Stream::unchecked(watched);
    watched.block().await.expect("it begins with a cursor");
    let by_stream = line(&path, "session_shared", |line| *line != by_load).await;
    for line in [by_load, by_stream] {
        assert_eq!(line["session"], json!(session), "{line}");
        assert_eq!(line["owner"], "key:alice", "{line}");
        assert_eq!(line["principal"], "key:bob", "{line}");
        assert_eq!(line["outcome"], "done", "{line}");
    }
    // Its owner shares it with nobody by reading it.
    let mut own = alice.one_shot(load(json!(3), &session)).await;
    own.response(&json!(3)).await;
    line(&path, "session_loaded", |line| {
        line["principal"] == "key:alice"
    })
    .await;
    assert_eq!(of(&lines(&path), "session_shared").len(), 2);
}
