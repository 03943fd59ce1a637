//! Handles messages of a caller that is at one of its limits.
//!
//! Only requests are refused, since they are answered: the answer says so, on the stream, and the client goes
//! on. Notifications and answers to the agent are let in, and so is a cancel: they end things.

use baton_protocol::{ErrorCode, Method};
use baton_session::command::CommandKind;
use baton_session::store::InboxAdmission;

use super::{Answer, Call, Message, Outcome, Problem};
use crate::limits::{Admitted, Refusal};
use crate::pass::Pass;

/// Whether the request has to be refused because of those before it. Asked once for each.
pub(super) fn hurry(pass: &Pass, message: &Message<'_>) -> Option<Refusal> {
    let allowance = pass.caller.allowance.as_ref()?;
    message.inbound.id()?;
    if message.inbound.method()?.rules().exempt_from_rate {
        return None;
    }
    message.over.or_else(|| allowance.request())
}

/// On what terms a command gets into an inbox.
pub(super) struct Entry {
    pub takes: InboxAdmission,
    refusal: Option<Refusal>,
    _admitted: Option<Admitted>,
}

impl Entry {
    pub fn barred(&self) -> Problem {
        match self.refusal {
            Some(refusal) => Problem::Limited(refusal),
            None => Problem::Rpc(ErrorCode::InternalError, "refused without a reason".into()),
        }
    }
}

impl Call<'_> {
    /// The inbox decides about commands: if one was accepted before, its client is not told that it
    /// was refused.
    pub(super) fn check_hurry(&self, method: Method) -> Result<(), Problem> {
        match self.hurry {
            Some(refusal) if !method.rules().queued => Err(Problem::Limited(refusal)),
            _ => Ok(()),
        }
    }

    pub(super) async fn entry(&self, kind: CommandKind) -> Result<Entry, Problem> {
        let (takes, refusal, admitted) = match (self.hurry, &self.pass.caller.allowance) {
            (Some(refusal), _) => (InboxAdmission::Repetitions, Some(refusal), None),
            (None, Some(allowance)) if kind == CommandKind::Prompt => {
                let stored = allowance.storage(&*self.app.store).await?;
                match (stored, allowance.turn(&*self.app.store).await?) {
                    (Err(refusal), _) => (InboxAdmission::Repetitions, Some(refusal), None),
                    (Ok(_), Ok(admitted)) => (InboxAdmission::Anything, None, admitted),
                    // More for a session that works is not one more that does.
                    (Ok(_), Err(refusal)) => (InboxAdmission::MoreWork, Some(refusal), None),
                }
            }
            _ => (InboxAdmission::Anything, None, None),
        };
        Ok(Entry {
            takes,
            refusal,
            _admitted: admitted,
        })
    }

    /// Whether the principal may have one more session; to be held until it has.
    pub(super) async fn check_sessions(&self) -> Result<Option<Admitted>, Problem> {
        let Some(allowance) = &self.pass.caller.allowance else {
            return Ok(None);
        };
        let stored = allowance.storage(&*self.app.store).await?;
        stored.map_err(Problem::Limited)?;
        let admitted = allowance.session(&*self.app.store).await?;
        admitted.map_err(Problem::Limited)
    }

    pub(super) fn refused(&self, refusal: Refusal) -> Outcome {
        self.app.metrics.limited(refusal.limit);
        Outcome::Answer(Answer {
            opens: None,
            message: refusal.answer(self.id()),
            key: self.key(),
            refusal: Some(refusal),
        })
    }
}
