//! The administrator's side: how a gateway is found and asked.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use clap::Args;
use http::header::AUTHORIZATION;
use http::request::Builder;
use http_body_util::Full;

use super::{place, read_secret};
use crate::local_http::{LocalAnswer, LocalServer};

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

    /// The answer, if it is not a refusal. `unreachable` says what to do if there is none.
    pub async fn ask(
        &self,
        admin: &str,
        mut request: Builder,
        body: Bytes,
        unreachable: &str,
    ) -> anyhow::Result<LocalAnswer> {
        let server = LocalServer::parse(admin);
        let server = server.with_context(|| {
            format!("--admin {admin} cannot be used: unix:PATH, or a URL of http")
        })?;
        if let Some(file) = &self.admin_token_file {
            let secret = read_secret(file).map_err(anyhow::Error::msg)?;
            request = request.header(AUTHORIZATION, format!("Bearer {secret}"));
        }
        let answer = server.send(request.body(Full::new(body))?).await;
        let answer = answer.with_context(|| format!("cannot reach {admin}: {unreachable}"))?;
        answer.checked(admin).await
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
