//! Where in a log modes and options have changed, so that what a session showed at some event is
//! known without reading all that came before. It is a line of text, `m12 o30 `, the oldest first;
//! one that begins with `-` does not know of everything.

use std::sync::LazyLock;

use baton_protocol::{UpdateKind, update};
use memchr::memmem::Finder;

use crate::event::Event;

/// Beyond so many bytes the oldest are forgotten. As in `append.lua`.
pub(crate) const MAX_BYTES: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownSetting {
    Mode,
    Options,
}

/// The end of both names, and of a few others. Made once: it takes longer to make one than to look
/// through a chunk with it.
static NAME_END: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("_update\""));

/// Where the last change up to some event was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastChange {
    At(u64),
    /// Nowhere: it is as it was in the beginning.
    None,
    /// If it was anywhere, then that was forgotten.
    Unknown,
}

impl ShownSetting {
    pub const ALL: [Self; 2] = [Self::Mode, Self::Options];

    pub fn kind(self) -> &'static str {
        match self {
            Self::Mode => UpdateKind::CurrentMode.name(),
            Self::Options => UpdateKind::ConfigOption.name(),
        }
    }

    fn letter(self) -> char {
        match self {
            Self::Mode => 'm',
            Self::Options => 'o',
        }
    }

    /// The setting that this event changes.
    fn by(event: &Event) -> Option<Self> {
        let Event::Update { message, .. } = event else {
            return None;
        };
        // Nearly all are words, and are not taken apart.
        NAME_END.find(message)?;
        match update::kind(message)? {
            UpdateKind::CurrentMode => Some(Self::Mode),
            UpdateKind::ConfigOption => Some(Self::Options),
            _ => None,
        }
    }
}

/// The text that these events add to the line; empty for nearly all.
pub(crate) fn added<'a>(events: impl Iterator<Item = (u64, &'a Event)>) -> String {
    let changes = events.filter_map(|(seq, event)| Some((ShownSetting::by(event)?.letter(), seq)));
    changes
        .map(|(letter, seq)| format!("{letter}{seq} "))
        .collect()
}

/// The line with more at its end.
pub(crate) fn extended(line: Option<&str>, more: &str) -> String {
    // Without a line the session is older than these are.
    let mut line = line.unwrap_or("-").to_owned() + more;
    while line.len() > MAX_BYTES {
        let rest = line.split_once(' ').map_or("", |(_, rest)| rest);
        line = format!("-{rest}");
    }
    line
}

/// The part of the line that a fork up to an event has.
pub(crate) fn upto(line: &str, cut: u64) -> String {
    let start = if line.starts_with('-') { "-" } else { "" };
    let kept = entries(line).filter(|(_, seq)| *seq <= cut);
    kept.fold(start.to_owned(), |line, (letter, seq)| {
        format!("{line}{letter}{seq} ")
    })
}

/// Where the last change up to `seq` was.
pub fn last(line: Option<&str>, what: ShownSetting, seq: u64) -> LastChange {
    let Some(line) = line else {
        return LastChange::Unknown;
    };
    let changes = entries(line).filter(|(letter, at)| *letter == what.letter() && *at <= seq);
    match changes.last() {
        Some((_, at)) => LastChange::At(at),
        None if line.starts_with('-') => LastChange::Unknown,
        None => LastChange::None,
    }
}

fn entries(line: &str) -> impl Iterator<Item = (char, u64)> {
    let words = line.trim_start_matches('-').split_ascii_whitespace();
    words.filter_map(|word| {
        let letter = word.chars().next()?;
        Some((letter, word[1..].parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn update(update: &str) -> Event {
        let message = format!(r#"{{"params":{{"sessionId":"s","update":{update}}}}}"#);
        Event::Update {
            turn: true,
            message: Bytes::from(message),
        }
    }

    #[test]
    fn only_changes_are_noted() {
        let events = [
            update(r#"{"sessionUpdate":"current_mode_update","currentModeId":"ask"}"#),
            update(r#"{"sessionUpdate":"agent_message_chunk","text":"current_mode_update"}"#),
            update(r#"{"sessionUpdate":"config_option_update","configOptions":[]}"#),
            update("config_option_update"),
        ];
        assert_eq!(added((7..).zip(&events)), "m7 o9 ");
    }

    #[test]
    fn what_was_forgotten_is_not_taken_for_nothing() {
        let line = extended(Some(""), "o3 m7 m9 ");
        assert_eq!(last(Some(&line), ShownSetting::Mode, 8), LastChange::At(7));
        assert_eq!(last(Some(&line), ShownSetting::Mode, 6), LastChange::None);
        assert_eq!(
            last(Some(&line), ShownSetting::Options, 9),
            LastChange::At(3)
        );
        assert_eq!(last(None, ShownSetting::Mode, 9), LastChange::Unknown);
        assert_eq!(upto(&line, 7), "o3 m7 ");
        let many: String = (10..500).map(|seq| format!("m{seq} ")).collect();
        let line = extended(Some(&line), &many);
        assert!(line.len() <= MAX_BYTES, "{}", line.len());
        assert_eq!(
            last(Some(&line), ShownSetting::Mode, 9999),
            LastChange::At(499)
        );
        assert_eq!(
            last(Some(&line), ShownSetting::Options, 9999),
            LastChange::Unknown
        );
        assert_eq!(
            last(Some(&upto(&line, 5)), ShownSetting::Mode, 5),
            LastChange::Unknown
        );
        assert_eq!(
            last(Some(&extended(None, "m4 ")), ShownSetting::Mode, 3),
            LastChange::Unknown
        );
    }
}
