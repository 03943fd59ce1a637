//! `baton health`: a probe for images that have no other program in them.

use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use reqwest::{Client, Url};

/// Longer than anybody waits for the store before it says so.
const PATIENCE: Duration = Duration::from_secs(6);

#[derive(Args)]
pub struct HealthArguments {
    /// URL of /readyz or /healthz; https is not supported
    #[arg(
        env = "BATON_HEALTH_URL",
        default_value = "http://127.0.0.1:8080/readyz",
        value_name = "URL"
    )]
    url: Url,
}

pub async fn run(arguments: HealthArguments) -> anyhow::Result<()> {
    let url = arguments.url;
    // The probed process is local, so the environment's proxy is ignored.
    let client = Client::builder().no_proxy().timeout(PATIENCE).build()?;
    let response = client.get(url.clone()).send().await;
    let response = response.with_context(|| format!("no answer from {url}"))?;
    let status = response.status();
    let said = response.text().await.unwrap_or_default();
    if !status.is_success() {
        bail!("{url} answered {status}: {}", said.trim());
    }
    print!("{said}");
    Ok(())
}
