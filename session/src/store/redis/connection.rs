//! Sends commands to one server or to all nodes of a Cluster.

use std::sync::Arc;

use redis::{Cmd, Pipeline, RedisError, Value, from_redis_value};

use super::cluster::ClusterConnection;
use super::server_connection::ServerConnection;
use super::servers::{RedisServers, ServerAddress, ServerKind};

#[derive(Clone)]
pub(super) enum RedisConnection {
    One(Arc<ServerConnection>),
    Cluster(Arc<ClusterConnection>),
}

/// Tells connections apart: which of them it is, and of which node of a Cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConnectionIdentity {
    pub node: Option<ServerAddress>,
    pub number: u64,
}

impl RedisConnection {
    pub async fn open(servers: &RedisServers) -> Result<Self, Arc<RedisError>> {
        let connection = match &servers.kind {
            ServerKind::Cluster(slots) => {
                Self::Cluster(Arc::new(ClusterConnection::open(slots).await?))
            }
            _ => Self::One(Arc::new(ServerConnection::to_primary(servers.clone()))),
        };
        connection.ask(&redis::cmd("PING")).await?;
        Ok(connection)
    }

    /// To the server that has the key.
    pub async fn send(&self, command: &Cmd, key: &[u8]) -> Result<Value, Arc<RedisError>> {
        match self {
            Self::One(connection) => connection.send(command).await,
            Self::Cluster(cluster) => cluster.send(command, key).await,
        }
    }

    /// The connection to the server that has the key, or the last one; `None` if no node has it.
    pub fn identity(&self, key: &[u8]) -> Option<ConnectionIdentity> {
        match self {
            Self::One(connection) => Some(ConnectionIdentity {
                node: None,
                number: connection.number(),
            }),
            Self::Cluster(cluster) => cluster.identity(key),
        }
    }

    /// All to the server that has the key, on one connection and in order. Errors of single
    /// commands are among the values.
    pub async fn send_all(
        &self,
        commands: &Pipeline,
        key: &[u8],
    ) -> Result<Vec<Value>, Arc<RedisError>> {
        match self {
            Self::One(connection) => connection.send_all(commands).await,
            Self::Cluster(cluster) => cluster.send_all(commands, key).await,
        }
    }

    /// For commands that any primary can answer.
    pub async fn ask(&self, command: &Cmd) -> Result<Value, Arc<RedisError>> {
        match self {
            Self::One(connection) => connection.send(command).await,
            Self::Cluster(cluster) => cluster.ask(command).await,
        }
    }

    /// The text that each primary answers with, by its address.
    pub async fn ask_primaries(
        &self,
        command: &Cmd,
    ) -> Result<Vec<(String, String)>, Arc<RedisError>> {
        let answers = match self {
            Self::One(connection) => vec![(String::new(), connection.send(command).await?)],
            Self::Cluster(cluster) => cluster.ask_primaries(command).await?,
        };
        let text = |(at, answer)| {
            let text = from_redis_value(answer).map_err(RedisError::from)?;
            Ok((at, text))
        };
        answers.into_iter().map(text).collect()
    }
}
