//! Sessions that wait for a worker, and whether the leases among them say something.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use super::RedisStore;
use super::connection::ConnectionIdentity;
use super::reply::{self, ScriptReply};
use super::scripts::{ScriptCall, scripts};
use crate::id::Partition;
use crate::store::{DueSessions, Result, WorkerId};
use crate::sync::MutexExt as _;

/// A worker looks every second. One that stands still is not told of sessions for longer than this.
const OFFER_COUNTS: Duration = Duration::from_secs(5);

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

/// What a worker of this process has room for. It is told with every look at what is due.
#[derive(Default)]
pub(super) struct OfferedRoom(Mutex<Option<WorkerOffer>>);

struct WorkerOffer {
    agent: String,
    worker: WorkerId,
    sessions: u64,
}

impl OfferedRoom {
    pub fn set(&self, agent: &str, worker: &WorkerId, sessions: u64) {
        *self.0.locked() = Some(WorkerOffer {
            agent: agent.to_owned(),
            worker: worker.clone(),
            sessions,
        });
    }

    fn of(&self, agent: &str) -> Option<(WorkerId, u64)> {
        let offer = self.0.locked();
        let offer = offer.as_ref().filter(|offer| offer.agent == agent)?;
        Some((offer.worker.clone(), offer.sessions))
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
        let offer = self.offered_room.of(agent);
        let worker = offer.as_ref().map_or("", |(worker, _)| &worker.0);
        let call = ScriptCall::new(&scripts().due)
            .key(key.clone())
            .key(self.keys.room(partition, agent))
            .key(self.keys.asked(partition, agent))
            .num(limit as u64)
            .arg(worker)
            .num(offer.as_ref().map_or(0, |(_, sessions)| *sessions))
            .num(OFFER_COUNTS.as_millis() as u64);
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
