//! What an import has brought.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use baton_histories::report::ImportReport;
use serde_json::{Value, json};

use super::super::terminal::{TerminalOutput, on_a_line};
use super::upload::ImportedFile;

/// Notes that are printed for one file.
const MOST_NOTES: usize = 20;

#[derive(Default)]
pub struct ImportSummary {
    files: Vec<Value>,
    all: ImportReport,
    created: usize,
    unchanged: usize,
    failed: usize,
}

impl ImportSummary {
    pub fn add(
        &mut self,
        file: &Path,
        imported: ImportedFile,
        json: bool,
        out: &mut TerminalOutput,
    ) -> anyhow::Result<()> {
        let ImportedFile { report, sessions } = imported;
        let created = sessions.iter().filter(|session| session["created"] == true);
        let created = created.count();
        self.created += created;
        self.unchanged += sessions.len() - created;
        self.all.add(&report);
        if json {
            let file = file.display().to_string();
            self.files
                .push(json!({ "file": file, "sessions": sessions, "report": report }));
            return Ok(());
        }
        for note in report.notes.iter().take(MOST_NOTES) {
            let (file, what) = (file.display().to_string(), on_a_line(&note.what));
            eprintln!("{}:{}: {what}", on_a_line(&file), note.line);
        }
        let more = report.notes.len().saturating_sub(MOST_NOTES) as u64 + report.more_notes;
        if more > 0 {
            eprintln!("{more} more of these, see --json");
        }
        // What the tool would go on with comes first.
        let (live, rest): (Vec<_>, Vec<_>) =
            sessions.iter().partition(|session| session["live"] == true);
        for session in live.into_iter().chain(rest) {
            let id = session["sessionId"].as_str().unwrap_or_default();
            let title = session["title"].as_str().unwrap_or_default();
            out.line(&format!("{id} {}", on_a_line(title)))?;
        }
        Ok(())
    }

    pub fn failed(&mut self, file: &Path, fault: &anyhow::Error) {
        self.failed += 1;
        let (file, error) = (file.display().to_string(), fault.to_string());
        self.files.push(json!({ "file": file, "error": error }));
    }

    pub fn failures(&self) -> usize {
        self.failed
    }

    pub fn document(&self) -> String {
        json!({ "files": self.files, "created": self.created, "unchanged": self.unchanged })
            .to_string()
    }

    pub fn text(&self) -> String {
        let ImportReport {
            lines,
            forks,
            turns,
            ..
        } = &self.all;
        let mut text = format!(
            "{} sessions imported, {} unchanged ({forks} forks, {turns} turns, {lines} lines)\n",
            self.created, self.unchanged
        );
        let all = &self.all;
        for (what, kinds) in [
            ("not part of conversations", &all.left_out),
            ("of unknown kinds", &all.unknown),
            ("damaged", &all.damaged),
        ] {
            if !kinds.is_empty() {
                let _ = writeln!(text, "{what}: {}", counted(kinds));
            }
        }
        text
    }
}

fn counted(kinds: &BTreeMap<String, u64>) -> String {
    let kinds = kinds
        .iter()
        .map(|(kind, times)| format!("{times} {}", on_a_line(kind)));
    kinds.collect::<Vec<_>>().join(", ")
}
