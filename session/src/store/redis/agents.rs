//! Registered agents, and which of their workers are alive.

use std::time::Duration;

use futures_util::future::join_all;

use super::RedisStore;
use super::scripts::{ScriptCall, scripts};
use crate::id::Partition;
use crate::store::{AgentCard, Error, LogStore as _, PLACE_KEPT, Result, WorkerId};

/// An agent by its name.
pub(super) struct KnownAgent {
    pub name: String,
    /// `None` if only sessions of it have come, from elsewhere.
    pub card: Option<AgentCard>,
    /// How many are alive.
    pub workers: usize,
}

impl RedisStore {
    pub(super) async fn register_agent(
        &self,
        agent: &AgentCard,
        worker: &WorkerId,
        lasts: Duration,
    ) -> Result<()> {
        let card = serde_json::to_string(agent).map_err(|e| Error::Broken(e.to_string()))?;
        let call = ScriptCall::new(&scripts().register)
            .key(self.keys.agents())
            .key(self.keys.alive(&agent.name))
            .key(self.keys.came(&agent.name))
            .arg(&agent.name)
            .arg(&card)
            .arg(&*worker.0)
            .num(lasts.as_millis() as u64)
            .num(PLACE_KEPT.as_millis() as u64);
        self.run(call).await.map(drop)
    }

    pub(super) async fn known_agents(&self) -> Result<Vec<KnownAgent>> {
        let reply = self
            .run(ScriptCall::new(&scripts().agents).key(self.keys.agents()))
            .await?;
        let mut items = reply.items()?;
        let mut agents = Vec::new();
        while let Some(name) = items.next_text()? {
            let card = items.text()?;
            let card = if card.is_empty() {
                None
            } else {
                Some(serde_json::from_str(&card).map_err(|e| Error::Broken(e.to_string()))?)
            };
            let workers = items.number()? as usize;
            agents.push(KnownAgent {
                name,
                card,
                workers,
            });
        }
        agents.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(agents)
    }

    pub(super) async fn deserted_agents(&self) -> Result<Vec<String>> {
        let known = self.known_agents().await?.into_iter();
        let alone = known.filter(|agent| agent.workers == 0);
        Ok(alone.map(|agent| agent.name).collect())
    }

    pub(super) async fn waiting_sessions(&self, agent: &str) -> Result<u64> {
        let partitions = (0..self.partitions()).map(Partition);
        let counts = partitions.map(|partition| {
            let call = ScriptCall::new(&scripts().waiting).key(self.keys.due(partition, agent));
            self.run(call)
        });
        let counts = join_all(counts).await.into_iter();
        counts.map(|count| count?.optional_number()).sum()
    }

    pub(super) async fn mention_agent(&self, agent: &str) -> Result<()> {
        let call = ScriptCall::new(&scripts().mention)
            .key(self.keys.agents())
            .key(self.keys.alive(agent))
            .arg(agent);
        self.run(call).await.map(drop)
    }

    pub(super) async fn retire_agents(&self, unused: Duration) -> Result<()> {
        let call = ScriptCall::new(&scripts().retire)
            .key(self.keys.agents())
            .num(unused.as_millis() as u64);
        self.run(call).await.map(drop)
    }
}
