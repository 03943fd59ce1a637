//! What happens beside a log and concerns its readers. The last notices are kept: a reader that
//! has missed earlier ones has to count on anything.

use std::collections::VecDeque;

use baton_session::id::ConnectionId;

const MAX_NOTICES: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogNotice {
    Attached(ConnectionId),
    Taken {
        connection: ConnectionId,
        holder: String,
    },
    /// Signals were lost; anything may have happened.
    Resync,
    /// The log may not be what it was: it has become shorter, or a number came twice.
    Doubt,
}

#[derive(Default)]
pub(super) struct LogNotices {
    /// All there ever were.
    count: u64,
    recent: VecDeque<LogNotice>,
}

impl LogNotices {
    pub fn push(&mut self, notice: LogNotice) {
        self.count += 1;
        self.recent.push_back(notice);
        if self.recent.len() > MAX_NOTICES {
            self.recent.pop_front();
        }
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// Those since `seen`, which is brought up to date. Too many to remember count as a resync.
    pub fn since(&self, seen: &mut u64) -> Vec<LogNotice> {
        let missed = (self.count - *seen) as usize;
        *seen = self.count;
        match self.recent.len().checked_sub(missed) {
            Some(first) => self.recent.range(first..).cloned().collect(),
            None => vec![LogNotice::Resync],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_missed_too_many_has_to_count_on_anything() {
        let mut notices = LogNotices::default();
        let (mut seen, mut later, mut late) = (0, 0, 0);
        for _ in 0..MAX_NOTICES {
            notices.push(LogNotice::Doubt);
            assert_eq!(notices.since(&mut seen), [LogNotice::Doubt]);
        }
        assert!(notices.since(&mut seen).is_empty());
        assert_eq!(notices.since(&mut later).len(), MAX_NOTICES);
        notices.push(LogNotice::Doubt);
        assert_eq!(notices.since(&mut late), [LogNotice::Resync]);
        assert_eq!((late, seen), (notices.count(), notices.count() - 1));
    }
}
