//! The last appends of a claim. A store that failed over may have lost the end of a log that it had
//! acknowledged; as long as the writer still has those frames it writes the same ones again, so
//! readers who saw them before see no difference.

use std::collections::VecDeque;

use baton_session::event::Event;
use baton_session::store::AppendRequest;

/// Much more than a failover loses, and little enough for many sessions.
pub(crate) const MAX_BYTES: usize = 1 << 20;
/// Of a session at rest, of which a worker may hold many.
const MAX_BYTES_AT_REST: usize = 64 << 10;
/// Bytes that an append or an event takes beside its text.
const OVERHEAD: usize = 64;

#[derive(Default)]
pub(crate) struct RewriteBuffer {
    appends: VecDeque<AppendRequest>,
    bytes: usize,
    /// Where the last append began that is no longer kept.
    dropped: u64,
}

impl RewriteBuffer {
    pub fn keep(&mut self, append: AppendRequest) {
        self.bytes += weight(&append);
        self.appends.push_back(AppendRequest {
            // Only the last word of a claim gives the session up, and that one is not repeated
            // here.
            release: false,
            ..append
        });
        self.trim(MAX_BYTES);
    }

    /// The session rests.
    pub fn rest(&mut self) {
        self.trim(MAX_BYTES_AT_REST);
        self.appends.shrink_to_fit();
    }

    fn trim(&mut self, most: usize) {
        while self.bytes > most && self.appends.len() > 1 {
            let oldest = self.appends.pop_front().expect("just counted");
            self.bytes -= weight(&oldest);
            self.dropped = oldest.first;
        }
    }

    /// All that was written after `head`, or `None` if that is not known any more. It brings back
    /// what an append changes beside the log, too, since the store lost that along with it.
    pub fn after(&self, head: u64) -> Option<Vec<AppendRequest>> {
        let lost: Vec<_> = self
            .appends
            .iter()
            .skip_while(|append| append.first <= head)
            .cloned()
            .collect();
        let whole = lost.first().is_some_and(|first| first.first == head + 1);
        (whole && self.dropped <= head).then_some(lost)
    }
}

/// What it takes to keep it.
pub(crate) fn weight(append: &AppendRequest) -> usize {
    let field = |field: &Option<bytes::Bytes>| field.as_ref().map_or(0, |field| field.len());
    let events = append
        .events
        .iter()
        .map(|event: &Event| event.size() + OVERHEAD);
    events.sum::<usize>() + field(&append.state) + field(&append.view) + OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_session::id::{Nonce, Partition, SessionId};
    use baton_session::store::ClaimToken;
    use bytes::Bytes;

    fn append(first: u64, sizes: &[usize]) -> AppendRequest {
        let event = |size: &usize| Event::Update {
            turn: true,
            message: Bytes::from(vec![b'x'; *size]),
        };
        let session = SessionId::mint(Partition(0));
        let token = ClaimToken("token".into());
        let events = sizes.iter().map(event).collect();
        AppendRequest {
            acks: vec![first.into()],
            release: true,
            ..AppendRequest::new(session, token, Nonce(1), first, events)
        }
    }

    fn firsts(appends: Option<Vec<AppendRequest>>) -> Option<Vec<u64>> {
        appends.map(|appends| appends.iter().map(|append| append.first).collect())
    }

    #[test]
    fn what_comes_after_a_position_is_given_whole_or_not_at_all() {
        let mut written = RewriteBuffer::default();
        // The second has no events: it only acknowledged something.
        for (first, sizes) in [(11, &[1, 1][..]), (13, &[]), (13, &[1, 1, 1]), (16, &[1])] {
            written.keep(append(first, sizes));
        }
        assert_eq!(firsts(written.after(12)), Some(vec![13, 13, 16]));
        assert_eq!(firsts(written.after(10)), Some(vec![11, 13, 13, 16]));
        assert_eq!(firsts(written.after(9)), None, "before our time");
        assert_eq!(firsts(written.after(13)), None, "in the middle of a frame");
        assert_eq!(firsts(written.after(16)), None, "nothing is missing");
        assert!(
            written
                .after(10)
                .unwrap()
                .iter()
                .all(|append| !append.release)
        );
    }

    #[test]
    fn only_so_much_is_kept() {
        let mut written = RewriteBuffer::default();
        for number in 0..10 {
            written.keep(append(1 + number, &[MAX_BYTES / 4]));
        }
        assert!(written.bytes <= MAX_BYTES);
        assert_eq!(firsts(written.after(7)), Some(vec![8, 9, 10]));
        assert_eq!(firsts(written.after(6)), None);
    }

    #[test]
    fn at_rest_little_is_kept() {
        let mut kept = RewriteBuffer::default();
        for first in 1..=8 {
            kept.keep(append(first, &[MAX_BYTES_AT_REST / 2]));
        }
        assert!(kept.after(0).is_some());
        kept.rest();
        assert!(kept.after(0).is_none());
        assert_eq!(kept.after(7).map(|lost| lost.len()), Some(1));
        assert!(kept.bytes <= MAX_BYTES_AT_REST);
    }
}
