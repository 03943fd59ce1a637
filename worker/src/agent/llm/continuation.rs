//! The rest of a text that was broken off. Most endpoints go on after the beginning that they are
//! given; others say it all again. Either way nothing is shown twice.

/// A beginning that is shorter may come again by chance.
const SHORTEST: usize = 24;

pub struct ContinuedText {
    /// What was said before.
    beginning: String,
    /// What came now, as long as it may be the beginning once more.
    held: Option<String>,
}

impl ContinuedText {
    pub fn after(beginning: &str) -> Self {
        Self {
            beginning: beginning.to_owned(),
            held: (beginning.len() >= SHORTEST).then(String::new),
        }
    }

    /// The next piece; returns what is new of it.
    pub fn add(&mut self, piece: &str) -> Option<String> {
        let Some(held) = &mut self.held else {
            return Some(piece.to_owned());
        };
        held.push_str(piece);
        if let Some(rest) = held.strip_prefix(&self.beginning) {
            let rest = rest.to_owned();
            self.held = None;
            return (!rest.is_empty()).then_some(rest);
        }
        if self.beginning.starts_with(held.as_str()) {
            return None;
        }
        self.held.take()
    }

    /// What was held back when nothing more came.
    pub fn finish(&mut self) -> Option<String> {
        self.held.take().filter(|held| !held.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGINNING: &str = "The quick brown fox jumps over ";

    fn shown(beginning: &str, pieces: &[&str]) -> String {
        let mut text = ContinuedText::after(beginning);
        let mut shown = beginning.to_owned();
        for piece in pieces {
            shown.extend(text.add(piece));
        }
        shown.extend(text.finish());
        shown
    }

    #[test]
    fn a_text_that_goes_on_is_shown_as_it_comes() {
        let whole = format!("{BEGINNING}the lazy dog");
        assert_eq!(shown(BEGINNING, &["the la", "zy dog"]), whole);
        // It begins as the beginning did, and is something else.
        let whole = format!("{BEGINNING}The quick brown cat");
        assert_eq!(shown(BEGINNING, &["The qui", "ck brown", " cat"]), whole);
        assert_eq!(shown("ha", &["ha", "ha"]), "hahaha");
    }

    #[test]
    fn a_text_that_begins_anew_is_shown_once() {
        let whole = format!("{BEGINNING}the lazy dog");
        for size in 1..10 {
            let pieces: Vec<&str> = whole
                .as_bytes()
                .chunks(size)
                .map(|piece| std::str::from_utf8(piece).unwrap())
                .collect();
            assert_eq!(shown(BEGINNING, &pieces), whole);
        }
    }

    #[test]
    fn what_was_held_back_is_not_lost() {
        let whole = format!("{BEGINNING}The quick");
        assert_eq!(shown(BEGINNING, &["The quick"]), whole);
    }
}
