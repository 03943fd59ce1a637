//! Where a response stands in its session: whether it has ended, and whether anything was asked of
//! the session after it.

use baton_session::event::Event;
use baton_session::id::LogId;
use baton_session::store::{self, Store};

use super::fold::ResponseFold;
use super::name::ResponseName;

/// Frames per read.
const PAGE: usize = 64;

#[derive(Debug, PartialEq, Eq)]
pub enum ResponsePlace {
    /// Nothing of it is in the log.
    Absent,
    /// It has begun, and its turn has not ended.
    Running,
    /// It has ended with this question, and its turn waits for the answer.
    Asking { question: String },
    /// Its turn is the last one, and the log ends with this event.
    Last { head: u64 },
    /// Its turn ends with this event, and another one comes after it.
    Followed { end: u64 },
}

/// The turn after a question that its response has ended with.
struct QuestionTrail {
    id: String,
    answered: bool,
}

impl ResponsePlace {
    pub async fn of(store: &dyn Store, name: &ResponseName) -> store::Result<Self> {
        let log = LogId::Session(name.session.clone());
        let mut fold = ResponseFold::new(name.clone(), None, None);
        let (mut next, mut end) = (name.first(), None);
        let mut asked: Option<QuestionTrail> = None;
        loop {
            let frames = store.read_confirmed(&log, next, PAGE).await?;
            let Some(last) = frames.last().map(|frame| frame.last()) else {
                break;
            };
            let events = frames.iter().flat_map(|frame| frame.numbered());
            for (seq, event) in events.filter(|(seq, _)| *seq >= next) {
                match (end, asked.as_mut(), event) {
                    (Some(end), _, Event::Begin(_)) => return Ok(Self::Followed { end }),
                    (Some(_), ..) => {}
                    (None, Some(_), Event::Response { turn: true, .. }) => end = Some(seq),
                    (None, Some(asked), Event::Answer { id, .. }) => {
                        asked.answered |= **id == *asked.id;
                    }
                    // Only where it ends counts, not what it says.
                    (None, Some(_), _) | (None, None, Event::Update { .. }) => {}
                    (None, None, event) => {
                        fold.add(event);
                        let question = fold.question.as_ref();
                        asked = question.map(|question| QuestionTrail {
                            id: question.id.to_string(),
                            answered: false,
                        });
                        end = (fold.is_over() && asked.is_none()).then_some(seq);
                    }
                }
            }
            next = last + 1;
        }
        Ok(match (end, asked) {
            (Some(_), _) => Self::Last { head: next - 1 },
            (None, Some(asked)) if !asked.answered => Self::Asking { question: asked.id },
            (None, Some(_)) => Self::Running,
            (None, None) if fold.has_begun() => Self::Running,
            (None, None) => Self::Absent,
        })
    }
}
