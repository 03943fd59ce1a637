//! Words of others, made harmless: a terminal obeys control characters, whoever sent them.

/// Control characters become visible. Line breaks and tabs stay.
pub fn harmless(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    text.chars().fold(String::new(), |mut safe, character| {
        match character {
            '\n' | '\t' => safe.push(character),
            _ if is_dangerous(character) => safe.extend(character.escape_unicode()),
            _ => safe.push(character),
        }
        safe
    })
}

/// The same on one line, for titles and names.
pub fn one_line(text: &str) -> String {
    let flat = text.replace(['\r', '\n', '\t'], " ");
    harmless(flat.trim())
}

/// Besides control characters those that change the direction of what follows.
fn is_dangerous(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_gets_through() {
        let hostile = "a\u{1b}]0;title\u{7}b\u{9b}2Jc\rd\u{202e}e";
        let safe = harmless(hostile);
        assert!(!safe.chars().any(is_dangerous), "{safe:?}");
        assert!(safe.starts_with("a\\u{1b}]0;title\\u{7}b"), "{safe}");
        assert_eq!(harmless("a\r\n\tb ü 你"), "a\n\tb ü 你");
        assert_eq!(one_line(" a\nb\r"), "a b");
    }
}
