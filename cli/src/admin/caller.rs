//! The administrator's side: how a gateway is found and asked.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use reqwest::{Client, Method, RequestBuilder, Response, Url};
use serde_json::Value;

use super::{place, read_secret};

#[derive(Args)]
pub struct CallerOptions {
    /// Socket or URL for administrators of a gateway, its --admin-listen
    ///
    /// Without this option it is the only gateway on this machine, or the one that uses the data
    /// directory.
    #[arg(long, env = "BATON_ADMIN", value_name = "unix:PATH|URL")]
    pub admin: Option<String>,
    /// File with the secret that the gateway asks for
    #[arg(long, env = "BATON_ADMIN_TOKEN_FILE", value_name = "FILE")]
    admin_token_file: Option<PathBuf>,
}

impl CallerOptions {
    /// The gateway that was named, or the only one on this machine that listens where gateways do
    /// by themselves.
    pub fn gateway(&self) -> anyhow::Result<String> {
        self.admin.clone().map_or_else(only, Ok)
    }

    pub fn request(
        &self,
        method: Method,
        admin: &str,
        path: &str,
    ) -> anyhow::Result<RequestBuilder> {
        let (http, base) = match admin.strip_prefix("unix:") {
            Some(path) => (
                Client::builder().unix_socket(Path::new(path)).build()?,
                "http://localhost",
            ),
            None => (Client::new(), admin),
        };
        let url = Url::parse(base).and_then(|base| base.join(path));
        let url =
            url.with_context(|| format!("--admin {admin} cannot be used: unix:PATH, or a URL"))?;
        let request = http.request(method, url);
        match &self.admin_token_file {
            Some(file) => {
                let secret = read_secret(file).map_err(anyhow::Error::msg)?;
                Ok(request.bearer_auth(secret))
            }
            None => Ok(request),
        }
    }
}

fn only() -> anyhow::Result<String> {
    let found = place::found();
    let named = |path: &PathBuf| format!("unix:{}", path.display());
    match &found[..] {
        [path] => Ok(named(path)),
        [] => bail!(
            "no gateway of this user is found on this machine: say where one listens with --admin \
             unix:PATH or --admin URL"
        ),
        several => {
            let several: Vec<_> = several.iter().map(named).collect();
            bail!(
                "there are several gateways on this machine: say which with --admin, one of {}",
                several.join(", ")
            )
        }
    }
}

/// The answer, if it is not a refusal.
pub async fn checked(response: Response) -> anyhow::Result<Response> {
    let (status, url) = (response.status(), response.url().clone());
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
