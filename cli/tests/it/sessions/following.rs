//! `tail`, which goes on whatever happens to gateways.

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{NOBODY, refused, said};
use crate::support::http::prompt;
use crate::support::metrics::{page, value};
use crate::support::process::{Process, baton};
use crate::support::sse::counted;
use crate::support::{Client, Cluster, Served, until, within};

fn tail(dir: &TempDir, url: &str, arguments: &[&str]) -> Process {
    let mut command = baton();
    command.args(["sessions", "--url", url.trim_end_matches("/acp"), "tail"]);
    Process::start(dir.path(), "tail", command.args(arguments))
}

async fn shows(tail: &Process, text: &str) {
    until(text, async || tail.output().contains(text).then_some(())).await;
}

/// It begins with what is said after it has joined, so the first words show that it has.
async fn joined(tail: &Process, client: &Client, session: &str) -> u64 {
    let mut prompts = 0;
    let heard = async {
        while !tail.output().contains("hello") {
            prompts += 1;
            let id = format!("hello-{prompts}");
            said(client, session, &id, "hello").await;
        }
    };
    within("it hears what is said", heard).await;
    prompts
}

#[tokio::test]
async fn a_tail_shows_what_is_said_from_then_on() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let client = Client::initialize(&baton.url()).await;
    let session = client.new_session().await;
    said(&client, &session, "before", "long ago").await;
    let dir = TempDir::new().expect("a temporary directory");
    let mut tail = tail(&dir, &baton.url(), &[&session]);
    joined(&tail, &client, &session).await;
    said(&client, &session, "1", "/plan\nred \u{1b}[31m").await;
    shows(&tail, "  [x] look").await;
    shows(&tail, "\n  red \\u{1b}[31m").await;
    assert!(!tail.output().contains("long ago"));
    // Ctrl-C is how it ends, and its connection with it.
    tail.signal("INT");
    assert!(tail.exit_status().await.success(), "{}", tail.output());
    let fault = refused(&baton.url(), &["tail", NOBODY]);
    assert!(fault.contains("there is no session"), "{fault}");
}

/// The texts of the agent's chunks.
fn chunks(tail: &Process) -> Vec<String> {
    let output = tail.output();
    let messages = output.lines().filter(|line| line.starts_with('{'));
    let messages = messages.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let texts = messages.filter_map(|message| {
        let update = &message["params"]["update"];
        let text = update["content"]["text"].as_str();
        let is_chunk = update["sessionUpdate"] == "agent_message_chunk";
        text.filter(|_| is_chunk).map(str::to_owned)
    });
    texts.collect()
}

async fn streams_of(cluster: &Cluster, number: usize) -> u64 {
    let page = page(&cluster.gateway_url(number)).await;
    value(&page, "baton_gateway_streams") as u64
}

#[tokio::test]
async fn a_tail_loses_and_repeats_nothing_when_its_gateway_is_killed() {
    let mut cluster = Cluster::start().await;
    let client = Client::initialize(&cluster.url()).await;
    let session = client.new_session().await;
    let dir = TempDir::new().expect("a temporary directory");
    let tail = tail(&dir, &cluster.url(), &[&session, "--json"]);
    let prompts = joined(&tail, &client, &session).await;
    // One-shot bodies are over, so what is open is the tail's.
    let holder = until("one gateway has the stream", async || {
        match [streams_of(&cluster, 0).await, streams_of(&cluster, 1).await] {
            [1, 0] => Some(0),
            [0, 1] => Some(1),
            _ => None,
        }
    })
    .await;
    let other = client.at(&cluster.gateway_url(1 - holder));
    let text = "/count 300 delay=10";
    other.post(prompt(json!("long"), &session, text)).await;
    let expected = counted(300, prompts + 1);
    shows(&tail, &expected[20]).await;
    cluster.gateways[holder].kill();
    shows(&tail, &expected[299]).await;
    let seen = chunks(&tail);
    let from = seen.iter().position(|text| *text == expected[0]);
    assert_eq!(seen[from.expect("its beginning")..], expected);
    assert!(tail.output().contains("coming back"), "{}", tail.output());
}
