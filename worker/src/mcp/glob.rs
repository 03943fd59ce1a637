//! Patterns in which `*` stands for some characters, but not for all.

/// Whether `text` is the pattern with something in the place of each `*` that consists of `allowed`
/// characters only, or of none.
pub(crate) fn fits(pattern: &str, text: &str, allowed: fn(char) -> bool) -> bool {
    let filled = |gap: &str| gap.chars().all(allowed);
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    // The first place is as good as any: what a `*` may not stand for cannot be passed over later
    // either.
    for part in parts {
        let Some(at) = text.find(part) else {
            return false;
        };
        if !filled(&text[..at]) {
            return false;
        }
        text = &text[at + part.len()..];
    }
    text.strip_suffix(last).is_some_and(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_what_is_allowed() {
        let letters = |c: char| c.is_ascii_lowercase();
        for (pattern, text, expected) in [
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("*", "", true),
            ("*", "abc", true),
            ("*", "ab/c", false),
            ("a*c", "ac", true),
            ("a*c", "a/c", false),
            ("a*a", "a", false),
            ("*_key", "a_key", true),
            ("*_key", "_key", true),
            ("*_key", "a_key_", false),
            ("a*/b*", "axx/byy", true),
            ("a*/b*", "axx/c/byy", false),
            ("a*b*c", "abbbc", true),
            ("*a*", "bab", true),
            ("*a*", "bb", false),
        ] {
            assert_eq!(fits(pattern, text, letters), expected, "{pattern} {text}");
        }
    }
}
