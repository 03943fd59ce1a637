//! The agent's questions that a client was asked and nobody has answered yet.

use std::sync::Arc;

use baton_protocol::compose;
use baton_session::event::is_aside;
use bytes::Bytes;

#[derive(Default)]
pub struct OpenRequests(Vec<Arc<str>>);

impl OpenRequests {
    /// The same question may be asked again.
    pub fn note(&mut self, id: &Arc<str>) {
        if !self.0.contains(id) {
            self.0.push(id.clone());
        }
    }

    /// True if it was asked here.
    pub fn settle(&mut self, id: &str) -> bool {
        let at = self
            .0
            .iter()
            .position(|open_requests| **open_requests == *id);
        at.map(|at| self.0.remove(at)).is_some()
    }

    /// The requests to withdraw at the turn's end. Requests outside of turns stay open.
    pub fn withdraw(&mut self) -> impl Iterator<Item = Bytes> + use<> {
        let open = self.0.extract_if(.., |id| !is_aside(id));
        let open: Vec<Arc<str>> = open.collect();
        open.into_iter().map(|id| compose::cancel_request(&id))
    }
}

#[cfg(test)]
mod tests {
    use baton_session::event::aside_id;
    use baton_session::id::{Partition, SessionId};

    use super::*;

    #[test]
    fn a_turns_end_withdraws_its_own_questions_only() {
        let session = SessionId::mint(Partition(1));
        let aside = aside_id(&session, "holder", 1);
        let own: Arc<str> = format!("{session}:7.1").into();
        let mut open_requests = OpenRequests::default();
        open_requests.note(&aside);
        open_requests.note(&own);
        let withdrawn: Vec<Bytes> = open_requests.withdraw().collect();
        assert_eq!(withdrawn, [compose::cancel_request(&own)]);
        assert!(open_requests.settle(&aside) && !open_requests.settle(&own));
    }
}
