//! A conversation that moves from one Baton to another.

use std::fs;

use serde_json::{Value, json};

use crate::sessions::sessions;
use crate::support::http::{load, prompt};
use crate::support::sse::counted;
use crate::support::{Client, Cluster, Served};

/// What `session/load` sends, byte for byte.
async fn replay(client: &Client, id: &str, session: &str) -> Vec<String> {
    let id = json!(id);
    let mut stream = client.one_shot(load(id.clone(), session)).await;
    let (events, mut answer) = stream.until_response(&id).await;
    // A token is another one every time.
    answer["result"].as_object_mut().unwrap().remove("_meta");
    let mut lines: Vec<String> = events.into_iter().map(|event| event.data).collect();
    lines.push(answer["result"].to_string());
    lines
}

#[tokio::test]
async fn a_conversation_goes_on_in_another_cluster() {
    let (old, mut new) = (Cluster::start().await, Served::start().await);
    // What one has signed the other knows.
    fs::write(new.data_dir().join("keys.json"), old.keys()).expect("the directory is writable");
    new.kill_and_restart().await;
    let there = Client::initialize(&old.url()).await;
    let session = there.new_session().await;
    let script =
        "/title Moving\n/mode ask\n/config model large\n/usage\n/bind sandbox vm-3\n/plan\n/tool";
    for (id, text) in [
        ("1", script),
        ("2", "/count 300 size=500"),
        ("3", "/permission"),
    ] {
        let mut stream = there.one_shot(prompt(json!(id), &session, text)).await;
        if text == "/permission" {
            let question = loop {
                let message = stream.next().await.expect("a question").message();
                if message["method"] == "session/request_permission" {
                    break message;
                }
            };
            let outcome = json!({ "outcome": { "outcome": "selected", "optionId": "allow_once" } });
            let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": outcome });
            there.post(answer).await;
        }
        stream.response(&json!(id)).await;
    }
    let exported = sessions(&old.url(), &["export", &session], b"");
    assert!(exported.status.success(), "{exported:?}");
    for line in exported
        .stdout
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        serde_json::from_slice::<Value>(line).expect("a JSON object per line");
    }

    // Redis and files have other partitions, so the session may get another id.
    let imported = sessions(&new.url(), &["import"], &exported.stdout);
    assert!(imported.status.success(), "{imported:?}");
    let moved = String::from_utf8(imported.stdout)
        .unwrap()
        .trim()
        .to_owned();
    let here = Client::initialize(&new.url()).await;
    let before = replay(&there, "4", &session).await;
    let after = replay(&here, "4", &moved).await;
    let renamed: Vec<String> = before
        .iter()
        .map(|line| line.replace(&session, &moved))
        .collect();
    assert_eq!(after, renamed);
    // And it goes on with what the agent knew: this is its fourth prompt.
    let mut stream = here
        .one_shot(prompt(json!("5"), &moved, "/count 3\n/bound"))
        .await;
    let mut expected = counted(3, 4);
    expected.push("{\"sandbox\":\"vm-3\"} ".into());
    assert_eq!(stream.turn(&json!("5")).await, expected);

    // Back where it came from its id is taken: it becomes a session of its own.
    let exported = sessions(&new.url(), &["export", &moved], b"");
    let twice = [(); 2].map(|()| {
        let imported = sessions(&old.url(), &["import"], &exported.stdout);
        String::from_utf8(imported.stdout)
            .unwrap()
            .trim()
            .to_owned()
    });
    // The first one keeps its id, unless that was the original's.
    assert_eq!(twice[0] == moved, moved != session);
    assert_ne!(twice[1], moved);
    let list = json!({ "jsonrpc": "2.0", "id": "6", "method": "session/list", "params": {} });
    let listed = there.one_shot(list).await.response(&json!("6")).await;
    let titles: Vec<&Value> = listed["result"]["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|session| &session["title"])
        .collect();
    assert_eq!(titles, [&json!("Moving"); 3]);
}

#[tokio::test]
async fn what_is_no_session_is_refused_and_nothing_is_left_of_it() {
    let baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    let session = client.new_session().await;
    let mut stream = client
        .one_shot(prompt(json!(1), &session, "/count 5"))
        .await;
    stream.turn(&json!(1)).await;
    let good = sessions(&baton.url(), &["export", &session], b"").stdout;
    let text = String::from_utf8(good.clone()).unwrap();
    let cut: String = text
        .lines()
        .take(4)
        .map(|line| format!("{line}\n"))
        .collect();
    let swapped = text.replace("\"seq\":3,", "\"seq\":9,");
    let cases = [
        ("", "the body is empty"),
        ("hello\n", "line 1 is not the head of a session"),
        (&cut, "cut short: event 4 is missing"),
        (&swapped, "line 4: expected event 3, found 9"),
    ];
    for (input, expected) in cases {
        let output = sessions(&baton.url(), &["import"], input.as_bytes());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && said.contains(expected),
            "{said}"
        );
    }
    let missing = sessions(&baton.url(), &["export", "000-nothing"], b"");
    assert!(
        String::from_utf8(missing.stderr)
            .unwrap()
            .contains("no such session")
    );
    let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "session/list", "params": {} });
    let listed = client.one_shot(list).await.response(&json!(2)).await;
    assert_eq!(listed["result"]["sessions"].as_array().unwrap().len(), 1);
}
