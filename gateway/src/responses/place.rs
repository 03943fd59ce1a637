//! Where a response stands in its session: whether it has ended, and whether anything was asked of
//! the session after it.

use baton_session::event::Event;
use baton_session::id::LogId;
use baton_session::store::{self, Store};

use super::fold::ResponseFold;
use super::name::ResponseName;

/// Frames per read.
const PAGE: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponsePlace {
    /// Nothing of it is in the log.
    Absent,
    /// It has begun and not ended.
    Running,
    /// Its turn is the last one, and the log ends with this event.
    Last { head: u64 },
    /// Its turn ends with this event, and another one comes after it.
    Followed { end: u64 },
}

impl ResponsePlace {
    pub async fn of(store: &dyn Store, name: &ResponseName) -> store::Result<Self> {
        let log = LogId::Session(name.session.clone());
        let mut fold = ResponseFold::new(name.clone(), None, None);
        let (mut next, mut end) = (name.after + 1, None);
        loop {
            let frames = store.read_confirmed(&log, next, PAGE).await?;
            let Some(last) = frames.last().map(|frame| frame.last()) else {
                break;
            };
            let events = frames.iter().flat_map(|frame| frame.numbered());
            for (seq, event) in events.filter(|(seq, _)| *seq >= next) {
                match (end, event) {
                    (Some(end), Event::Begin(_)) => return Ok(Self::Followed { end }),
                    (Some(_), _) => {}
                    // Only where it ends counts, not what it says.
                    (None, Event::Update { .. }) => {}
                    (None, event) => {
                        fold.add(event, None);
                        end = fold.is_over().then_some(seq);
                    }
                }
            }
            next = last + 1;
        }
        Ok(match end {
            Some(_) => Self::Last { head: next - 1 },
            None if fold.has_begun() => Self::Running,
            None => Self::Absent,
        })
    }
}
