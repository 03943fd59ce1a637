//! A child that shares its parent's log: one step, however long that is. Only its lineage is
//! written, which says where its ancestors have what it inherits; see `read.lua` for the way back.

use super::RedisStore;
use super::reply;
use super::scripts::{ScriptCall, scripts};
use crate::store::{ForkOutcome, ForkRequest, MAX_FORK_DEPTH, Result};

impl RedisStore {
    pub(super) async fn fork_session(&self, fork: &ForkRequest) -> Result<ForkOutcome> {
        let (k, child) = (&self.keys, &fork.child);
        let cut = fork.at.as_ref().map(|cut| cut.upto.to_string());
        let view = fork.at.as_ref().map(|cut| cut.view.clone());
        let (cut, view) = (cut.unwrap_or_default(), view.unwrap_or_default());
        let call = ScriptCall::new(&scripts().fork)
            .key(k.session(&fork.parent))
            .key(k.session(child))
            .key(k.parties(child))
            .key(k.lineage(child))
            .key(k.forks(&fork.parent))
            .arg(fork.parent.as_str())
            .arg(child.as_str())
            .arg(&fork.principal)
            .arg(fork.connection.as_str())
            .arg(&fork.cwd)
            .num(MAX_FORK_DEPTH as u64)
            .setup(&fork.setup)
            .arg(&cut)
            .arg(&view)
            .num(fork.inherit_bindings.into())
            .num(fork.only_open.into());
        let mut items = self.run_durably(call).await?.items()?;
        match items.text()?.as_str() {
            "done" => Ok(ForkOutcome::Done {
                head: items.number()?,
                view: items.bytes()?,
            }),
            "notfound" => Ok(ForkOutcome::NotFound),
            "closed" => Ok(ForkOutcome::Closed),
            "nosuchcut" => Ok(ForkOutcome::NoSuchCut),
            "toodeep" => Ok(ForkOutcome::TooDeep),
            other => Err(reply::unexpected(other)),
        }
    }
}
