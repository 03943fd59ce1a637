//! Sessions that were deleted, and what becomes of them.

use std::time::Duration;

use super::scripts::{ScriptCall, scripts};
use super::{RedisStore, command_nonce};
use crate::command::Command;
use crate::id::SessionId;
use crate::store::{DELETED_FOR, Result, TidyPolicy};

impl RedisStore {
    pub(super) async fn delete_session(
        &self,
        session: &SessionId,
        principal: &str,
        end: &Command,
    ) -> Result<bool> {
        let (head, nonce) = (end.head(), command_nonce());
        let call = ScriptCall::new(&scripts().delete)
            .key(self.keys.session(session))
            .key(self.keys.frozen(session))
            .arg(session.as_str())
            .arg(principal)
            .arg(&head)
            .arg(&end.message)
            .arg(&nonce);
        Ok(self.run_durably(call).await?.optional_number()? == 1)
    }

    pub(super) async fn expire(&self, session: &SessionId, when: &TidyPolicy) -> Result<bool> {
        let nonce = command_nonce();
        let call = ScriptCall::new(&scripts().expire)
            .key(self.keys.session(session))
            .key(self.keys.parties(session))
            .arg(session.as_str())
            .num(when.unused.as_millis() as u64)
            .arg(&nonce);
        Ok(self.run(call).await?.optional_number()? == 1)
    }

    pub(super) async fn purge(&self, session: &SessionId, when: &TidyPolicy) -> Result<bool> {
        let call = ScriptCall::new(&scripts().purge)
            .key(self.keys.session(session))
            .arg(session.as_str())
            .num(kept_for(when).as_millis() as u64);
        Ok(self.run(call).await?.optional_number()? == 1)
    }
}

/// Nothing is kept longer for having been deleted.
pub(super) fn kept_for(when: &TidyPolicy) -> Duration {
    DELETED_FOR.min(when.unused)
}
