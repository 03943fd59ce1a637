//! `baton sessions export ID`

use anyhow::Context as _;
use clap::Args;

use super::server::{Server, succeeded};
use super::terminal::Out;

#[derive(Args)]
pub struct Options {
    /// Session id, as `list` prints it
    #[arg(value_name = "ID")]
    session: String,
}

pub async fn run(server: &Server, options: &Options, out: &mut Out) -> anyhow::Result<()> {
    let url = server.endpoint(&format!("/v1/sessions/{}/export", options.session))?;
    let response = server.http.get(url.clone()).send().await;
    let mut response = succeeded(&url, response).await?;
    while let Some(lines) = response.chunk().await.context("the export broke off")? {
        out.write(&lines)?;
    }
    Ok(())
}
