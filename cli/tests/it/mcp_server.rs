//! Baton as an MCP server: the official clients, unmodified, through two gateways behind round
//! robin, and what they come through when processes are killed.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::clients::plays;
use crate::support::process::Process;
use crate::support::sse::counted;
use crate::support::{Cluster, Served, until};

mod calls;
mod forms;
mod tasks;

fn script(folder: &str, program: &str, file: &str) -> Command {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/clients")
        .join(folder);
    let mut command = match program {
        "node" => Command::new("node"),
        _ => Command::new(folder.join(".venv/bin/python")),
    };
    command.arg(folder.join(file));
    command
}

fn typescript(file: &str) -> Command {
    script("mcp-typescript", "node", file)
}

fn python() -> Command {
    script("mcp-python", "python", "scenario.py")
}

fn door(url: &str) -> String {
    url.replace("/acp", "/mcp")
}

macro_rules! scenarios {
    ($($name:ident: $client:expr, $kind:literal on $shape:ident;)*) => {
        $(#[tokio::test]
        async fn $name() {
            let baton = $shape::start().await;
            plays($client, $kind, &door(&baton.url())).await;
        })*
    };
}

scenarios! {
    typescript_1_in_one_process: typescript("scenario.mjs"), "sdk" on Served;
    typescript_1_with_replicas: typescript("scenario.mjs"), "sdk" on Cluster;
    typescript_2_with_sessions_and_replicas: typescript("scenario.mjs"), "legacy" on Cluster;
    typescript_2_without_sessions_in_one_process: typescript("scenario.mjs"), "sessionless" on Served;
    typescript_2_without_sessions_with_replicas: typescript("scenario.mjs"), "auto" on Cluster;
    python_with_sessions_and_replicas: python(), "mcp-legacy" on Cluster;
    python_without_sessions_with_replicas: python(), "mcp-auto" on Cluster;
    fastmcp_with_replicas: python(), "fastmcp" on Cluster;
}

async fn passes(mut client: Process) {
    let status = client.exit_status().await;
    let output = client.output();
    assert!(
        status.success() && output.ends_with("scenario passed\n"),
        "{output}"
    );
}

/// Both gateways are killed in one call, one after the other.
async fn survives(kind: &str) {
    let mut cluster = Cluster::start().await;
    let dir = TempDir::new().expect("a temporary directory");
    let mut client = typescript("survive.mjs");
    client.args([kind, &door(&cluster.url()), "60"]);
    let client = Process::start(dir.path(), "client", &mut client);
    until("words come", async || {
        client.output().contains("calling").then_some(())
    })
    .await;
    for number in 0..2 {
        cluster.gateways[number].kill();
        cluster.revive_gateway(number).await;
    }
    passes(client).await;
}

#[tokio::test]
async fn a_killed_gateway_costs_a_client_of_the_1_line_nothing() {
    survives("sdk").await;
}

#[tokio::test]
async fn a_killed_gateway_costs_a_client_of_the_2_line_nothing() {
    survives("legacy").await;
}

/// What the guide says in this language.
fn example(language: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/mcp-server.md");
    let page = std::fs::read_to_string(page).expect("it is there");
    let (_, from) = page
        .split_once(&format!("```{language}\n"))
        .expect("an example");
    let (text, _) = from.split_once("```").expect("its end");
    text.to_owned()
}

#[tokio::test]
async fn the_examples_of_the_guide_run() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
    let mut node = Command::new("node");
    node.args(["--input-type=module", "--eval"])
        .current_dir(clients.join("mcp-typescript"));
    let mut python = Command::new(clients.join("mcp-python/.venv/bin/python"));
    python.arg("-c");
    for (language, mut command) in [("js", node), ("python", python)] {
        let here = "http://127.0.0.1:8080/mcp";
        command.arg(example(language).replace(here, &door(&baton.url())));
        let dir = TempDir::new().expect("a temporary directory");
        let mut client = Process::start(dir.path(), language, &mut command);
        assert!(client.exit_status().await.success(), "{}", client.output());
        let said = client.output();
        assert!(said.contains(&counted(3, 1).concat()), "{said}");
    }
}
