//! `baton sessions export ID`

use std::io::{self, BufReader};

use anyhow::Context as _;
use baton_client::Endpoint;
use baton_histories::export::{self, ExportForm};
use clap::Args;
use tokio::sync::mpsc;
use tokio::task;

use super::connection::told;
use super::portions::{PORTION, PortionReader, PortionWriter, WAITING};
use super::terminal::{TerminalOutput, on_a_line};

#[derive(Args)]
pub struct ExportOptions {
    /// Session id, as `list` prints it
    #[arg(value_name = "ID")]
    session: String,
    /// Form: `claude`, a file that `claude --resume` finds, or a page to read, `markdown` or `html`
    ///
    /// Without it `import` reads it.
    #[arg(long, env = "BATON_SESSIONS_TO", value_name = "FORM", value_parser = parse_form)]
    to: Option<ExportForm>,
}

fn parse_form(name: &str) -> Result<ExportForm, String> {
    let names = ExportForm::ALL.map(ExportForm::name).join(", ");
    ExportForm::of(name).ok_or_else(|| format!("one of {names}"))
}

pub async fn run(
    server: &Endpoint,
    options: &ExportOptions,
    out: &mut TerminalOutput,
) -> anyhow::Result<()> {
    let path = format!("/v1/sessions/{}/export", options.session);
    let archive = server.download(&path).await;
    let mut archive = archive.map_err(|failure| told(server, &failure))?;
    let Some(form) = options.to else {
        while let Some(lines) = archive.chunk().await.context("the export broke off")? {
            out.write(&lines)?;
        }
        return Ok(());
    };
    let (lines, taken) = mpsc::channel(WAITING);
    let (written, mut portions) = mpsc::channel(WAITING);
    let conversion = task::spawn_blocking(move || {
        let mut archive = BufReader::with_capacity(PORTION, PortionReader::new(taken));
        export::export(form, &mut archive, &mut PortionWriter::new(written))
    });
    let feed = async move {
        loop {
            let chunk = match archive.chunk().await {
                Ok(Some(chunk)) => Ok(chunk),
                Ok(None) => return,
                Err(_) => Err(io::Error::other("the export broke off")),
            };
            // A conversion that has failed says why.
            if lines.send(chunk).await.is_err() {
                return;
            }
        }
    };
    let print = async move {
        while let Some(portion) = portions.recv().await {
            out.write(portion?)?;
        }
        anyhow::Ok(())
    };
    let ((), printed) = tokio::join!(feed, print);
    printed?;
    let exported = conversion.await??;
    if form == ExportForm::Claude {
        let (folder, id) = (
            export::folder_name(&exported.cwd),
            export::session_uuid(&exported.session),
        );
        eprintln!(
            "as ~/.claude/projects/{folder}/{id}.jsonl, in {} it goes on with",
            on_a_line(&exported.cwd)
        );
        eprintln!("claude --resume {id}");
    }
    Ok(())
}
