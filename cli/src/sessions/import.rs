//! `baton sessions import`

use std::path::PathBuf;

use anyhow::{anyhow, bail};
use baton_client::Endpoint;
use baton_histories::SourceTool;
use clap::Args;
use serde_json::Value;
use tokio::io::stdin;
use tokio_util::io::ReaderStream;

use self::summary::ImportSummary;
use super::connection::told;
use super::terminal::{TerminalOutput, on_a_line};
use crate::exit::ConfigurationError;

mod progress;
mod scan;
mod summary;
mod upload;

#[derive(Args)]
pub struct ImportOptions {
    /// Tool whose conversations are imported; without it a session that `export` wrote is read from
    /// standard input
    #[arg(long, env = "BATON_SESSIONS_FROM", value_name = "TOOL", value_parser = parse_tool)]
    from: Option<SourceTool>,
    /// Import all conversations in the tool's own folder
    #[arg(
        long,
        env = "BATON_SESSIONS_SCAN",
        requires = "from",
        conflicts_with = "files",
        value_parser = clap::builder::BoolishValueParser::new()
    )]
    scan: bool,
    /// Agent that the sessions go on with; without it the server's default
    #[arg(
        long,
        env = "BATON_SESSIONS_AGENT",
        value_name = "NAME",
        requires = "from"
    )]
    agent: Option<String>,
    /// Directory of the sessions, in place of the one in the files
    #[arg(
        long,
        env = "BATON_SESSIONS_CWD",
        value_name = "DIR",
        requires = "from"
    )]
    cwd: Option<String>,
    /// Import once more, as other sessions than under another name or none
    #[arg(
        long = "as",
        env = "BATON_SESSIONS_AS",
        value_name = "NAME",
        requires = "from"
    )]
    name: Option<String>,
    /// Print a JSON document instead of the ids and the summary
    #[arg(
        long,
        env = "BATON_SESSIONS_JSON",
        requires = "from",
        value_parser = clap::builder::BoolishValueParser::new()
    )]
    json: bool,
    /// Files of the tool, or folders with them
    #[arg(value_name = "FILE", requires = "from")]
    files: Vec<PathBuf>,
}

fn parse_tool(name: &str) -> Result<SourceTool, String> {
    let names = SourceTool::ALL.map(SourceTool::name).join(", ");
    SourceTool::of(name).ok_or_else(|| format!("one of {names}"))
}

pub async fn run(
    server: &Endpoint,
    options: &ImportOptions,
    out: &mut TerminalOutput,
) -> anyhow::Result<()> {
    match options.from {
        None => archive(server, out).await,
        Some(tool) => histories(server, tool, options, out).await,
    }
}

async fn archive(server: &Endpoint, out: &mut TerminalOutput) -> anyhow::Result<()> {
    let archive = ReaderStream::new(stdin());
    let answer = server.upload("/v1/sessions/import", "application/x-ndjson", archive);
    let answer = answer.await.map_err(|failure| told(server, &failure))?;
    let answer: Value = serde_json::from_slice(&answer)?;
    let dropped = answer["dropped"].as_array().into_iter().flatten();
    let dropped: Vec<&str> = dropped.filter_map(Value::as_str).collect();
    if !dropped.is_empty() {
        // Beside what scripts read.
        eprintln!(
            "left out: {}. It counts only if you exported it yourself from a server with one of \
             the keys of this one",
            dropped.join(", ")
        );
    }
    let session = answer["sessionId"].as_str();
    out.line(session.ok_or_else(|| anyhow!("the answer names no session"))?)
}

async fn histories(
    server: &Endpoint,
    tool: SourceTool,
    options: &ImportOptions,
    out: &mut TerminalOutput,
) -> anyhow::Result<()> {
    let wanted = if options.scan {
        vec![scan::folder(tool)?]
    } else {
        options.files.clone()
    };
    if wanted.is_empty() {
        let fault = "name a file of the tool, or --scan";
        return Err(ConfigurationError(vec![fault.into()]).into());
    }
    let files = scan::files(tool, &wanted)?;
    let path = upload::path(options);
    let mut summary = ImportSummary::default();
    for (at, file) in files.iter().enumerate() {
        let bar = progress::ProgressBar::new(file, at + 1, files.len());
        let outcome = upload::file(server, tool, file, &path, &bar).await;
        bar.clear();
        match outcome {
            Ok(imported) => summary.add(file, imported, options.json, out)?,
            Err(fault) => {
                eprintln!("{}: {}", on_a_line(&file.display().to_string()), fault);
                summary.failed(file, &fault);
            }
        }
        out.flush()?;
    }
    if options.json {
        out.json(&summary.document())?;
    } else {
        eprint!("{}", summary.text());
    }
    match summary.failures() {
        0 => Ok(()),
        failed => bail!("{failed} of {} files were not imported", files.len()),
    }
}
