//! MCP servers of others, from their registries: as programs, by Streamable HTTP and by the older
//! transport, through two gateways and two workers.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::editor::Editor;
use super::staged_with;
use crate::stdio::Staged;
use crate::support::model_server::{ModelScript, ModelServer};
use crate::support::process::{Process, free_port};
use crate::support::until;

fn installed(program: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/mcp-servers")
        .join(program);
    assert!(
        path.exists(),
        "{} is missing: run make setup",
        path.display()
    );
    path
}

fn everything() -> PathBuf {
    installed("node_modules/.bin/mcp-server-everything")
}

fn program(name: &str, command: &Path, args: &[&str]) -> Value {
    json!({ "name": name, "command": command, "args": args, "env": [] })
}

fn capabilities() -> Value {
    json!({ "elicitation": { "form": {}, "url": {} } })
}

async fn stage() -> (ModelServer, Staged) {
    let rules = [
        ("BATON_ALLOW_MCP_STDIO", "**"),
        ("BATON_ALLOW_MCP_URL", "http://127.0.0.1:*"),
    ];
    staged_with(&rules).await
}

/// Has the model call these tools, one after the other, and then say that it is done.
fn calls(model: &ModelServer, tools: &[(&str, Value)]) {
    for (name, arguments) in tools {
        model.then(ModelScript::call(name, arguments));
    }
    model.then(ModelScript::text("Done."));
}

async fn use_everything(model: &ModelServer, staged: &Staged, server: Value) {
    let mut editor = Editor::begin_with(&staged.url(), capabilities(), json!([server])).await;
    let long = json!({ "duration": 1, "steps": 4 });
    calls(
        model,
        &[
            ("e__echo", json!({ "message": "hello" })),
            ("e__get-tiny-image", json!({})),
            ("e__get-resource-links", json!({ "count": 2 })),
            ("e__trigger-long-running-operation", long),
            ("e__trigger-elicitation-request", json!({})),
            ("e__no-such-tool", json!({})),
        ],
    );
    let answer = editor.turn("Try everything").await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let outcomes = editor.outcomes();
    let ended: Vec<_> = outcomes.iter().map(|(status, _)| status.as_str()).collect();
    let expected = ["completed"; 5].into_iter().chain(["failed"]);
    assert_eq!(ended, expected.collect::<Vec<_>>(), "{outcomes:?}");
    assert!(outcomes[0].1.contains("hello"), "{outcomes:?}");
    assert!(outcomes[4].1.contains("Ann"), "{outcomes:?}");
    assert_eq!(editor.requests("elicitation/create"), 1);
    let shown = editor.updates("tool_call_update");
    let shows = |part: &str| {
        shown
            .iter()
            .any(|it| it["content"].to_string().contains(part))
    };
    assert!(shows("image/png") && shows("resource_link"), "{shown:?}");
    assert!(shows("2 of 4") || shows("3 of 4"), "no progress: {shown:?}");
    // The model gets the image, too.
    let told = model.calls().pop().expect("a call").body.to_string();
    assert!(told.contains("data:image/png;base64,"), "{told}");
    let commands = editor.updates("available_commands_update");
    let commands = commands.last().expect("they are announced").to_string();
    assert!(commands.contains("e__args-prompt"), "{commands}");
}

#[tokio::test]
async fn a_program_from_npm_is_used_to_the_full() {
    let (model, staged) = stage().await;
    let server = program("e", &everything(), &["stdio"]);
    use_everything(&model, &staged, server).await;
}

/// The server, as soon as it listens.
async fn listening(staged: &Staged, transport: &str) -> (Process, u16) {
    let port = free_port();
    let mut command = Command::new(everything());
    command.arg(transport).env("PORT", port.to_string());
    let server = Process::start(staged.cluster.dir(), transport, &mut command);
    until("the server listens", async || {
        std::net::TcpStream::connect(("127.0.0.1", port)).ok()
    })
    .await;
    (server, port)
}

#[tokio::test]
async fn a_server_on_the_network_is_used_to_the_full() {
    let (model, staged) = stage().await;
    let (_server, port) = listening(&staged, "streamableHttp").await;
    let url = format!("http://127.0.0.1:{port}/mcp");
    let server = json!({ "type": "http", "name": "e", "url": url, "headers": [] });
    use_everything(&model, &staged, server).await;
}

#[tokio::test]
async fn a_server_of_the_older_transport_is_used_to_the_full() {
    let (model, staged) = stage().await;
    let (_server, port) = listening(&staged, "sse").await;
    let url = format!("http://127.0.0.1:{port}/sse");
    let server = json!({ "type": "sse", "name": "e", "url": url, "headers": [] });
    use_everything(&model, &staged, server).await;
}

#[tokio::test]
async fn a_server_on_the_network_that_comes_back_is_used_again() {
    let (model, staged) = stage().await;
    let (mut server, port) = listening(&staged, "streamableHttp").await;
    let url = format!("http://127.0.0.1:{port}/mcp");
    let entry = json!({ "type": "http", "name": "e", "url": url, "headers": [] });
    let mut editor = Editor::begin_with(&staged.url(), capabilities(), json!([entry])).await;
    let echo = ("e__echo", json!({ "message": "hello" }));
    calls(&model, std::slice::from_ref(&echo));
    editor.turn("Say hello").await;
    server.kill();
    let mut command = Command::new(everything());
    command.arg("streamableHttp").env("PORT", port.to_string());
    let _again = Process::start(staged.cluster.dir(), "again", &mut command);
    until("the server listens", async || {
        std::net::TcpStream::connect(("127.0.0.1", port)).ok()
    })
    .await;
    // A session that the server does not know any more, then a new one.
    calls(&model, &[echo.clone(), echo.clone()]);
    let answer = editor.turn("Again").await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let (status, text) = editor.outcomes().pop().expect("an outcome");
    assert_eq!(
        (status.as_str(), text.as_str()),
        ("completed", "Echo: hello")
    );
}

#[tokio::test]
async fn what_a_server_asks_the_model_is_allowed_by_the_user() {
    let (model, staged) = stage().await;
    let server = program("e", &everything(), &["stdio"]);
    let mut editor = Editor::begin_with(&staged.url(), capabilities(), json!([server])).await;
    let asks = json!({ "prompt": "What is one and one?", "maxTokens": 7 });
    model.then(ModelScript::call("e__trigger-sampling-request", &asks));
    model.then(ModelScript::text("It is two."));
    model.then(ModelScript::text("Done."));
    editor.turn("Let it ask").await;
    // For the tool, and for its question.
    assert_eq!(editor.requests("session/request_permission"), 2);
    let sampled = model.call(1).await;
    assert!(
        sampled.body.to_string().contains("one and one"),
        "{:?}",
        sampled.body
    );
    assert!(sampled.tools().is_empty());
    assert!(editor.outcomes()[0].1.contains("It is two."));
    editor.permission = "reject_once";
    model.then(ModelScript::call("e__trigger-sampling-request", &asks));
    model.then(ModelScript::text("I see."));
    editor.turn("Once more").await;
    assert!(editor.outcomes()[1].1.contains("rejected"));
}

#[tokio::test]
async fn a_prompt_of_a_server_is_a_command() {
    let (model, staged) = stage().await;
    let server = program("e", &everything(), &["stdio"]);
    let mut editor = Editor::begin_with(&staged.url(), capabilities(), json!([server])).await;
    model.always(|_| ModelScript::text("ok"));
    editor.turn("/e__args-prompt Oslo").await;
    let told = model.call(0).await.messages().to_vec();
    let told = told.last().expect("a message").to_string();
    assert!(told.contains("weather in Oslo"), "{told}");
    let shown = editor.updates("user_message_chunk");
    assert!(
        shown
            .iter()
            .any(|it| it.to_string().contains("weather in Oslo"))
    );
    // Without what it needs.
    editor.turn("/e__args-prompt").await;
    assert!(
        editor.said().contains("cannot be used"),
        "{}",
        editor.said()
    );
    assert_eq!(model.calls().len(), 1);
}

#[tokio::test]
async fn servers_from_npm_and_pypi_work_side_by_side() {
    let (model, staged) = stage().await;
    let folder = tempfile::TempDir::new().expect("a directory");
    std::fs::write(folder.path().join("a.txt"), "alpha").expect("it is ours");
    let place = folder.path().to_str().expect("a path");
    let files = installed("node_modules/.bin/mcp-server-filesystem");
    let clock = installed(".venv/bin/mcp-server-time");
    let servers = json!([
        program("files", &files, &[place]),
        program("clock", &clock, &["--local-timezone", "Europe/Oslo"]),
    ]);
    let mut editor = Editor::begin_with(&staged.url(), capabilities(), servers).await;
    let at = folder.path().join("a.txt");
    let write = json!({ "path": folder.path().join("b.txt"), "content": "beta" });
    calls(
        &model,
        &[
            ("files__read_text_file", json!({ "path": at })),
            ("files__write_file", write),
            (
                "clock__get_current_time",
                json!({ "timezone": "Asia/Tokyo" }),
            ),
        ],
    );
    let answer = editor.turn("Read, write and look at the clock").await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let outcomes = editor.outcomes();
    assert_eq!(outcomes[0], ("completed".to_owned(), "alpha".to_owned()));
    assert_eq!(outcomes[1].0, "completed", "{outcomes:?}");
    assert!(outcomes[2].1.contains("Asia/Tokyo"), "{outcomes:?}");
    let written = std::fs::read_to_string(folder.path().join("b.txt"));
    assert_eq!(written.expect("it was written"), "beta");
}
