//! Sessions that wait for a worker, and whether the leases among them say something.

use std::collections::HashMap;
use std::sync::Mutex;

use super::RedisStore;
use super::connection::ConnectionIdentity;
use super::reply::{self, ScriptReply};
use super::scripts::{ScriptCall, scripts};
use crate::id::Partition;
use crate::store::{DueSessions, Result};
use crate::sync::MutexExt as _;

/// Which connection answered last, by the key that was asked for. There is one for each partition
/// and agent of this process.
#[derive(Default)]
pub(super) struct AnsweringConnections(Mutex<HashMap<String, ConnectionIdentity>>);

impl AnsweringConnections {
    /// True if it is not the one that answered before.
    fn is_another(&self, key: String, answered: Option<ConnectionIdentity>) -> bool {
        let Some(now) = answered else {
            return true;
        };
        let before = self.0.locked().insert(key, now.clone());
        before.is_some_and(|before| before != now)
    }
}

impl RedisStore {
    pub(super) async fn due_sessions(
        &self,
        partition: Partition,
        agent: &str,
        limit: usize,
    ) -> Result<DueSessions> {
        let key = self.keys.due(partition, agent);
        let call = ScriptCall::new(&scripts().due)
            .key(key.clone())
            .num(limit as u64);
        let mut items = self.client.run_briefly(call).await?.items()?;
        // The one that answered, or one that has come since.
        let answered = self.client.connection_to(key.as_bytes());
        Ok(DueSessions {
            at: items.number()?,
            sessions: reply::sessions(ScriptReply(items.next()?))?,
            reconnected: self.answered.is_another(key, answered),
        })
    }
}
