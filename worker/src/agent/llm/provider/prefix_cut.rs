//! Text that was already said is never said twice: cuts it off where a continuation begins with
//! it. The one place where that is decided.

/// An endpoint that goes on after exactly the beginning repeats it only by ignoring it, and then
/// all of it. A shorter beginning may come again by chance.
const MIN_WHOLE: usize = 32;
/// A model that was asked to go on may begin with the last sentence again. Less than this, such
/// as a number or a yes, may as well be the rest.
const MIN_OVERLAP: usize = 16;
const MAX_OVERLAP: usize = 4096;

#[derive(Debug, Default)]
pub struct PrefixCut {
    said: String,
    /// Where in `said` the new text may begin, all those that are still possible. Ascending.
    starts: Vec<usize>,
    /// The new text as long as it may be a repetition.
    held: String,
    drop_partial: bool,
}

impl PrefixCut {
    /// For an endpoint that goes on after exactly what it was sent: `said` without its last
    /// `withheld` bytes, which the endpoint may therefore say itself.
    pub fn exact(said: String, withheld: usize) -> Self {
        let whole = (said.len() >= MIN_WHOLE).then_some(0);
        let unsent = said.len() - withheld..said.len();
        let unsent = unsent.filter(|at| *at > 0 && said.is_char_boundary(*at));
        Self {
            starts: whole.into_iter().chain(unsent).collect(),
            said,
            ..Self::default()
        }
    }

    /// For a model that was asked to go on, and may begin anew, or with its last words.
    pub fn asked(said: String) -> Self {
        let earliest = said.len().saturating_sub(MAX_OVERLAP).max(1);
        let latest = said.len().saturating_sub(MIN_OVERLAP);
        let begins_word = |at: &usize| {
            let before = said.as_bytes()[at - 1];
            said.is_char_boundary(*at) && before.is_ascii_whitespace()
        };
        let words = (earliest..=latest).filter(begins_word);
        let whole = (said.len() >= MIN_OVERLAP).then_some(0);
        Self {
            starts: whole.into_iter().chain(words).collect(),
            said,
            drop_partial: true,
            ..Self::default()
        }
    }

    /// More of the new text; returns what can be shown of it.
    pub fn push(&mut self, text: &str) -> String {
        if self.starts.is_empty() {
            return text.to_owned();
        }
        let compared = self.held.len();
        self.held.push_str(text);
        let (said, held) = (self.said.as_bytes(), self.held.len());
        self.starts.retain(|start| {
            let said = said.get(start + compared..).unwrap_or_default();
            said.iter()
                .zip(text.as_bytes())
                .all(|(old, new)| old == new)
        });
        // Of those that are complete only the longest can matter.
        let is_partial = |start: &usize| held < said.len() - start;
        let partial = self.starts.partition_point(is_partial);
        self.starts.truncate(partial + 1);
        match self.starts.first() {
            None => self.release(0),
            // The longest repetition is complete.
            Some(start) if !is_partial(start) => self.release(said.len() - start),
            Some(_) => String::new(),
        }
    }

    /// The text has ended; returns what is left to show. The beginning of a repetition by a model
    /// that was only asked is none.
    pub fn finish(&mut self) -> String {
        let overlaps = self.held.len() >= MIN_OVERLAP && !self.starts.is_empty();
        if self.drop_partial && overlaps {
            self.held.clear();
        }
        self.release(0)
    }

    fn release(&mut self, cut: usize) -> String {
        self.starts = Vec::new();
        self.said = String::new();
        let mut held = std::mem::take(&mut self.held);
        held.drain(..cut);
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "The first sentence is long. The second one breaks o";

    /// What is shown after `SAID`, in pieces of every size.
    fn shown(cut: impl Fn() -> PrefixCut, new: &str) -> String {
        let whole = say(cut(), &[new]);
        let letters: Vec<String> = new.chars().map(String::from).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        assert_eq!(say(cut(), &letters), whole);
        whole
    }

    fn say(mut cut: PrefixCut, pieces: &[&str]) -> String {
        let mut shown: String = pieces.iter().map(|piece| cut.push(piece)).collect();
        shown += &cut.finish();
        shown
    }

    #[test]
    fn what_was_said_is_cut_off_once() {
        let asked = || PrefixCut::asked(SAID.into());
        let exact = || PrefixCut::exact(SAID.into(), 0);
        for cut in [&asked as &dyn Fn() -> PrefixCut, &exact] {
            assert_eq!(shown(cut, "ff here."), "ff here.");
            assert_eq!(shown(cut, &format!("{SAID}ff here.")), "ff here.");
            assert_eq!(shown(cut, "The first light"), "The first light");
            let twice = format!("{SAID}{SAID}");
            assert_eq!(shown(cut, &twice), SAID, "only a beginning is cut");
        }
        assert_eq!(shown(asked, "The second one breaks off."), "ff.");
        assert_eq!(
            shown(exact, "The second one breaks off."),
            "The second one breaks off.",
            "an endpoint that goes on exactly means what it says"
        );
        assert_eq!(
            shown(asked, "The first sentence"),
            "",
            "begun anew and ended"
        );
    }

    #[test]
    fn short_beginnings_and_withheld_space() {
        let exact = || PrefixCut::exact("ha".into(), 0);
        assert_eq!(shown(exact, "ha!"), "ha!");
        let asked = || PrefixCut::asked("ha".into());
        assert_eq!(shown(asked, "ha!"), "ha!");
        let withheld = || PrefixCut::exact("Dear friend,\n\n".into(), 2);
        assert_eq!(shown(withheld, "\n\nI write"), "I write");
        assert_eq!(shown(withheld, "\nI write"), "I write");
        assert_eq!(shown(withheld, "I write"), "I write");
        let umlauts = || PrefixCut::asked("ä ö ü ä ö ü ä ö ü ä ö ü".into());
        assert_eq!(shown(umlauts, "ß"), "ß");
        assert_eq!(shown(PrefixCut::default, "any"), "any");
    }

    /// Comparing all that is held for each piece would take hours here.
    #[test]
    fn a_long_repetition_in_small_pieces_is_cheap() {
        let said = "a ".repeat(1 << 20);
        for mut cut in [
            PrefixCut::exact(said.clone(), 0),
            PrefixCut::asked(said.clone()),
        ] {
            for at in 0..said.len() - 1 {
                assert_eq!(cut.push(&said[at..=at]), "");
            }
            assert_eq!(cut.push(" and more"), "and more");
        }
    }

    #[test]
    fn a_short_answer_that_was_said_before_is_kept() {
        let asked =
            || PrefixCut::asked("A or B? Let us think about it. The answer then is ".into());
        assert_eq!(shown(asked, "A"), "A");
        assert_eq!(shown(asked, "The answer"), "The answer");
        assert_eq!(
            shown(asked, "A or B? Let us think"),
            "",
            "begun anew and ended"
        );
        let brief = || PrefixCut::asked("No. ".into());
        assert_eq!(shown(brief, "No. No!"), "No. No!");
    }
}
