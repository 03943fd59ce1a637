//! `baton sessions import`

use anyhow::anyhow;
use baton_client::Endpoint;
use serde_json::Value;
use tokio::io::stdin;
use tokio_util::io::ReaderStream;

use super::connection::told;
use super::terminal::TerminalOutput;

pub async fn run(server: &Endpoint, out: &mut TerminalOutput) -> anyhow::Result<()> {
    let archive = ReaderStream::new(stdin());
    let answer = server.upload("/v1/sessions/import", "application/x-ndjson", archive);
    let answer = answer.await.map_err(|failure| told(server, &failure))?;
    let answer: Value = serde_json::from_slice(&answer)?;
    let dropped = answer["dropped"].as_array().into_iter().flatten();
    let dropped: Vec<&str> = dropped.filter_map(Value::as_str).collect();
    if !dropped.is_empty() {
        // Beside what scripts read.
        eprintln!(
            "left out: {}. It counts only if you exported it yourself from a server with one of \
             the keys of this one",
            dropped.join(", ")
        );
    }
    let session = answer["sessionId"].as_str();
    out.line(session.ok_or_else(|| anyhow!("the answer names no session"))?)
}
