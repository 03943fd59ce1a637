//! Standard output. It may be a terminal, which the agent's text must not be able to control, and
//! it may be a pipe that somebody closes.

use std::fmt::Write as _;
use std::io::{self, BufWriter, ErrorKind, Stdout, Write as _, stdout};

/// Nobody reads any more.
#[derive(Debug, thiserror::Error)]
#[error("standard output is closed")]
pub struct TerminalClosed;

pub struct TerminalOutput(BufWriter<Stdout>);

impl Default for TerminalOutput {
    fn default() -> Self {
        Self(BufWriter::new(stdout()))
    }
}

impl TerminalOutput {
    pub fn write(&mut self, bytes: impl AsRef<[u8]>) -> anyhow::Result<()> {
        checked(self.0.write_all(bytes.as_ref()))
    }

    pub fn line(&mut self, text: &str) -> anyhow::Result<()> {
        self.write(text)?;
        self.write("\n")
    }

    /// A JSON text, on one line.
    pub fn json(&mut self, text: &str) -> anyhow::Result<()> {
        self.line(&escaped(text, |_| false, in_json))
    }

    pub fn flush(&mut self) -> anyhow::Result<()> {
        checked(self.0.flush())
    }
}

fn checked(outcome: io::Result<()>) -> anyhow::Result<()> {
    match outcome {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(TerminalClosed.into()),
        outcome => Ok(outcome?),
    }
}

/// Text that keeps its lines.
pub fn in_lines(text: &str) -> String {
    escaped(text, |c| matches!(c, '\n' | '\t'), visibly)
}

/// Text that stays on one line.
pub fn on_a_line(text: &str) -> String {
    escaped(text, |_| false, visibly)
}

fn visibly(c: char, text: &mut String) {
    text.extend(c.escape_default());
}

/// The text says the same: odd characters are in strings, but for those that stand between tokens
/// and never are.
fn in_json(c: char, text: &mut String) {
    match c {
        '\n' | '\r' | '\t' => text.push(' '),
        _ => {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                let _ = write!(text, "\\u{unit:04x}");
            }
        }
    }
}

fn escaped(text: &str, keeps: fn(char) -> bool, escape: fn(char, &mut String)) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        if is_odd(c) && !keeps(c) {
            escape(c, &mut plain)
        } else {
            plain.push(c)
        }
    }
    plain
}

/// Moves the cursor, changes colours and titles, or turns around what is written.
fn is_odd(c: char) -> bool {
    let turns = matches!(
        c,
        '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    c.is_control() || turns || matches!(c, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_gets_through() {
        let text = "a\x1b[2J\u{9b}31m\rb\u{202e}c\x07\n\td\u{7f}é✓";
        let plain = in_lines(text);
        assert_eq!(
            plain,
            "a\\u{1b}[2J\\u{9b}31m\\rb\\u{202e}c\\u{7}\n\td\\u{7f}é✓"
        );
        assert_eq!(on_a_line("a\nb\tc"), "a\\nb\\tc");
        let json = "{\n\t\"a\u{9b}\":\"\u{202e}\"}";
        let plain = escaped(json, |_| false, in_json);
        assert_eq!(plain, "{  \"a\\u009b\":\"\\u202e\"}");
        let read = |text| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(read(&plain), read(json));
    }
}
