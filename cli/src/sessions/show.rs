//! `baton sessions show ID`

use baton_protocol::Method;
use clap::Args;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::connection::{SessionsConnection, observing};
use super::terminal::{TerminalOutput, on_a_line};
use super::transcript::Transcript;

#[derive(Args)]
pub struct ShowOptions {
    /// Session id, as `list` prints it
    #[arg(value_name = "ID")]
    session: String,
    /// Print one JSON document with all updates, modes and options
    #[arg(
        long,
        env = "BATON_SESSIONS_JSON",
        value_parser = clap::builder::BoolishValueParser::new()
    )]
    json: bool,
}

pub async fn run(
    connection: &SessionsConnection<'_>,
    options: &ShowOptions,
    out: &mut TerminalOutput,
) -> anyhow::Result<()> {
    let params = observing(&options.session);
    if options.json {
        document(connection, &options.session, &params, out).await
    } else {
        // Printed as it comes, and nothing if there is no such session.
        let mut heading = format!("session {}\n", on_a_line(&options.session));
        let mut transcript = Transcript::default();
        let see = |update: &RawValue| {
            out.write(std::mem::take(&mut heading))?;
            out.write(transcript.tell(update.get()))
        };
        connection.call(Method::LoadSession, &params, see).await?;
        out.write(heading + &transcript.end())
    }
}

/// Updates are copied as they are, with whatever else an agent has put into them.
async fn document(
    connection: &SessionsConnection<'_>,
    session: &str,
    params: &Value,
    out: &mut TerminalOutput,
) -> anyhow::Result<()> {
    let mut updates: Vec<Box<RawValue>> = Vec::new();
    let see = |update: &RawValue| {
        updates.push(update.to_owned());
        Ok(())
    };
    let mut result = connection.call(Method::LoadSession, params, see).await?;
    // Not all of it: there is a token in it.
    let document = SessionDocument {
        session_id: session,
        modes: result["modes"].take(),
        config_options: result["configOptions"].take(),
        updates,
    };
    out.json(&serde_json::to_string(&document)?)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SessionDocument<'a> {
    session_id: &'a str,
    #[serde(skip_serializing_if = "Value::is_null")]
    modes: Value,
    #[serde(skip_serializing_if = "Value::is_null")]
    config_options: Value,
    updates: Vec<Box<RawValue>>,
}
