//! What a principal has, counted over all partitions.

use futures_util::future::try_join_all;

use super::RedisStore;
use super::scripts::{Call, scripts};
use crate::id::Partition;
use crate::store::{Result, Store as _, Usage};

impl RedisStore {
    pub(super) async fn usage_of(&self, principal: &str) -> Result<Usage> {
        // Sessions of agents that nobody has ever run have no turns.
        let agents = self.agents().await?;
        // One multiplexed connection to each server: these travel together.
        let counted = (0..self.link.partitions()).map(Partition).map(|partition| {
            let list = self.keys.list(partition, principal, None);
            let mut call = Call::new(&scripts().usage).key(list);
            for (agent, _) in &agents {
                call = call.key(self.keys.due(partition, &agent.name));
            }
            async {
                let mut items = self.run(call).await?.items()?;
                Ok(Usage {
                    sessions: items.number()?,
                    turns: items.number()?,
                })
            }
        });
        let counted = try_join_all(counted).await?;
        Ok(counted.into_iter().fold(Usage::default(), |sum, of| Usage {
            sessions: sum.sessions + of.sessions,
            turns: sum.turns + of.turns,
        }))
    }
}
