//! `session/list`.

use rand::RngExt as _;
use serde_json::{Value, json};

use super::peer::Peer;
use super::scene::{Scene, refused, setup};
use super::{EVERYWHERE, Row, row};

pub fn rows() -> Vec<Row> {
    vec![
        row!(
            "session/list",
            "the latest first, of this folder alone",
            "three sessions in the order of their last turns; none of another folder's",
            EVERYWHERE,
            order
        ),
        row!(
            "session/list",
            "without a folder it has all sessions",
            "a new session is the first, or behind those of others that are newer still",
            EVERYWHERE,
            everywhere
        ),
        row!(
            "session/list",
            "says what a session is about",
            "`cwd`, `title`, `additionalDirectories`, and `updatedAt`, which grows with a turn",
            EVERYWHERE,
            details
        ),
        row!(
            "session/list",
            "pages have every session once",
            "105 sessions on three pages; the last has no `nextCursor`",
            EVERYWHERE,
            pages
        ),
        row!(
            "session/list",
            "pages stay true while sessions are created",
            "what was there when the first page was read is on the pages once, and nothing new",
            EVERYWHERE,
            stable
        ),
        row!(
            "session/list",
            "a cursor is good for the list it came from",
            "-32602 for one that was changed, made up, or belongs to another folder",
            EVERYWHERE,
            cursors
        ),
        row!(
            "session/list",
            "parameters of the wrong type are refused",
            "-32602 names `cwd` or `cursor`; `null` is as good as nothing",
            EVERYWHERE,
            types
        ),
    ]
}

/// A folder that no other row knows.
pub fn folder() -> String {
    format!("/list/{}", rand::rng().random::<u64>())
}

async fn page(peer: &Peer, params: Value) -> Value {
    let page = peer.call("session/list", params).await;
    page.expect("session/list succeeds")
}

fn ids(page: &Value) -> Vec<String> {
    let sessions = page["sessions"].as_array().expect("a list").iter();
    let id = |session: &Value| session["sessionId"].as_str().expect("an id").to_owned();
    sessions.map(id).collect()
}

/// All pages after this one, one after the other.
async fn rest(peer: &Peer, cwd: &str, first: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut cursor = first["nextCursor"].clone();
    while !cursor.is_null() {
        let next = page(peer, json!({ "cwd": cwd, "cursor": cursor })).await;
        found.extend(ids(&next));
        cursor = next["nextCursor"].clone();
    }
    found
}

/// All sessions of a folder.
pub async fn all(peer: &Peer, cwd: &str) -> Vec<String> {
    let first = page(peer, json!({ "cwd": cwd })).await;
    let mut found = ids(&first);
    found.extend(rest(peer, cwd, &first).await);
    found
}

async fn sessions(peer: &Peer, cwd: &str, number: usize) -> Vec<String> {
    let mut asked = Vec::new();
    for _ in 0..number {
        let params = setup(json!({ "cwd": cwd }));
        asked.push(peer.ask("session/new", params).await);
    }
    let mut sessions = Vec::new();
    for asked in &asked {
        let created = peer.answer(asked).await.expect("session/new succeeds");
        sessions.push(created["sessionId"].as_str().expect("an id").to_owned());
    }
    sessions
}

async fn order(scene: Scene) {
    let peer = scene.peer().await;
    let cwd = folder();
    let made = sessions(&peer, &cwd, 3).await;
    sessions(&peer, &folder(), 2).await;
    // Later than the others by the clock of the store, which counts milliseconds.
    peer.prompt(&made[1], "/sleep 5\nhello").await;
    peer.prompt(&made[0], "/sleep 5\nhello").await;
    let listed = all(&scene.peer().await, &cwd).await;
    assert_eq!(listed, [&*made[0], &made[1], &made[2]]);
}

async fn everywhere(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    let mut params = json!({});
    loop {
        let page = page(&peer, params).await;
        if ids(&page).contains(&session) {
            break;
        }
        let cursor = &page["nextCursor"];
        assert!(!cursor.is_null(), "the session is on no page");
        params = json!({ "cursor": cursor });
    }
}

async fn details(scene: Scene) {
    let peer = scene.peer().await;
    let cwd = folder();
    let more = json!({ "cwd": cwd, "additionalDirectories": ["/srv/a"] });
    let session = peer.new_session_with(more).await;
    let before = page(&peer, json!({ "cwd": cwd })).await["sessions"][0].clone();
    assert_eq!(before["sessionId"], json!(session));
    assert_eq!(before["cwd"], json!(cwd));
    assert_eq!(before["additionalDirectories"], json!(["/srv/a"]));
    assert!(before["title"].is_null(), "{before}");
    peer.prompt(&session, "/sleep 5\n/title All about lists")
        .await;
    let after = page(&peer, json!({ "cwd": cwd })).await["sessions"][0].clone();
    assert_eq!(after["title"], "All about lists");
    let time = |entry: &Value| entry["updatedAt"].as_str().expect("a time").to_owned();
    assert!(time(&before).ends_with('Z') && time(&before).len() == time(&after).len());
    assert!(time(&before) < time(&after), "{before} {after}");
}

async fn pages(scene: Scene) {
    let peer = scene.peer().await;
    let cwd = folder();
    let mut made = sessions(&peer, &cwd, 105).await;
    let first = page(&peer, json!({ "cwd": cwd })).await;
    assert!(2 * ids(&first).len() < made.len(), "there is a third page");
    let mut listed = all(&peer, &cwd).await;
    made.sort();
    listed.sort();
    assert_eq!(listed, made);
}

async fn stable(scene: Scene) {
    let peer = scene.peer().await;
    let cwd = folder();
    let mut made = sessions(&peer, &cwd, 55).await;
    let first = page(&peer, json!({ "cwd": cwd })).await;
    sessions(&peer, &cwd, 10).await;
    let mut listed = ids(&first);
    listed.extend(rest(&peer, &cwd, &first).await);
    made.sort();
    listed.sort();
    assert_eq!(listed, made);
}

async fn cursors(scene: Scene) {
    let peer = scene.peer().await;
    let cwd = folder();
    sessions(&peer, &cwd, 51).await;
    let first = page(&peer, json!({ "cwd": cwd })).await;
    let cursor = first["nextCursor"]
        .as_str()
        .expect("a second page")
        .to_owned();
    let middle = cursor.len() / 2;
    let other = if &cursor[middle..=middle] == "A" {
        "B"
    } else {
        "A"
    };
    let mut changed = cursor.clone();
    changed.replace_range(middle..=middle, other);
    let wrong = [
        json!({ "cwd": cwd, "cursor": changed }),
        json!({ "cwd": cwd, "cursor": "made up" }),
        json!({ "cwd": cwd, "cursor": "" }),
        json!({ "cwd": folder(), "cursor": cursor }),
        json!({ "cursor": cursor }),
    ];
    for params in wrong {
        refused(
            peer.call("session/list", params).await,
            -32602,
            &["params.cursor"],
        );
    }
    page(&scene.peer().await, json!({ "cwd": cwd, "cursor": cursor })).await;
}

async fn types(scene: Scene) {
    let peer = scene.peer().await;
    for field in ["cwd", "cursor"] {
        let answer = peer.call("session/list", json!({ field: 7 })).await;
        refused(answer, -32602, &[&format!("params.{field}")]);
    }
    page(&peer, json!({ "cwd": null, "cursor": null })).await;
}
