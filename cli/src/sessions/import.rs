//! `baton sessions import`

use anyhow::anyhow;
use reqwest::Body;
use reqwest::header::CONTENT_TYPE;
use serde_json::Value;
use tokio::io::stdin;
use tokio_util::io::ReaderStream;

use super::server::{SessionsServer, succeeded};
use super::terminal::TerminalOutput;

pub async fn run(server: &SessionsServer, out: &mut TerminalOutput) -> anyhow::Result<()> {
    let url = server.endpoint("/v1/sessions/import")?;
    let body = Body::wrap_stream(ReaderStream::new(stdin()));
    let request = server.http.post(url.clone());
    let request = request.header(CONTENT_TYPE, "application/x-ndjson");
    let response = request.body(body).send().await;
    let response = succeeded(&url, response).await?;
    let answer: Value = serde_json::from_slice(&response.bytes().await?)?;
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
