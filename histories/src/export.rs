//! Sessions written for others: for Claude Code, and as pages to read. They are read from archives,
//! line by line, as the server exports them.

use std::io::{BufRead, Write};

use crate::ConversionError;

use self::archive::ArchiveReader;

mod archive;
mod claude_file;
mod html;
mod markdown;
mod words;

pub use self::claude_file::{folder_name, session_uuid};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportForm {
    Claude,
    Markdown,
    Html,
}

impl ExportForm {
    pub const ALL: [Self; 3] = [Self::Claude, Self::Markdown, Self::Html];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Markdown => "markdown",
            Self::Html => "html",
        }
    }

    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.name() == name)
    }
}

/// The session that was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportedSession {
    pub session: String,
    pub cwd: String,
}

pub fn export(
    form: ExportForm,
    archive: &mut impl BufRead,
    out: &mut dyn Write,
) -> Result<ExportedSession, ConversionError> {
    let mut archive = ArchiveReader::open(archive)?;
    let head = archive.head.clone();
    let exported = ExportedSession {
        session: head.session_id.clone(),
        cwd: head.cwd.clone(),
    };
    match form {
        ExportForm::Claude => claude_file::write(&mut archive, out)?,
        ExportForm::Markdown => markdown::write(&mut archive, out)?,
        ExportForm::Html => html::write(&mut archive, out)?,
    }
    out.flush().map_err(ConversionError::Write)?;
    Ok(exported)
}
