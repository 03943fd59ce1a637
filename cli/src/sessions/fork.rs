//! `baton sessions fork ID`

use anyhow::anyhow;
use baton_protocol::{Method, meta};
use clap::Args;
use serde_json::json;

use super::connection::SessionsConnection;
use super::terminal::TerminalOutput;

#[derive(Args)]
pub struct ForkOptions {
    /// Session id, as `list` prints it
    #[arg(value_name = "ID")]
    session: String,
    /// Last message of the history; without it the last finished turn
    ///
    /// `show` prints the ids of messages.
    #[arg(long, env = "BATON_SESSIONS_AT", value_name = "MESSAGE_ID")]
    at: Option<String>,
    /// Print a JSON document instead of the id
    #[arg(
        long,
        env = "BATON_SESSIONS_JSON",
        value_parser = clap::builder::BoolishValueParser::new()
    )]
    json: bool,
}

pub async fn run(
    connection: &SessionsConnection<'_>,
    options: &ForkOptions,
    out: &mut TerminalOutput,
) -> anyhow::Result<()> {
    let mut params = json!({ "sessionId": options.session });
    if let Some(message) = &options.at {
        params["_meta"] = json!({ meta::FORK: { "atMessageId": message } });
    }
    let answer = connection
        .call(Method::ForkSession, &params, |_| Ok(()))
        .await?;
    let child = answer["sessionId"].as_str();
    let child = child.ok_or_else(|| anyhow!("the answer names no session"))?;
    if options.json {
        out.json(&json!({ "sessionId": child }).to_string())
    } else {
        out.line(child)
    }
}
