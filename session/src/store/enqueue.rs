//! A command on its way into an inbox, and what became of it.

use std::borrow::Cow;

use crate::command::{Command, CommandId, IdempotencyKey};
use crate::id::SessionId;
use crate::route::DeliveryPath;

#[derive(Clone, Debug)]
pub struct EnqueueRequest {
    pub session: SessionId,
    pub principal: String,
    pub command: Command,
    pub key: IdempotencyKey,
    /// The answer travels in the body of this POST.
    pub one_shot: bool,
    /// The caller has posted an [`Event::Watch`](crate::event::Event) for this session just now.
    pub watched: bool,
    /// Commands that may wait in this inbox.
    pub limit: u64,
    /// Only if the session knows the request with this idempotency key; else it is not found.
    pub about: Option<String>,
    pub takes: InboxAdmission,
    /// [`GatewayStore::session_of`](crate::store::GatewayStore::session_of) has to find it.
    pub findable: bool,
}

/// Which commands an inbox accepts: of a caller that is at a limit, or for a session as its caller
/// knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InboxAdmission {
    #[default]
    Anything,
    /// Only a session that has work gets more.
    MoreWork,
    /// Only what is known already: it is joined.
    Repetitions,
    /// Only if nothing waits or runs, and the log ends with this event: who asks has read it to its
    /// end, and nobody else has asked for anything since.
    AtRest(u64),
}

impl InboxAdmission {
    pub fn to_text(self) -> Cow<'static, str> {
        match self {
            Self::Anything => "a".into(),
            Self::MoreWork => "w".into(),
            Self::Repetitions => "r".into(),
            Self::AtRest(head) => head.to_string().into(),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum EnqueueOutcome {
    /// `head` is the log's end when the command was accepted: its events come after.
    Accepted {
        command: CommandId,
        head: u64,
        via: DeliveryPath,
    },
    /// The same request again: it is already waiting, running or answered.
    Joined {
        command: CommandId,
        head: u64,
        via: DeliveryPath,
    },
    Conflict,
    /// No such session for this principal.
    NotFound,
    /// It was closed, and nobody has loaded or resumed it since. Only cancels, answers and another
    /// close are taken.
    Closed,
    /// It is not what [`EnqueueRequest::takes`] lets in.
    Barred,
    Full,
    /// The answer would go to the connection stream, whose holder doesn't tail this session: post
    /// an [`Event::Watch`](crate::event::Event) after `head`, then call again with `watched`.
    Unwatched {
        head: u64,
    },
}
