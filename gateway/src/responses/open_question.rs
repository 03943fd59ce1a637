//! The question of a turn that waits for its answer. Its id names the session, and the session
//! knows where its running turn began.

use baton_session::event::Event;
use baton_session::id::{LogId, SessionId};
use baton_session::store::{self, Store};

use super::ResponseServices;
use super::fold::ResponseFold;
use super::name::ResponseName;
use super::question::AgentQuestion;
use crate::access::RequestAccess;
use crate::error::GatewayError;

/// Frames per read.
const PAGE: usize = 64;

pub struct OpenQuestion {
    pub session: SessionId,
    pub agent: String,
    pub question: AgentQuestion,
    /// The event that asks it.
    pub at: u64,
}

impl OpenQuestion {
    /// `None` if there is no such question for the caller, or it was answered.
    pub async fn find(
        services: ResponseServices<'_>,
        access: &RequestAccess,
        id: &str,
    ) -> Result<Option<Self>, GatewayError> {
        let session = id.split_once(':').map(|(session, _)| session);
        let Some(session) = session.and_then(SessionId::parse) else {
            return Ok(None);
        };
        let caller = &access.caller;
        let record = services.store.record(&session, &caller.principal).await?;
        let record = record.filter(|record| caller.rights().allow(&record.agent));
        let Some((record, began)) = record.and_then(|it| it.began.map(|began| (it, began))) else {
            return Ok(None);
        };
        let log = LogId::Session(session.clone());
        let mut found = None;
        each(&**services.store, &log, began, |seq, event| match event {
            Event::Request { id: asked, message } if **asked == *id => {
                let question = AgentQuestion::read(asked, message);
                found = question.map(|question| (question, seq));
                true
            }
            Event::Answer { id: answered, .. } if **answered == *id => {
                found = None;
                true
            }
            Event::Response { turn: true, .. } => {
                found = None;
                false
            }
            _ => true,
        })
        .await?;
        Ok(found.map(|(question, at)| Self {
            session,
            agent: record.agent,
            question,
            at,
        }))
    }
}

/// The event with the question that a response has ended with.
pub async fn question_of(store: &dyn Store, name: &ResponseName) -> store::Result<Option<u64>> {
    let log = LogId::Session(name.session.clone());
    let mut fold = ResponseFold::new(name.clone(), None, None);
    let mut found = None;
    each(store, &log, name.first(), |seq, event| {
        fold.add(event);
        found = fold.question.as_ref().map(|_| seq);
        !fold.is_over()
    })
    .await?;
    Ok(found)
}

/// Every event from `first` on, as long as `more` says so.
async fn each(
    store: &dyn Store,
    log: &LogId,
    first: u64,
    mut more: impl FnMut(u64, &Event) -> bool,
) -> store::Result<()> {
    let mut next = first;
    loop {
        let frames = store.read_confirmed(log, next, PAGE).await?;
        let Some(last) = frames.last().map(|frame| frame.last()) else {
            return Ok(());
        };
        let mut events = frames.iter().flat_map(|frame| frame.numbered());
        if events.any(|(seq, event)| seq >= next && !more(seq, event)) {
            return Ok(());
        }
        next = last + 1;
    }
}
