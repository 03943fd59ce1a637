//! Handles messages of a caller that is at one of its limits.
//!
//! Only requests are refused, since they are answered: the answer says so, on the stream, and the
//! client goes on. Notifications and answers to the agent are let in, and so is a cancel: they end
//! things.

use baton_protocol::Method;
use baton_session::command::CommandKind;
use baton_session::store::InboxAdmission;

use super::{ClientMessage, MethodAnswer, MethodCall, MethodError, MethodOutcome};
use crate::access::RequestAccess;
use crate::limits::{LimitRefusal, QuotaReservation};

/// Whether the request has to be refused because of those before it. Asked once for each.
pub(super) fn over_rate(
    access: &RequestAccess,
    message: &ClientMessage<'_>,
) -> Option<LimitRefusal> {
    let allowance = access.caller.allowance.as_ref()?;
    message.inbound.id()?;
    if message.door.is_some_and(|door| door.counted) {
        return None;
    }
    if message.inbound.method()?.rules().exempt_from_rate {
        return None;
    }
    message.over_bytes.or_else(|| allowance.request())
}

/// On what terms a command gets into an inbox.
pub(super) struct InboxTerms {
    pub takes: InboxAdmission,
    refusal: Option<LimitRefusal>,
    _admitted: Option<QuotaReservation>,
}

impl InboxTerms {
    /// `None` if the caller is at no limit.
    pub fn refusal_error(&self) -> Option<MethodError> {
        self.refusal.map(MethodError::Limited)
    }
}

impl MethodCall<'_> {
    /// The inbox decides about commands: if one was accepted before, its client is not told that it
    /// was refused.
    pub(super) fn check_rate(&self, method: Method) -> Result<(), MethodError> {
        match self.over_rate {
            Some(refusal) if !method.rules().queued => Err(MethodError::Limited(refusal)),
            _ => Ok(()),
        }
    }

    pub(super) async fn inbox_terms(&self, kind: CommandKind) -> Result<InboxTerms, MethodError> {
        let (takes, refusal, admitted) = match (self.over_rate, &self.access.caller.allowance) {
            (Some(refusal), _) => (InboxAdmission::Repetitions, Some(refusal), None),
            (None, Some(allowance)) if kind == CommandKind::Prompt => {
                let stored = allowance.storage(&*self.services.store).await?;
                match (stored, allowance.turn(&*self.services.store).await?) {
                    (Err(refusal), _) => (InboxAdmission::Repetitions, Some(refusal), None),
                    (Ok(_), Ok(admitted)) => (InboxAdmission::Anything, None, admitted),
                    // More for a session that works is not one more that does.
                    (Ok(_), Err(refusal)) => (InboxAdmission::MoreWork, Some(refusal), None),
                }
            }
            _ => (InboxAdmission::Anything, None, None),
        };
        Ok(InboxTerms {
            takes,
            refusal,
            _admitted: admitted,
        })
    }

    /// Whether the principal may have one more session; to be held until it has.
    pub(super) async fn check_sessions(&self) -> Result<Option<QuotaReservation>, MethodError> {
        let Some(allowance) = &self.access.caller.allowance else {
            return Ok(None);
        };
        let stored = allowance.storage(&*self.services.store).await?;
        stored.map_err(MethodError::Limited)?;
        let admitted = allowance.session(&*self.services.store).await?;
        admitted.map_err(MethodError::Limited)
    }

    pub(super) fn refused(&self, refusal: LimitRefusal) -> MethodOutcome {
        self.services.metrics.limited(refusal.limit);
        MethodOutcome::Answer(MethodAnswer {
            opens: None,
            message: refusal.answer(self.id()),
            key: self.key(),
            refusal: Some(refusal),
        })
    }
}
