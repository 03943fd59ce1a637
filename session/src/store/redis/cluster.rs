//! The way to the nodes of a Cluster: each command goes to the node that has its key's slot, on
//! that node's own connection. A node that says that the slot is elsewhere is believed; one that
//! says nothing delays nobody but those who need it.

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use redis::{Cmd, ErrorKind, Pipeline, RedisError, Value};

use super::connection::ConnectionIdentity;
use super::fault;
use super::server_connection::{NodeConnections, ServerConnection};
use super::servers::ServerAddress;
use super::slot_map::{redirected, slot_of};
use super::slots::ClusterSlots;

/// More than that on one way means that nodes do not agree: later they will.
const MAX_REDIRECTS: usize = 5;

pub(super) struct ClusterConnection {
    slots: Arc<ClusterSlots>,
    connections: NodeConnections,
}

enum SlotRedirect {
    /// For good.
    Moved(ServerAddress),
    /// Only this time: the slot is on its way there.
    Ask(ServerAddress),
}

impl SlotRedirect {
    fn of(error: &RedisError, from: &ServerAddress) -> Option<Self> {
        let (to, _) = error.redirect_node()?;
        let to = redirected(to, from)?;
        match error.code() {
            Some("ASK") => Some(Self::Ask(to)),
            _ => Some(Self::Moved(to)),
        }
    }
}

impl ClusterConnection {
    pub async fn open(slots: &Arc<ClusterSlots>) -> Result<Self, Arc<RedisError>> {
        if !slots.map().is_known() {
            slots.ask().await?;
        }
        Ok(Self {
            slots: slots.clone(),
            connections: NodeConnections::new(slots.login().clone()),
        })
    }

    pub async fn send(&self, command: &Cmd, key: &[u8]) -> Result<Value, Arc<RedisError>> {
        let slot = slot_of(key);
        let mut node = self.slots.owner(slot)?;
        let mut answer = self.connections.to(&node).send(command).await;
        for _ in 0..MAX_REDIRECTS {
            let Err(error) = &answer else {
                return answer;
            };
            match self.follow_redirect(error, slot, &node) {
                None => return answer,
                Some(SlotRedirect::Moved(to)) => {
                    answer = self.connections.to(&to).send(command).await;
                    node = to;
                }
                Some(SlotRedirect::Ask(to)) => {
                    answer = self.connections.to(&to).send_asking(command).await;
                    node = to;
                }
            }
        }
        answer
    }

    /// The connection to the node that has the key.
    pub fn identity(&self, key: &[u8]) -> Option<ConnectionIdentity> {
        let node = self.slots.owner(slot_of(key)).ok()?;
        Some(ConnectionIdentity {
            number: self.connections.to(&node).number(),
            node: Some(node),
        })
    }

    /// All to one node, in order. Errors of single commands are among the values: what a node has
    /// redirected goes the right way when it is repeated.
    pub async fn send_all(
        &self,
        commands: &Pipeline,
        key: &[u8],
    ) -> Result<Vec<Value>, Arc<RedisError>> {
        let slot = slot_of(key);
        let node = self.slots.owner(slot)?;
        let answers = self.connections.to(&node).send_all(commands).await;
        match &answers {
            Err(error) => _ = self.follow_redirect(error, slot, &node),
            Ok(answers) => {
                for answer in answers {
                    if let Value::ServerError(error) = answer {
                        self.follow_redirect(&error.clone().into(), slot, &node);
                    }
                }
            }
        }
        answers
    }

    /// The first answer of a primary that has one.
    pub async fn ask(&self, command: &Cmd) -> Result<Value, Arc<RedisError>> {
        let primaries = self.primaries();
        let mut asked: FuturesUnordered<_> = primaries
            .iter()
            .map(|(_, connection)| connection.send(command))
            .collect();
        let mut failure = RedisError::from((ErrorKind::Io, "the Cluster has no primary")).into();
        while let Some(answer) = asked.next().await {
            match answer {
                Ok(value) => return Ok(value),
                Err(error) => failure = error,
            }
        }
        self.slots.request_refresh();
        Err(failure)
    }

    /// The answers of all primaries, by address.
    pub async fn ask_primaries(
        &self,
        command: &Cmd,
    ) -> Result<Vec<(String, Value)>, Arc<RedisError>> {
        let primaries = self.primaries();
        let asked = primaries
            .iter()
            .map(|((host, port), connection)| async move {
                Ok((format!("{host}:{port}"), connection.send(command).await?))
            });
        let answers: Result<_, Arc<RedisError>> = join_all(asked).await.into_iter().collect();
        if answers.is_err() {
            self.slots.request_refresh();
        }
        answers
    }

    fn primaries(&self) -> Vec<(ServerAddress, Arc<ServerConnection>)> {
        let map = self.slots.map();
        let primaries = map.primaries().into_iter();
        primaries
            .map(|node| (node.clone(), self.connections.to(node)))
            .collect()
    }

    /// Where to go instead, if the error says so; if it means that slots may have moved, that is
    /// found out.
    fn follow_redirect(
        &self,
        error: &RedisError,
        slot: u16,
        from: &ServerAddress,
    ) -> Option<SlotRedirect> {
        let redirect = SlotRedirect::of(error, from);
        match &redirect {
            Some(SlotRedirect::Moved(to)) => self.slots.learn(slot, to),
            Some(SlotRedirect::Ask(_)) => {}
            None if fault::breaks(error) || error.code() == Some("CLUSTERDOWN") => {
                self.slots.request_refresh();
            }
            None => {}
        }
        redirect
    }
}
