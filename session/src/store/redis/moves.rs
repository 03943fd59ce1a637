//! Sessions on their way from one store to another.

use super::RedisStore;
use super::scripts::{ScriptCall, scripts};
use crate::id::SessionId;
use crate::store::{
    AdoptRequest, ClaimToken, Claimant, MAX_FORK_DEPTH, Result, SessionRecord, SessionSetup,
};

impl RedisStore {
    pub(super) async fn record_of(
        &self,
        session: &SessionId,
        principal: &str,
    ) -> Result<Option<SessionRecord>> {
        let call = ScriptCall::new(&scripts().record)
            .key(self.keys.session(session))
            .key(self.keys.frozen(session))
            .arg(session.as_str())
            .arg(principal);
        let mut items = self.run(call).await?.items()?;
        if items.is_empty() {
            return Ok(None);
        }
        Ok(Some(SessionRecord {
            agent: items.text()?,
            cwd: items.text()?,
            params: items.bytes()?,
            setup: SessionSetup {
                mcp_servers: items.optional_bytes()?,
                directories: items.optional_bytes()?,
            },
            state: items.bytes()?,
            view: items.bytes()?,
            title: items.text()?,
            usage: items.bytes()?,
            bound: items.bytes()?,
            head: items.number()?,
            updated: items.number()?,
            began: items.text()?.parse().ok(),
            shown: items
                .optional_bytes()?
                .map(|line| String::from_utf8_lossy(&line).into_owned()),
        }))
    }

    /// Nobody builds on it before it is published, and that lasts.
    pub(super) async fn adopt_session(
        &self,
        adoption: &AdoptRequest,
        claimant: &Claimant,
    ) -> Result<bool> {
        let record = &adoption.record;
        let mut call = ScriptCall::new(&scripts().adopt).key(self.keys.session(&adoption.id));
        if let Some(shared) = &adoption.shares {
            call = call
                .key(self.keys.lineage(&adoption.id))
                .key(self.keys.forks(&shared.with));
        }
        let mut call = call
            .arg(adoption.id.as_str())
            .arg(&adoption.principal)
            .arg(&record.agent)
            .arg(&record.cwd)
            .arg(&record.params)
            .setup(&record.setup)
            .arg(&record.state)
            .arg(&record.view)
            .arg(&record.title)
            .arg(&record.usage)
            .arg(&record.bound)
            .num(record.updated)
            .arg(&*claimant.token.0)
            .arg(&*claimant.worker.0)
            .num(claimant.lease.as_millis() as u64);
        if let Some(shared) = &adoption.shares {
            call = call
                .arg(shared.with.as_str())
                .num(shared.upto)
                .num(MAX_FORK_DEPTH as u64);
        }
        // Before there is anything to wait for.
        self.mention_agent(&record.agent).await?;
        Ok(self.run(call).await?.optional_number()? == 1)
    }

    pub(super) async fn publish_session(
        &self,
        session: &SessionId,
        token: &ClaimToken,
    ) -> Result<bool> {
        let call = ScriptCall::new(&scripts().publish)
            .key(self.keys.session(session))
            .arg(session.as_str())
            .arg(&*token.0);
        Ok(self.run_durably(call).await?.optional_number()? == 1)
    }
}
