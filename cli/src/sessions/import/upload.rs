//! A file on its way: converted here, as it is read, and sent as it is converted. So a server needs
//! no room for files, and a file of any size takes little memory on both sides.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use baton_client::Endpoint;
use baton_histories::report::ImportReport;
use baton_histories::{CONTENT_TYPE, ConversionError, SourceTool};
use futures_util::stream;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task;

use super::super::connection::told;
use super::super::portions::{PORTION, PortionWriter, WAITING};
use super::ImportOptions;
use super::progress::ProgressBar;

/// The file's report, and the server's answer.
pub struct ImportedFile {
    pub report: ImportReport,
    pub sessions: Vec<Value>,
}

pub fn path(options: &ImportOptions) -> String {
    let wishes = [
        ("agent", &options.agent),
        ("cwd", &options.cwd),
        ("name", &options.name),
    ];
    let wishes = wishes.into_iter().filter_map(|(field, value)| {
        let value = utf8_percent_encode(value.as_deref()?, NON_ALPHANUMERIC);
        Some(format!("{field}={value}"))
    });
    format!(
        "/v1/sessions/import?{}",
        wishes.collect::<Vec<_>>().join("&")
    )
}

pub async fn file(
    server: &Endpoint,
    tool: SourceTool,
    file: &Path,
    path: &str,
    bar: &ProgressBar,
) -> anyhow::Result<ImportedFile> {
    let opened = File::open(file).context("it cannot be opened")?;
    let about = opened.metadata()?;
    if !about.is_file() {
        return Err(anyhow!("it is no file"));
    }
    bar.expect(about.len().saturating_mul(tool.passes()));
    let mut opened = BufReader::with_capacity(PORTION, bar.count(opened));
    let (sender, mut portions) = mpsc::channel(WAITING);
    let conversion = task::spawn_blocking(move || {
        let mut out = PortionWriter::new(sender);
        let converted = baton_histories::convert(tool, &mut opened, &mut out);
        if converted.is_err() {
            // The body must not look complete.
            out.fail();
        }
        converted
    });
    let body = stream::poll_fn(move |context| portions.poll_recv(context));
    let answer = tokio::select! {
        answer = server.upload(path, CONTENT_TYPE, body) => answer,
        () = bar.show() => unreachable!("it is shown until the answer comes"),
    };
    let report = match conversion.await? {
        Ok(report) => report,
        // The server has stopped reading, and says why.
        Err(ConversionError::Write(_)) if answer.is_err() => ImportReport::default(),
        Err(fault) => return Err(fault.into()),
    };
    let answer = answer.map_err(|failure| told(server, &failure))?;
    let mut answer: Value = serde_json::from_slice(&answer)?;
    match answer["sessions"].take() {
        Value::Array(sessions) => Ok(ImportedFile { report, sessions }),
        _ => Err(anyhow!(
            "the server does not take histories: is it older than this baton?"
        )),
    }
}
