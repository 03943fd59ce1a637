//! Session files of other tools: read into Baton's sessions, and sessions written for other tools
//! and for people. Pure: everything comes from a reader and goes to a writer, and no more than a
//! line of a file and an index of its lines is in memory.
//!
//! | module | content |
//! |---|---|
//! | [`line`] | what a conversion writes: a session's head, then an event a line |
//! | [`report`] | what was read, left out, unknown or damaged |
//! | [`claude`] | trees of Claude Code: two passes over the file, a session for each branch |
//! | [`codex`] | rollouts of Codex, in their order |
//! | [`opencode`], [`goose`] | exports that are one JSON document, by `document` |
//! | [`export`] | sessions for Claude Code, and as pages to read |
//! | `history_writer` | the lines of a session, in turns |
//! | `updates`, `tools` | updates as ACP has them |
//! | [`fuzzing`] | what holds for any file |
//! | `file_lines` | lines of a file, none longer than allowed |
//!
//! Depends on `protocol` only. The gateway takes in what is written here, the command line
//! converts.

use std::io::{self, BufRead, Seek, Write};

pub mod claude;
pub mod codex;
mod content;
mod document;
pub mod export;
mod file_lines;
pub mod fuzzing;
pub mod goose;
mod history_writer;
pub mod line;
pub mod opencode;
pub mod report;
mod source_tool;
mod times;
mod tools;
mod updates;

pub use self::source_tool::SourceTool;

use self::history_writer::HistoryWriter;
use self::report::ImportReport;

/// Branches of one file that become sessions.
pub const MAX_BRANCHES: usize = 500;
/// The content type of converted lines.
pub const CONTENT_TYPE: &str = "application/vnd.baton.history+x-ndjson";

#[derive(Debug, thiserror::Error)]
pub enum ConversionError {
    #[error("the file cannot be read: {0}")]
    Read(io::Error),
    #[error("the converted lines are not taken: {0}")]
    Write(io::Error),
    #[error("{0}")]
    Unusable(String),
}

/// Turns a file into lines of [`line::HistoryLine`]. The file is read more than once where its
/// order is not the order of the conversation.
pub fn convert(
    tool: SourceTool,
    file: &mut (impl BufRead + Seek),
    out: &mut dyn Write,
) -> Result<ImportReport, ConversionError> {
    let mut writer = HistoryWriter::new(out);
    match tool {
        SourceTool::Claude => claude::convert(file, &mut writer)?,
        SourceTool::Codex => codex::convert(file, &mut writer)?,
        SourceTool::Opencode => opencode::convert(file, &mut writer)?,
        SourceTool::Goose => goose::convert(file, &mut writer)?,
    }
    writer.finish()
}
