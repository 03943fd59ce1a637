//! `baton sessions export ID`

use anyhow::Context as _;
use baton_client::Endpoint;
use clap::Args;

use super::connection::told;
use super::terminal::TerminalOutput;

#[derive(Args)]
pub struct ExportOptions {
    /// Session id, as `list` prints it
    #[arg(value_name = "ID")]
    session: String,
}

pub async fn run(
    server: &Endpoint,
    options: &ExportOptions,
    out: &mut TerminalOutput,
) -> anyhow::Result<()> {
    let path = format!("/v1/sessions/{}/export", options.session);
    let export = server.download(&path).await;
    let mut export = export.map_err(|failure| told(server, &failure))?;
    while let Some(lines) = export.chunk().await.context("the export broke off")? {
        out.write(&lines)?;
    }
    Ok(())
}
