//! `baton health`: a probe for images that have no other program in them.

use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use http::Request;
use tokio::time::timeout;
use url::Url;

use crate::local_http::{LocalAnswer, LocalServer};

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
    let answer = timeout(PATIENCE, ask(&url)).await;
    let answer = answer.unwrap_or_else(|_| bail!("it took more than {} s", PATIENCE.as_secs()));
    let answer = answer.with_context(|| format!("no answer from {url}"))?;
    let status = answer.status();
    let said = timeout(PATIENCE, answer.whole()).await;
    let said = said.ok().and_then(Result::ok).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    if !status.is_success() {
        bail!("{url} answered {status}: {}", said.trim());
    }
    print!("{said}");
    Ok(())
}

async fn ask(url: &Url) -> anyhow::Result<LocalAnswer> {
    let server = LocalServer::of(url.clone()).context("only http is supported")?;
    let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
    server
        .send(Request::get(path).body(Default::default())?)
        .await
}
