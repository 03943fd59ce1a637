//! Callers log in at the agent, each for itself.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::clientele::clientele;
use super::{Visit, served_by};
use crate::support::auth::{ALICE, BOB, write_keys};
use crate::support::process::baton;
use crate::support::{Client, Cluster, Served, until};

struct Scene {
    /// The folder of the callers' HOMEs, and that of the keys.
    dir: TempDir,
    baton: Served,
}

impl Scene {
    async fn start(more: &[&str]) -> Self {
        let dir = TempDir::new().expect("a directory");
        for name in ["homes", "keys", "work"] {
            fs::create_dir(dir.path().join(name)).expect("the directory is writable");
        }
        let homes = dir.path().join("homes").display().to_string();
        let keys = write_keys(&dir.path().join("keys"));
        let own = [
            "--auth",
            "keys",
            "--auth-keys",
            &keys,
            "--agent-auth",
            "caller",
        ];
        let all = [&own[..], &["--agent-home", &homes], more].concat();
        let baton = served_by(&clientele("--login"), &all).await;
        Self { dir, baton }
    }

    fn work(&self) -> String {
        self.dir.path().join("work").display().to_string()
    }

    async fn client(&self, key: &str) -> Client {
        introduced(&self.baton.url(), key, json!({})).await.0
    }
}

/// A connection, and what it was told of the agent.
async fn introduced(url: &str, key: &str, capabilities: Value) -> (Client, Value) {
    let params = json!({ "protocolVersion": 1, "clientCapabilities": capabilities });
    let opened = Client::open_with_key(url, key, params).await;
    let (client, answer) = opened.expect("an answer");
    (client, answer["result"].clone())
}

async fn call(client: &Client, id: &str, method: &str, params: Value) -> Value {
    let call = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    client.one_shot(call).await.response(&json!(id)).await
}

async fn logs_in(client: &Client) {
    let answer = call(
        client,
        "login",
        "authenticate",
        json!({ "methodId": "key" }),
    )
    .await;
    assert!(answer["result"].is_object(), "{answer}");
    assert!(answer["result"].get("_meta").is_none(), "{answer}");
}

async fn new(client: &Client, id: &str, cwd: &str) -> Value {
    call(
        client,
        id,
        "session/new",
        json!({ "cwd": cwd, "mcpServers": [] }),
    )
    .await
}

async fn visit(client: Client, id: &str, cwd: &str) -> Visit {
    let answer = new(&client, id, cwd).await;
    let session = answer["result"]["sessionId"].as_str();
    let session = session.unwrap_or_else(|| panic!("{answer}")).to_owned();
    Visit::of(client, session).await
}

async fn whoami(visit: &mut Visit) -> (PathBuf, String) {
    let said = visit.says("whoami").await;
    let said: Value = serde_json::from_str(&said).expect("JSON");
    let text = |name: &str| said[name].as_str().unwrap_or_default().to_owned();
    (PathBuf::from(text("home")), text("login"))
}

fn mode(path: &Path) -> u32 {
    let found = fs::metadata(path).expect("it is there");
    found.permissions().mode() & 0o777
}

#[tokio::test]
async fn each_caller_logs_in_for_itself_and_nobody_else_uses_it() {
    let scene = Scene::start(&[]).await;
    let work = scene.work();
    let (alice, bob) = (scene.client(ALICE).await, scene.client(BOB).await);
    for client in [&alice, &bob] {
        let answer = new(client, "n0", &work).await;
        assert_eq!(answer["error"]["code"], -32000, "{answer}");
    }
    logs_in(&alice).await;
    let mut alice = visit(alice, "n1", &work).await;
    let (home, login) = whoami(&mut alice).await;
    assert!(login.contains("key"), "{login}");
    let homes = scene
        .dir
        .path()
        .join("homes")
        .canonicalize()
        .expect("it is there");
    assert_eq!(home.parent(), Some(&*homes));
    let name = home
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    assert!(name.len() == 32 && !name.contains("alice"), "{name}");
    assert_eq!(mode(&home), 0o700);
    // Somebody else is not in, and finds no way to the other's login.
    let answer = new(&bob, "n1", &work).await;
    assert_eq!(answer["error"]["code"], -32000, "{answer}");
    let alices = home.display().to_string();
    for cwd in [&alices, &homes.display().to_string()] {
        let answer = new(&bob, &format!("in {cwd}"), cwd).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    logs_in(&bob).await;
    let mut bob = visit(bob, "n2", &work).await;
    let (bobs, _) = whoami(&mut bob).await;
    assert_ne!(bobs, home);
    let found = bob.says(&format!("open {alices}/.clientele")).await;
    assert_eq!(found, "Permission denied");
    // What carried the logins is in no list.
    let listed = call(&alice.client, "l", "session/list", json!({})).await;
    let listed = listed["result"]["sessions"]
        .as_array()
        .expect("a list")
        .clone();
    assert!(
        listed.iter().all(|entry| entry["cwd"] == work),
        "{listed:?}"
    );
    // Who logs out is out, and nobody else.
    let answer = call(&alice.client, "out", "logout", json!({})).await;
    assert!(answer["result"].is_object(), "{answer}");
    let answer = new(&alice.client, "n3", &work).await;
    assert_eq!(answer["error"]["code"], -32000, "{answer}");
    assert!(new(&bob.client, "n4", &work).await["result"].is_object());
}

#[tokio::test]
async fn clients_are_offered_what_they_can_show() {
    let scene = Scene::start(&[]).await;
    let url = scene.baton.url();
    let terminal = json!({ "auth": { "terminal": true } });
    let (editor, told) = introduced(&url, ALICE, terminal).await;
    let ids = |told: &Value| {
        let methods = told["authMethods"].as_array().expect("a list").iter();
        methods
            .map(|method| method["id"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&told), ["key", "shell"], "{told}");
    assert!(
        told["agentCapabilities"]["auth"]["logout"].is_object(),
        "{told}"
    );
    assert!(told["agentCapabilities"]["providers"].is_null(), "{told}");
    assert!(told.get("_meta").is_none(), "{told}");
    let (_, told) = introduced(&url, ALICE, json!({})).await;
    assert_eq!(ids(&told), ["key"], "{told}");
    // The agent's own words, and on the connection's stream.
    let answer = call(&editor, "a", "authenticate", json!({ "methodId": "shell" })).await;
    assert_eq!(answer["error"]["message"], "no such method", "{answer}");
    let answer = call(&editor, "b", "authenticate", json!({})).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let mut stream = editor.connection_stream(None).await;
    let params = json!({ "methodId": "key", "_meta": { "gateway": { "baseUrl": "http://x" } } });
    editor
        .post(json!({ "jsonrpc": "2.0", "id": "c", "method": "authenticate", "params": params }))
        .await;
    let answer = stream.response(&json!("c")).await;
    assert!(answer["result"].is_object(), "{answer}");
    let mut visit = visit(editor, "n", &scene.work()).await;
    let (_, login) = whoami(&mut visit).await;
    assert!(
        login.contains("key") && !login.contains("gateway"),
        "{login}"
    );
}

#[tokio::test]
async fn a_login_counts_on_all_workers_that_share_the_homes() {
    let (homes, work) = (TempDir::new().expect("a directory"), TempDir::new());
    let work = work.expect("a directory");
    let work = work.path().display().to_string();
    let cluster = Cluster::start_with_keys().await;
    let start = |number| {
        cluster.worker_with(number, |command| {
            command.env("BATON_AGENT", clientele("--login"));
            command.env("BATON_AGENT_AUTH", "caller");
            command.env("BATON_AGENT_HOME", homes.path());
        })
    };
    let _workers = [start(2), start(3)];
    let url = format!("{}/clientele", cluster.url());
    until("the agent is there", async || {
        Client::try_with_key(&url, ALICE).await
    })
    .await;
    let (alice, _) = introduced(&url, ALICE, json!({})).await;
    logs_in(&alice).await;
    for number in 0..4 {
        let answer = new(&alice, &format!("n{number}"), &work).await;
        assert!(answer["result"].is_object(), "{answer}");
    }
    let (bob, _) = introduced(&url, BOB, json!({})).await;
    let answer = new(&bob, "n", &work).await;
    assert_eq!(answer["error"]["code"], -32000, "{answer}");
}

#[tokio::test]
async fn where_the_operator_logs_in_nobody_else_does() {
    let baton = served_by(&clientele(""), &[]).await;
    let client = Client::initialize(&baton.url()).await;
    for (id, method) in [
        ("a", "authenticate"),
        ("b", "logout"),
        ("c", "providers/list"),
    ] {
        let answer = call(&client, id, method, json!({ "methodId": "key" })).await;
        assert_eq!(answer["error"]["code"], -32601, "{answer}");
    }
}

#[test]
fn a_process_of_several_callers_has_no_login_of_one() {
    for (more, fault) in [
        (
            &["--agent-scope", "shared", "--agent-home", "/tmp"][..],
            "--agent-scope shared",
        ),
        (
            &["--agent-warm", "1", "--agent-home", "/tmp"],
            "--agent-warm",
        ),
        (
            &["--agent-home", "/tmp/{principal}"],
            "name the folder alone",
        ),
        (&[], "--agent-home DIR"),
    ] {
        let agent = clientele("");
        let all = ["serve", "--agent", &agent, "--agent-auth", "caller"];
        let output = baton().args(all).args(more).output().expect("baton runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{said}");
        assert!(
            said.contains("--agent-auth caller") && said.contains(fault),
            "{said}"
        );
    }
}
