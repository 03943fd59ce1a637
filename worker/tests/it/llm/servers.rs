//! Tools of MCP servers, also of those that die, and in turns whose worker dies.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_session::conformance::scene::Scene;
use baton_session::store::{MemoryStore, Store};
use baton_worker::agent::Agent;
use baton_worker::mcp::{McpPolicy, ServerEntry};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::model::Model;
use super::{MortalWorker, answer, client, events, guarded, is_over, prompt, updates, worker_with};
use crate::support::until;

/// Runs what follows `--`, as the guard does.
const GUARD: &str = r#"#!/bin/sh
while [ "$1" != "--" ]; do shift; done
shift
exec "$@"
"#;

/// Notes each call of a tool, and holds it back as long as there is a file named `hold`.
const SERVER: &str = r#"#!/bin/sh
cd "$PLACE" || exit 1
say() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
text() { printf '{"content":[{"type":"text","text":"%s"}]}' "$1"; }
tool() { printf '{"name":"%s","inputSchema":{"type":"object"}%s}' "$1" "$2"; }
while read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    name=$(printf '%s' "$line" | sed -n 's/.*"name":"\([a-z]*\)".*/\1/p')
    case "$line" in
    *'"method":"initialize"'*)
        info='"serverInfo":{"name":"test","version":"1"}'
        say "{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{\"tools\":{}},$info}" ;;
    *'"method":"tools/list"'*)
        hints=',"annotations":{"readOnlyHint":true}'
        say "{\"tools\":[$(tool look "$hints"),$(tool add),$(tool die)]}" ;;
    *'"method":"tools/call"'*)
        echo "$name" >> calls
        [ "$name" = die ] && exit 1
        while [ -e hold ]; do sleep 0.01; done
        say "$(text "did $name")" ;;
    esac
done
"#;

struct Stage {
    dir: TempDir,
    model: Model,
    store: Arc<dyn Store>,
    scene: Scene,
    client: JoinHandle<()>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.client.abort();
    }
}

fn program(path: &Path, text: &str) -> PathBuf {
    fs::write(path, text).expect("the directory is writable");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    path.to_owned()
}

impl Stage {
    /// A session whose model calls a tool and then says that it is done.
    async fn set(script: super::model::Script) -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        program(&dir.path().join("guard"), GUARD);
        program(&dir.path().join("server"), SERVER);
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let scene = Scene {
            agent: "llm".into(),
            ..Scene::planned(&store)
        };
        scene.create().await;
        let client = client(&store, &scene);
        let model = Model::start(script).await;
        prompt(&scene).await;
        Self {
            dir,
            model,
            store,
            scene,
            client,
        }
    }

    fn agent(&self) -> Arc<dyn Agent> {
        guarded(&self.model, self.dir.path().join("guard"))
    }

    fn worker(&self) -> MortalWorker {
        let place = self.dir.path();
        let entry = json!({
            "name": "s",
            "command": place.join("server"),
            "args": [],
            "env": [{ "name": "PLACE", "value": place }],
        });
        let entry = to_raw_value(&entry).expect("JSON");
        let policy = McpPolicy {
            own: vec![ServerEntry::read(&entry).expect("a good entry")],
            ..McpPolicy::default()
        };
        worker_with(&self.store, self.agent(), policy)
    }

    /// The tools that were called, in their order.
    fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.dir.path().join("calls")).unwrap_or_default();
        calls.lines().map(str::to_owned).collect()
    }

    fn hold(&self) {
        fs::write(self.dir.path().join("hold"), "").expect("the directory is writable");
    }

    fn let_go(&self) {
        fs::remove_file(self.dir.path().join("hold")).expect("it was held");
    }

    /// The outcomes of calls, as the model is told them.
    async fn end(&self) -> Vec<(Value, String)> {
        until("the turn ends", async || is_over(&self.scene).await).await;
        let log = events(&self.scene).await;
        let last = answer(&log);
        assert_eq!(last["result"]["stopReason"], "end_turn", "{last}");
        let ended = updates(&log, "tool_call_update").filter(|it| it["rawOutput"].is_string());
        let ended = ended.map(|it| {
            let output = it["rawOutput"].as_str().unwrap_or_default();
            (it["status"].clone(), output.to_owned())
        });
        ended.collect()
    }
}

#[tokio::test]
async fn tools_of_a_server_are_called_and_it_is_started_again_when_it_dies() {
    let stage = Stage::set(|step| match step {
        0 => (&["Looking. "], Some(("s__look", json!({})))),
        1 => (&[], Some(("s__die", json!({})))),
        2 => (&[], Some(("s__add", json!({})))),
        _ => (&["Done."], None),
    })
    .await;
    let _worker = stage.worker();
    let outcomes = stage.end().await;
    assert_eq!(outcomes[0], (json!("completed"), "did look".to_owned()));
    assert_eq!(outcomes[1].0, "failed");
    assert!(
        outcomes[1].1.contains("its outcome is unknown"),
        "{outcomes:?}"
    );
    assert_eq!(outcomes[2], (json!("completed"), "did add".to_owned()));
    assert_eq!(stage.calls(), ["look", "die", "add"]);
}

/// The worker dies while the tool runs, and another one goes on.
async fn killed_in_a_call(script: super::model::Script) -> (Stage, MortalWorker) {
    let stage = Stage::set(script).await;
    stage.hold();
    let first = stage.worker();
    until("the tool runs", async || !stage.calls().is_empty()).await;
    drop(first);
    let second = stage.worker();
    (stage, second)
}

#[tokio::test]
async fn a_call_that_may_have_had_an_effect_is_not_made_again() {
    let (stage, _worker) = killed_in_a_call(|step| match step {
        0 => (&[], Some(("s__add", json!({})))),
        _ => (&["Done."], None),
    })
    .await;
    let outcomes = stage.end().await;
    stage.let_go();
    assert_eq!(stage.calls(), ["add"]);
    assert_eq!(outcomes[0].0, "failed");
    assert!(outcomes[0].1.contains("is unknown"), "{outcomes:?}");
    assert_eq!(outcomes.len(), 1);
}

#[tokio::test]
async fn a_call_that_only_reads_is_made_again() {
    let (stage, _worker) = killed_in_a_call(|step| match step {
        0 => (&[], Some(("s__look", json!({})))),
        _ => (&["Done."], None),
    })
    .await;
    until("it is called again", async || stage.calls().len() == 2).await;
    stage.let_go();
    let outcomes = stage.end().await;
    assert_eq!(stage.calls(), ["look", "look"]);
    assert_eq!(outcomes, [(json!("completed"), "did look".to_owned())]);
}
