//! How far every watched session was read, and how a cursor says it in few bytes: by entries of the
//! outbox that hold it, and what has moved since.
//!
//! The first of them holds all sessions. The second holds those that have moved since the first, so
//! that not all of them are written again each time that a cursor has become too long. When the
//! second ones have weighed as much as the first together, there is a new first: of 5,000 sessions
//! that move one after the other, each costs a few hundred bytes.

use std::collections::BTreeMap;
use std::fmt;

use baton_session::cursor::Cursor;
use baton_session::id::Nonce;
use baton_session::store::{OUTBOX_WINDOW_BYTES, OUTBOX_WINDOW_ENTRIES};

use super::cursor_text::{self, CursorParts, OutboxEntry, write_parts};

/// Cursors beyond this are shortened before anything is delivered. One more part and longer numbers
/// still fit into 1 KiB.
const LONG: usize = 700;
/// Cursors of all sessions that are no longer than this name no entry.
const SHORT: usize = LONG / 2;

#[derive(Default)]
pub struct SessionPositions {
    now: BTreeMap<u64, Cursor>,
    entries: Vec<OutboxEntry>,
    first: BTreeMap<u64, Cursor>,
    /// The differences of the second entry.
    second: CursorParts,
    /// The differences from both.
    moved: CursorParts,
    /// The size of the first entry, and of all second ones that were written since.
    weight: usize,
    spent: usize,
    /// The bytes of the outbox since the first. All of it has to stay there as long as the first is
    /// named.
    passed: u64,
}

/// An entry to write into the outbox.
pub struct PositionsDraft {
    pub is_whole: bool,
    pub text: String,
}

impl SessionPositions {
    pub fn set(&mut self, watch: u64, cursor: Cursor) {
        self.now.insert(watch, cursor);
        if self.in_entries(watch) == Some(cursor) {
            self.moved.remove(&watch)
        } else {
            self.moved.insert(watch, Some(cursor))
        };
    }

    pub fn leave(&mut self, watch: u64) {
        self.now.remove(&watch);
        match self.in_entries(watch) {
            None => self.moved.remove(&watch),
            Some(_) => self.moved.insert(watch, None),
        };
    }

    /// The positions in the entries.
    fn in_entries(&self, watch: u64) -> Option<Cursor> {
        let second = self.second.get(&watch).copied();
        second.unwrap_or_else(|| self.first.get(&watch).copied())
    }

    /// An entry of the outbox was dealt with.
    pub fn pass(&mut self, number: u64, bytes: usize) {
        if self
            .entries
            .first()
            .is_some_and(|first| first.number < number)
        {
            self.passed += bytes as u64;
        }
    }

    pub fn cursor(&self, read: u64, nonce: Option<Nonce>) -> String {
        let mut text = String::new();
        let written = cursor_text::write(&mut text, read, nonce, &self.entries, &self.moved);
        written.expect("a string takes anything");
        text
    }

    /// The entry that has to be in the outbox before the next cursor is written.
    pub fn draft(&mut self, read: u64) -> Option<PositionsDraft> {
        let far = self.is_far_back(read);
        if self.is_short() {
            return None;
        }
        if !far && self.length(&self.moved) <= LONG {
            return None;
        }
        let mut second = self.second.clone();
        second.extend(&self.moved);
        let text = write_parts(&second);
        if !far && !self.entries.is_empty() && self.spent + text.len() <= self.weight {
            let is_whole = false;
            return Some(PositionsDraft { is_whole, text });
        }
        let is_whole = true;
        let text = self.whole();
        Some(PositionsDraft { is_whole, text })
    }

    pub fn whole(&self) -> String {
        write_parts(&all(&self.now))
    }

    /// The first keeps everything after it in the outbox.
    fn is_far_back(&self, read: u64) -> bool {
        let entries = self.entries.first().map(|first| first.number);
        let entries = entries.map_or(0, |first| read.saturating_sub(first));
        let bytes = OUTBOX_WINDOW_BYTES.max(self.weight as u64);
        entries > OUTBOX_WINDOW_ENTRIES / 2 || self.passed > bytes
    }

    /// There are so few sessions left that no entry has to be named.
    fn is_short(&mut self) -> bool {
        if self.entries.is_empty() {
            return false;
        }
        // Each takes some ten bytes at least.
        let short = self.now.len() < SHORT / 8 && self.length(&all(&self.now)) <= SHORT;
        if short {
            self.forget_entries();
        }
        short
    }

    fn length(&self, parts: &CursorParts) -> usize {
        let mut length = LengthCounter(0);
        let (most, nonce) = (u64::MAX, Some(Nonce(0)));
        let written = cursor_text::write(&mut length, most, nonce, &self.entries, parts);
        written.expect("counting never fails");
        length.0
    }

    /// The draft is this entry of the outbox now.
    pub fn posted(&mut self, draft: &PositionsDraft, entry: OutboxEntry) {
        if draft.is_whole {
            self.entries = vec![entry];
            self.first = self.now.clone();
            self.second.clear();
            (self.weight, self.spent, self.passed) = (draft.text.len(), 0, 0);
        } else {
            self.entries.truncate(1);
            self.entries.push(entry);
            self.second.extend(&self.moved);
            self.spent += draft.text.len();
        }
        self.moved.clear();
    }

    pub fn entries(&self) -> &[OutboxEntry] {
        &self.entries
    }

    /// They are not there any more, or not needed.
    pub fn forget_entries(&mut self) {
        let now = std::mem::take(&mut self.now);
        *self = Self {
            moved: all(&now),
            now,
            ..Self::default()
        };
    }

    /// Restores the entries that a cursor names. Sessions are [`set`](Self::set) afterwards.
    pub fn resume(entries: Vec<OutboxEntry>, read: Vec<(usize, CursorParts)>) -> Self {
        let mut positions = Self {
            entries,
            ..Self::default()
        };
        let mut read = read.into_iter();
        if let Some((weight, parts)) = read.next() {
            let first = parts.into_iter();
            let first = first.filter_map(|(watch, cursor)| Some((watch, cursor?)));
            (positions.first, positions.weight) = (first.collect(), weight);
        }
        if let Some((weight, parts)) = read.next() {
            (positions.second, positions.spent) = (parts, before_it(weight));
        }
        // Until it is set, nothing is watched.
        let in_entries = positions.first.keys().chain(positions.second.keys());
        let in_entries: Vec<u64> = in_entries.copied().collect();
        in_entries
            .into_iter()
            .for_each(|watch| positions.leave(watch));
        positions
    }
}

/// The total size of second entries when the last of them has this size: each was written when a
/// cursor had become too long.
fn before_it(weight: usize) -> usize {
    weight * (weight / LONG + 1) / 2
}

fn all(sessions: &BTreeMap<u64, Cursor>) -> CursorParts {
    let sessions = sessions.iter();
    sessions
        .map(|(watch, cursor)| (*watch, Some(*cursor)))
        .collect()
}

/// Counts what is written.
struct LengthCounter(usize);

impl fmt::Write for LengthCounter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::cursor_text::{ConnectionCursor, parse_parts};
    use super::*;

    /// An outbox of nothing but positions.
    #[derive(Default)]
    struct Outbox {
        written: Vec<String>,
        bytes: usize,
    }

    impl Outbox {
        fn write(&mut self, draft: &PositionsDraft) -> OutboxEntry {
            self.bytes += draft.text.len();
            self.written.push(draft.text.clone());
            let number = self.written.len() as u64;
            let nonce = Nonce(number as u32);
            OutboxEntry { number, nonce }
        }

        fn read(&self, cursor: &str) -> SessionPositions {
            let position = ConnectionCursor::parse(cursor).expect("a position");
            let texts = position.entries.iter().map(|entry| {
                let text = &self.written[entry.number as usize - 1];
                (text.len(), parse_parts(text.as_bytes()).expect("parts"))
            });
            let texts: Vec<_> = texts.collect();
            let mut combined = CursorParts::new();
            for (_, parts) in &texts {
                combined.extend(parts);
            }
            combined.extend(&position.parts);
            let mut positions = SessionPositions::resume(position.entries, texts);
            for (watch, cursor) in combined {
                if let Some(cursor) = cursor {
                    positions.set(watch, cursor);
                }
            }
            positions
        }
    }

    fn shorten(positions: &mut SessionPositions, outbox: &mut Outbox, read: u64) {
        if let Some(draft) = positions.draft(read) {
            let entry = outbox.write(&draft);
            positions.posted(&draft, entry);
        }
    }

    #[test]
    fn a_cursor_stays_short_and_says_everything() {
        for sessions in [1, 20, 300, 2000] {
            let (mut positions, mut outbox) = (SessionPositions::default(), Outbox::default());
            let mut random = 7u64;
            let mut moves = 0;
            for step in 1..=sessions + 2000 {
                shorten(&mut positions, &mut outbox, 0);
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
                let watch = if step <= sessions {
                    step
                } else {
                    1 + (random >> 33) % sessions
                };
                if step > sessions && random >> 60 == 0 {
                    positions.leave(watch)
                } else {
                    positions.set(watch, Cursor::live(step, Nonce(step as u32)))
                }
                moves += 1;
                let cursor = positions.cursor(9999, Some(Nonce(9)));
                assert!(cursor.len() <= 1024, "{} bytes", cursor.len());
                if step % 97 == 0 {
                    let read = outbox.read(&cursor);
                    assert_eq!(read.now, positions.now);
                    assert_eq!(read.cursor(9999, Some(Nonce(9))), cursor);
                    // Somebody else goes on from there.
                    positions = read;
                }
            }
            match sessions {
                1 | 20 => assert_eq!(outbox.written, Vec::<String>::new()),
                _ => assert!(outbox.bytes / moves < 400, "{}", outbox.bytes / moves),
            }
        }
    }

    #[test]
    fn the_longest_parts_fit_as_well() {
        let (mut positions, mut outbox) = (SessionPositions::default(), Outbox::default());
        for watch in 0..500 {
            shorten(&mut positions, &mut outbox, u64::MAX);
            let longest = Cursor {
                phase: baton_session::cursor::CursorPhase::Asked(u64::MAX, u64::MAX),
                ..Cursor::live(u64::MAX, Nonce(u32::MAX))
            };
            positions.set(u64::MAX - watch, longest);
            let cursor = positions.cursor(u64::MAX, Some(Nonce(u32::MAX)));
            assert!(cursor.len() <= 1024, "{} bytes", cursor.len());
        }
    }

    #[test]
    fn few_sessions_name_no_entry() {
        let (mut positions, mut outbox) = (SessionPositions::default(), Outbox::default());
        for watch in 1..=100 {
            shorten(&mut positions, &mut outbox, 0);
            positions.set(watch, Cursor::live(watch, Nonce(1)));
        }
        assert!(positions.cursor(1, None).contains('@'));
        for watch in 4..=100 {
            positions.leave(watch);
            shorten(&mut positions, &mut outbox, 0);
        }
        let cursor = positions.cursor(1, None);
        assert_eq!(cursor, "1~1:1.00000001~2:2.00000001~3:3.00000001");
    }

    #[test]
    fn an_entry_that_is_far_back_is_not_named_for_long() {
        let (mut positions, mut outbox) = (SessionPositions::default(), Outbox::default());
        for watch in 1..=100 {
            shorten(&mut positions, &mut outbox, 0);
            positions.set(watch, Cursor::live(watch, Nonce(1)));
        }
        let first = |positions: &SessionPositions| positions.entries()[0].number;
        let was = first(&positions);
        shorten(&mut positions, &mut outbox, was + OUTBOX_WINDOW_ENTRIES / 2);
        assert_eq!(first(&positions), was);
        shorten(
            &mut positions,
            &mut outbox,
            was + OUTBOX_WINDOW_ENTRIES / 2 + 1,
        );
        let then = first(&positions);
        assert!(then > was);
        positions.pass(then, OUTBOX_WINDOW_BYTES as usize + 1);
        shorten(&mut positions, &mut outbox, then);
        assert_eq!(
            first(&positions),
            then,
            "what came before it does not count"
        );
        positions.pass(then + 1, OUTBOX_WINDOW_BYTES as usize + 1);
        shorten(&mut positions, &mut outbox, then + 1);
        assert!(first(&positions) > then);
    }
}
