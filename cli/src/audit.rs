//! `--audit-log`, and `baton audit`: whether a log is as it was written.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use baton_session::audit::{AuditLog, verify};
use baton_session::metrics::Registry;
use clap::{Args, Subcommand};

use crate::exit::ConfigurationError;
use crate::headings::OBSERVABILITY;

#[derive(Args)]
pub struct AuditOptions {
    /// File for the audit log, or - for standard output
    ///
    /// One line of JSON for each action and each refusal. `baton audit verify` checks a file.
    #[arg(long, env = "BATON_AUDIT_LOG", value_name = "FILE|-", help_heading = OBSERVABILITY)]
    audit_log: Option<PathBuf>,
}

impl AuditOptions {
    /// After everything else was found to be right: it leaves a line in the file.
    pub fn open(&self, registry: &mut Registry) -> anyhow::Result<AuditLog> {
        let Some(path) = &self.audit_log else {
            return Ok(AuditLog::default());
        };
        let fault =
            |fault| ConfigurationError(vec![format!("--audit-log {}: {fault}", path.display())]);
        let audit = AuditLog::open(path).map_err(fault)?;
        if let Some(metrics) = audit.metrics() {
            metrics.register(registry);
        }
        Ok(audit)
    }

    /// The file that no agent may read or change, once it is open and so exists.
    pub fn kept(&self) -> Option<PathBuf> {
        self.audit_log.clone().filter(|_| !self.takes_stdout())
    }

    pub fn takes_stdout(&self) -> bool {
        self.audit_log.as_deref() == Some(Path::new("-"))
    }
}

#[derive(Subcommand)]
pub enum AuditCommand {
    /// Verify that audit logs are unchanged: exit code 0 or 1
    Verify {
        /// Files, oldest first; each must continue the one before it
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Hash that the log of the process has reported; the chain must contain it
        #[arg(long, value_name = "HASH")]
        head: Vec<String>,
    },
}

pub fn run(command: AuditCommand) -> anyhow::Result<()> {
    let AuditCommand::Verify { files, mut head } = command;
    let mut before = None;
    for path in &files {
        let shown = path.display();
        let file = File::open(path).with_context(|| format!("cannot read {shown}"))?;
        let checked = verify(BufReader::new(file), before.as_ref(), &mut head);
        let whole = match checked.with_context(|| format!("cannot read {shown}"))? {
            Ok(whole) => whole,
            Err(broken) => bail!("{shown}: {broken}"),
        };
        println!(
            "{shown}: {} lines, the last is {}",
            whole.lines, whole.head.hash
        );
        if let Some(hash) = whole.continues {
            println!("{shown}: continues a file whose last line is {hash}");
        }
        if whole.lost > 0 {
            println!(
                "{shown}: says that {} lines could not be written",
                whole.lost
            );
        }
        before = Some(whole.head);
    }
    if !head.is_empty() {
        bail!(
            "the end was cut off, or all of it was written anew: no line is {}",
            head.join(", ")
        );
    }
    Ok(())
}
