//! State of a conversation that the next worker or reader needs, as far as it has changed. It is
//! appended together with the events it belongs to.

use baton_protocol::limits::{MAX_STATE, MAX_VIEW};
use bytes::Bytes;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConversationChanges {
    /// For [`SessionOpening::state`](crate::agent::SessionOpening::state).
    pub state: Option<Bytes>,
    /// As [`Conversation::view`](crate::agent::Conversation::view).
    pub view: Option<Bytes>,
}

impl ConversationChanges {
    /// Those that may be kept, and the name of one that may not.
    pub(crate) fn bounded(mut self) -> (Self, Option<&'static str>) {
        let mut too_long = None;
        let fields = [
            ("view", &mut self.view, MAX_VIEW),
            ("state", &mut self.state, MAX_STATE),
        ];
        for (name, value, most) in fields {
            if value.as_ref().is_some_and(|value| value.len() > most) {
                *value = None;
                too_long = Some(name);
            }
        }
        (self, too_long)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_agent_wants_kept_has_a_length() {
        let changes = |state: usize, view: usize| ConversationChanges {
            state: Some(vec![b'x'; state].into()),
            view: Some(vec![b'x'; view].into()),
        };
        let fits = changes(MAX_STATE, MAX_VIEW);
        assert_eq!(fits.clone().bounded(), (fits, None));
        let (kept, named) = changes(MAX_STATE + 1, 5).bounded();
        assert_eq!((kept.state, named), (None, Some("state")));
        assert_eq!(kept.view, Some("xxxxx".into()));
        let (kept, named) = changes(5, MAX_VIEW + 1).bounded();
        assert_eq!((kept.view, named), (None, Some("view")));
        assert_eq!(kept.state, Some("xxxxx".into()));
    }
}
