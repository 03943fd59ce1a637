//! `baton token revoke`: takes back what was issued, at the administrators' port of any gateway.

use anyhow::{Context as _, bail};
use clap::Args;
use reqwest::{Client, Url, header};
use serde_json::{Value, json};

#[derive(Args)]
pub struct Arguments {
    /// Where a gateway listens for administrators (its --admin-listen)
    #[arg(
        long,
        env = "BATON_ADMIN",
        default_value = "http://127.0.0.1:9090",
        value_name = "URL"
    )]
    admin: Url,
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

pub async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let admin = &arguments.admin;
    let url = admin
        .join("/revocations")
        .with_context(|| format!("--admin {admin} cannot be used"))?;
    let request = Client::new()
        .post(url.clone())
        .header(header::CONTENT_TYPE, "application/json")
        .body(arguments.subject.body().to_string());
    let response = request.send().await.with_context(|| {
        format!("cannot reach {url}: is a gateway started with --admin-listen?")
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
