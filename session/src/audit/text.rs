//! Text from elsewhere in a line: short, and with nothing in it that a terminal would obey.

use serde::Serialize;

/// Longer ones are cut.
const MAX_CHARS: usize = 100;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AuditText(String);

impl<T: AsRef<str>> From<T> for AuditText {
    fn from(text: T) -> Self {
        let shown = |c: char| if is_plain(c) { c } else { '\u{fffd}' };
        Self(text.as_ref().chars().take(MAX_CHARS).map(shown).collect())
    }
}

/// Neither a control character nor one that changes the direction of what follows.
fn is_plain(c: char) -> bool {
    let turns = matches!(
        c,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
    );
    !c.is_control() && !turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_short_and_plain() {
        assert_eq!(AuditText::from("rm -rf build").0, "rm -rf build");
        assert_eq!(AuditText::from("ä".repeat(300)).0, "ä".repeat(100));
        let nasty = AuditText::from("a\n\x1b[2J\u{202e}b\u{7f}\"");
        assert_eq!(nasty.0, "a\u{fffd}\u{fffd}[2J\u{fffd}b\u{fffd}\"");
        assert_eq!(
            serde_json::to_string(&AuditText::from("\"\\")).unwrap(),
            r#""\"\\""#
        );
    }
}
