//! The largest message, and the longest fields that are kept: of clients, agents and archives
//! alike.

use serde_json::Value;

/// A JSON-RPC message, from a client to a gateway or back.
pub const MAX_MESSAGE: usize = 16 << 20;
/// As errors say it.
pub const MAX_MESSAGE_TEXT: &str = "a message may have 16 MiB at most";
/// Levels of arrays and objects in a message: readers of JSON commonly refuse more.
pub const MAX_NESTING: u8 = 127;
/// A path, such as `cwd`.
pub const MAX_PATH: usize = 4 << 10;
pub const MAX_TITLE: usize = 1 << 10;
/// Names of methods, agents, MCP servers, modes, options, models and messages.
pub const MAX_NAME: usize = 256;
/// The id of a request, as it is written.
pub const MAX_REQUEST_ID: usize = 1 << 10;
/// The value of an option, and the usage that an agent reports.
pub const MAX_VALUE: usize = 4 << 10;
/// All further directories of a session.
pub const MAX_DIRECTORIES: usize = 16 << 10;
/// All values that are bound to a session.
pub const MAX_BOUND: usize = 64 << 10;
/// All MCP servers of a session.
pub const MAX_LIST: usize = 256 << 10;
/// The view of a session: modes and options to choose from.
pub const MAX_VIEW: usize = 512 << 10;
/// The state that an agent keeps between turns; it may contain the view.
pub const MAX_STATE: usize = 1 << 20;
/// The capabilities of a client, as it said them.
pub const MAX_CLIENT: usize = 4 << 10;
/// One entry of their `_meta`.
pub const MAX_CLIENT_META: usize = 512;
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
    if length <= most {
        return Ok(());
    }
    Err(TooLong {
        field: field.to_owned(),
        length,
        most,
    })
}

/// A text that somebody sent, in quotes, to be shown in an error: its beginning if it is long.
pub fn echo(text: &str) -> String {
    let mut rest = text.chars();
    let beginning: String = rest.by_ref().take(ECHOED).collect();
    match rest.next() {
        None => format!("{beginning:?}"),
        Some(_) => format!("{beginning:?}…"),
    }
}

/// An error of a parser, which may repeat all that it has read.
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
    fn a_field_that_is_too_long_is_named() {
        assert!(check("params.cwd", MAX_PATH, MAX_PATH).is_ok());
        let fault = check("params.cwd", MAX_PATH + 1, MAX_PATH).unwrap_err();
        let said = "params.cwd is 4097 bytes long: 4096 are allowed";
        assert_eq!(fault.to_string(), said);
    }
}
