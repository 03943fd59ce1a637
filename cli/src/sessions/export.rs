//! `baton sessions export ID`

use anyhow::Context as _;
use clap::Args;

use super::server::{SessionsServer, succeeded};
use super::terminal::TerminalOutput;

#[derive(Args)]
pub struct ExportOptions {
    /// Session id, as `list` prints it
    #[arg(value_name = "ID")]
    session: String,
}

pub async fn run(
    server: &SessionsServer,
    options: &ExportOptions,
    out: &mut TerminalOutput,
) -> anyhow::Result<()> {
    let url = server.endpoint(&format!("/v1/sessions/{}/export", options.session))?;
    let response = server.http.get(url.clone()).send().await;
    let mut response = succeeded(&url, response).await?;
    while let Some(lines) = response.chunk().await.context("the export broke off")? {
        out.write(&lines)?;
    }
    Ok(())
}
