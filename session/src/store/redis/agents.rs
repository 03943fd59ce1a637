//! What workers run, and which of them are alive.

use super::RedisStore;
use super::scripts::{Call, scripts};
use crate::store::{AgentCard, Error, HEARTBEAT, Result, WorkerId};

impl RedisStore {
    pub(super) async fn register_agent(&self, agent: &AgentCard, worker: &WorkerId) -> Result<()> {
        let card = serde_json::to_string(agent).map_err(|e| Error::Broken(e.to_string()))?;
        let call = Call::new(&scripts().register)
            .key(self.keys.agents())
            .key(self.keys.alive(&agent.name))
            .arg(&agent.name)
            .arg(&card)
            .arg(&*worker.0)
            .num((HEARTBEAT * 3).as_millis() as u64);
        self.run(call).await.map(drop)
    }

    pub(super) async fn all_agents(&self) -> Result<Vec<(AgentCard, usize)>> {
        let reply = self
            .run(Call::new(&scripts().agents).key(self.keys.agents()))
            .await?;
        let mut items = reply.items()?;
        let mut agents = Vec::new();
        while let Some(card) = items.next_text()? {
            let card = serde_json::from_str(&card).map_err(|e| Error::Broken(e.to_string()))?;
            agents.push((card, items.number()? as usize));
        }
        Ok(agents)
    }
}
