//! The usage of a principal, counted over all partitions.

use futures_util::future::try_join_all;

use super::RedisStore;
use super::scripts::{ScriptCall, scripts};
use crate::id::Partition;
use crate::store::{PrincipalUsage, Result};

impl RedisStore {
    pub(super) async fn usage_of(&self, principal: &str) -> Result<PrincipalUsage> {
        let agents = self.known_agents().await?;
        // One multiplexed connection to each server: these travel together.
        let counted = (0..self.client.partitions())
            .map(Partition)
            .map(|partition| {
                let list = self.keys.list(partition, principal, None);
                let account = self.keys.account(partition, principal);
                let mut call = ScriptCall::new(&scripts().usage).key(list).key(account);
                for agent in &agents {
                    call = call.key(self.keys.due(partition, &agent.name));
                }
                async {
                    let mut items = self.run(call).await?.items()?;
                    Ok(PrincipalUsage {
                        sessions: items.number()?,
                        turns: items.number()?,
                        stored: items.number()?,
                    })
                }
            });
        let counted = try_join_all(counted).await?;
        Ok(counted
            .into_iter()
            .fold(PrincipalUsage::default(), |sum, of| PrincipalUsage {
                sessions: sum.sessions + of.sessions,
                turns: sum.turns + of.turns,
                stored: sum.stored + of.stored,
            }))
    }
}
