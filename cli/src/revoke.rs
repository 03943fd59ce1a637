//! `baton token revoke`: takes back what was issued, at the administrators' port of any gateway.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use reqwest::{Client, Url, header};
use serde_json::{Value, json};

use crate::admin::{place, read_secret};

#[derive(Args)]
pub struct Arguments {
    /// Where a gateway listens for administrators, its --admin-listen: unix:PATH, or a URL; without it the only gateway
    /// on this machine
    #[arg(long, env = "BATON_ADMIN", value_name = "unix:PATH|URL")]
    admin: Option<String>,
    /// File with the secret that the gateway asks for
    #[arg(long, env = "BATON_ADMIN_TOKEN_FILE", value_name = "FILE")]
    admin_token_file: Option<PathBuf>,
    #[command(flatten)]
    subject: Subject,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct Subject {
    /// A session: connections that are open now cannot use it any more
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// A connection, by its id or its token
    #[arg(long, value_name = "ID")]
    connection: Option<String>,
    /// All connections that somebody has now
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
}

impl Subject {
    fn body(&self) -> Value {
        match (&self.session, &self.connection, &self.principal) {
            (Some(id), ..) => json!({ "session": id }),
            (_, Some(id), _) => json!({ "connection": id }),
            (.., name) => json!({ "principal": name }),
        }
    }
}

/// The socket of the only gateway on this machine that listens where gateways do by themselves.
fn only() -> anyhow::Result<String> {
    let found = place::found();
    let named = |path: &PathBuf| format!("unix:{}", path.display());
    match &found[..] {
        [path] => Ok(named(path)),
        [] => bail!(
            "no gateway of this user is found on this machine: say where one listens with --admin unix:PATH or --admin URL"
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

pub async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let admin = &arguments.admin.clone().map_or_else(only, Ok)?;
    let (http, base) = match admin.strip_prefix("unix:") {
        Some(path) => (
            Client::builder().unix_socket(Path::new(path)).build()?,
            "http://localhost",
        ),
        None => (Client::new(), admin.as_str()),
    };
    let url = Url::parse(base).and_then(|base| base.join("/revocations"));
    let url =
        url.with_context(|| format!("--admin {admin} cannot be used: unix:PATH, or a URL"))?;
    let mut request = http
        .post(url.clone())
        .header(header::CONTENT_TYPE, "application/json")
        .body(arguments.subject.body().to_string());
    if let Some(file) = &arguments.admin_token_file {
        request = request.bearer_auth(read_secret(file).map_err(anyhow::Error::msg)?);
    }
    let response = request.send().await.with_context(|| {
        format!("cannot reach {admin}: is a gateway started with --admin-listen?")
    })?;
    let status = response.status();
    if status.is_success() {
        return Ok(());
    }
    let body = response.bytes().await.unwrap_or_default();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    match body["error"]["message"].as_str() {
        Some(message) => bail!("{message}"),
        None => bail!("{url} answered {status}"),
    }
}
