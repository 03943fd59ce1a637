//! `baton sessions import`

use anyhow::anyhow;
use reqwest::Body;
use serde_json::Value;
use tokio::io::stdin;
use tokio_util::io::ReaderStream;

use super::server::{Server, succeeded};
use super::terminal::Out;

pub async fn run(server: &Server, out: &mut Out) -> anyhow::Result<()> {
    let url = server.endpoint("/v1/sessions/import")?;
    let body = Body::wrap_stream(ReaderStream::new(stdin()));
    let response = server.http.post(url.clone()).body(body).send().await;
    let response = succeeded(&url, response).await?;
    let answer: Value = serde_json::from_slice(&response.bytes().await?)?;
    let session = answer["sessionId"].as_str();
    out.line(session.ok_or_else(|| anyhow!("the answer names no session"))?)
}
