//! `baton sessions`: what an operator does with sessions, over HTTP.

use std::path::PathBuf;

use anyhow::{Context as _, anyhow, bail};
use baton_client::Credential;
use baton_client::credential::Source;
use clap::{Args, Subcommand};
use reqwest::header::{AUTHORIZATION, HeaderMap};
use reqwest::{Body, Client, Response, Url};
use serde_json::Value;
use tokio::io::{AsyncWriteExt as _, stdin, stdout};
use tokio_util::io::ReaderStream;

#[derive(Args)]
pub struct Arguments {
    /// Where Baton listens
    #[arg(
        long,
        env = "BATON_URL",
        default_value = "http://127.0.0.1:8080",
        value_name = "URL",
        global = true
    )]
    url: Url,
    /// File with the credential, where Baton asks who calls
    #[arg(
        long,
        env = "BATON_CREDENTIAL_FILE",
        value_name = "FILE",
        global = true
    )]
    credential_file: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write a session to standard output, a JSON object per line
    Export {
        #[arg(value_name = "ID")]
        session: String,
    },
    /// Read a session from standard input, and print the id it has here
    Import,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let endpoint = |path: &str| {
        let joined = arguments.url.join(path);
        joined.with_context(|| format!("--url {} cannot be used", arguments.url))
    };
    let http = client(arguments.credential_file).await?;
    match arguments.command {
        Command::Export { session } => {
            export(&http, endpoint(&format!("/v1/sessions/{session}/export"))?).await
        }
        Command::Import => import(&http, endpoint("/v1/sessions/import")?).await,
    }
}

async fn client(credential: Option<PathBuf>) -> anyhow::Result<Client> {
    let source = credential.map_or(Source::None, Source::File);
    let header = Credential::new(source).header(None).await?;
    let headers = header.map(|header| (AUTHORIZATION, header));
    let client = Client::builder().default_headers(HeaderMap::from_iter(headers));
    Ok(client.build()?)
}

async fn export(http: &Client, url: Url) -> anyhow::Result<()> {
    let response = http.get(url.clone()).send().await;
    let mut response = succeeded(&url, response).await?;
    let mut out = stdout();
    while let Some(lines) = response.chunk().await.context("the export broke off")? {
        out.write_all(&lines).await?;
    }
    Ok(out.flush().await?)
}

async fn import(http: &Client, url: Url) -> anyhow::Result<()> {
    let body = Body::wrap_stream(ReaderStream::new(stdin()));
    let response = http.post(url.clone()).body(body).send().await;
    let response = succeeded(&url, response).await?;
    let answer: Value = serde_json::from_slice(&response.bytes().await?)?;
    let session = answer["sessionId"].as_str();
    println!(
        "{}",
        session.ok_or_else(|| anyhow!("the answer names no session"))?
    );
    Ok(())
}

/// What the server says is wrong is what the user is told.
async fn succeeded(url: &Url, sent: reqwest::Result<Response>) -> anyhow::Result<Response> {
    let response = sent.with_context(|| format!("cannot reach {url}"))?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = response.bytes().await.unwrap_or_default();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    match body["error"]["message"].as_str() {
        Some(message) => bail!("{message}"),
        None => bail!("{url} answered {status}"),
    }
}
