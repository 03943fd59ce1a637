//! The real thing: claude-agent-acp as it comes from npm hands `_meta.claudeCode.options` to its SDK.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{call, employ};
use crate::stdio::descendants;
use crate::support::auth::{ALICE, BOB};
use crate::support::process::free_port;
use crate::support::{Client, Cluster, until};

fn installed() -> String {
    let program = "tests/agents/product/node_modules/.bin/claude-agent-acp";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(program);
    format!("stdio:{}", path.display())
}

/// Options that run a command when a session is opened, and the file that it makes. In the workspace, where
/// an agent may write.
fn attacks(dir: &Path) -> Vec<(PathBuf, Value)> {
    let touch = |name: &str| {
        let file = dir.join(name);
        let command = format!("touch {}", file.display());
        (file, command)
    };
    let (server, command) = touch("server");
    let words: Vec<&str> = command.split(' ').collect();
    let servers = json!({ "evil": { "type": "stdio", "command": words[0], "args": &words[1..] } });
    let (hook, command) = touch("hook");
    let hooks = json!([{ "hooks": [{ "type": "command", "command": command }] }]);
    vec![
        (server, json!({ "mcpServers": servers })),
        (
            hook,
            json!({ "settings": { "hooks": { "SessionStart": hooks } } }),
        ),
    ]
}

async fn attack(url: &str, key: &str, dir: &Path, options: &Value) -> Client {
    let client = Client::with_key(url, key).await;
    let meta = json!({ "claudeCode": { "options": options } });
    // Some look at the field beside it, too.
    let params =
        json!({ "cwd": dir, "mcpServers": [], "_meta": meta, "claudeCode": meta["claudeCode"] });
    let opened = call(&client, "n", "session/new", params).await;
    let session = opened["result"]["sessionId"].as_str();
    let session = session.unwrap_or_else(|| panic!("{opened}"));
    let text = json!({ "type": "text", "text": "hello" });
    let params = json!({ "sessionId": session, "prompt": [text], "_meta": meta });
    let answer = call(&client, "p", "session/prompt", params).await;
    assert!(answer["error"].is_object(), "nobody is logged in: {answer}");
    call(
        &client,
        "c",
        "session/close",
        json!({ "sessionId": session }),
    )
    .await;
    client
}

#[tokio::test]
async fn f1_claude_code_runs_no_command_that_a_client_writes_into_meta() {
    let mut cluster = Cluster::start_with_keys().await;
    let home = TempDir::new().expect("a temporary directory");
    let dir = TempDir::new().expect("a temporary directory");
    let nobody = format!("http://127.0.0.1:{}", free_port());
    let home = home.path().to_str().expect("a plain path");
    let variables = [
        ("HOME", home),
        ("HTTPS_PROXY", &nobody),
        ("HTTP_PROXY", &nobody),
        ("BATON_AGENT_ENV", "HTTPS_PROXY,HTTP_PROXY"),
    ];
    let closed = employ(&mut cluster, "closed", &installed(), &variables).await;
    for (file, options) in attacks(dir.path()) {
        attack(&closed, BOB, dir.path(), &options).await;
        let worker = cluster.workers.last().expect("ours").id().to_string();
        // Whatever it has started is through.
        until("its processes end", async || {
            descendants(&worker).is_empty().then_some(())
        })
        .await;
        assert!(!file.exists(), "a command of a client ran: {options}");
    }
    // The same where the operator lets it pass: so the test can fail.
    let open = [&variables[..], &[("BATON_ALLOW_AGENT_META", "claudeCode")]].concat();
    let open = employ(&mut cluster, "open", &installed(), &open).await;
    for (file, options) in attacks(dir.path()) {
        attack(&open, ALICE, dir.path(), &options).await;
        until("the command runs", async || file.exists().then_some(())).await;
    }
}
