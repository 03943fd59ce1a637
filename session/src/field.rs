//! How long what is kept may be, whoever sends it: clients, agents and archives.

use serde_json::Value;

use crate::store::Record;

/// A path, such as `cwd`.
pub const MAX_PATH: usize = 4 << 10;
pub const MAX_TITLE: usize = 1 << 10;
/// Names of methods, agents, MCP servers, modes, options, models and messages.
pub const MAX_NAME: usize = 256;
/// The id of a request, as it is written.
pub const MAX_REQUEST_ID: usize = 1 << 10;
/// The value of an option, and what an agent says of its usage.
pub const MAX_VALUE: usize = 4 << 10;
/// All further directories of a session.
pub const MAX_DIRECTORIES: usize = 16 << 10;
/// All bindings of a session.
pub const MAX_BOUND: usize = 64 << 10;
/// All MCP servers of a session.
pub const MAX_LIST: usize = 256 << 10;
/// The modes and options that a session shows.
pub const MAX_VIEW: usize = 512 << 10;
/// An agent's state between turns; it may contain what the agent shows.
pub const MAX_STATE: usize = 1 << 20;
/// The params with which a session is opened.
pub const MAX_PARAMS: usize = 1 << 20;

/// So much of a text is repeated to whoever sent it.
const ECHOED: usize = 100;

/// A field that is too long, as errors say it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {length} bytes long: {most} are allowed")]
pub struct TooLong {
    pub field: String,
    length: usize,
    most: usize,
}

pub fn check(field: &str, length: usize, most: usize) -> Result<(), TooLong> {
    if length > most {
        Err(TooLong {
            field: field.to_owned(),
            length,
            most,
        })
    } else {
        Ok(())
    }
}

/// Everything that comes from an archive.
pub fn check_record(record: &Record) -> Result<(), TooLong> {
    check("agent", record.agent.len(), MAX_NAME)?;
    check("cwd", record.cwd.len(), MAX_PATH)?;
    check("title", record.title.len(), MAX_TITLE)?;
    let directories = record.setup.directories.as_deref();
    let directories = directories.map_or(0, <[u8]>::len);
    check("additionalDirectories", directories, MAX_DIRECTORIES)?;
    check("usage", record.usage.len(), MAX_VALUE)?;
    check("bound", record.bound.len(), MAX_BOUND)?;
    check("state", record.state.len(), MAX_STATE)?;
    check("view", record.view.len(), MAX_VIEW)
}

/// Quotes a sender's text for an error: its beginning if it is long.
pub fn echo(text: &str) -> String {
    let mut rest = text.chars();
    let beginning: String = rest.by_ref().take(ECHOED).collect();
    match rest.next() {
        None => format!("{beginning:?}"),
        Some(_) => format!("{beginning:?}…"),
    }
}

/// Shortens a parser's message, which may repeat its input.
pub fn shorten(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(3 * ECHOED) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// As much of the title as may be kept.
pub fn cut_title(title: &str) -> &str {
    let end = MAX_TITLE.min(title.len());
    let end = (0..=end).rev().find(|at| title.is_char_boundary(*at));
    &title[..end.unwrap_or(0)]
}

/// The length of a value as it is written.
pub fn length(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        other => other.to_string().len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_characters_are_repeated() {
        assert_eq!(echo("a\"b"), r#""a\"b""#);
        let exact = "ä".repeat(100);
        assert_eq!(echo(&exact), format!("{exact:?}"));
        assert_eq!(echo(&"ä".repeat(4 << 20)), format!("{exact:?}…"));
    }

    #[test]
    fn a_title_is_cut_between_characters() {
        assert_eq!(cut_title("short"), "short");
        let long = "ä€".repeat(1000);
        let cut = cut_title(&long);
        assert!(cut.len() <= MAX_TITLE && long.starts_with(cut) && cut.len() > MAX_TITLE - 3);
    }

    #[test]
    fn what_is_too_long_is_named() {
        assert!(check("params.cwd", MAX_PATH, MAX_PATH).is_ok());
        let fault = check("params.cwd", MAX_PATH + 1, MAX_PATH).unwrap_err();
        let said = "params.cwd is 4097 bytes long: 4096 are allowed";
        assert_eq!(fault.to_string(), said);
    }
}
