//! Sends commands to one server or to all nodes of a Cluster.

use std::sync::Arc;

use redis::{Cmd, Pipeline, RedisError, Value, from_redis_value};

use super::cluster::ClusterConnection;
use super::server_connection::ServerConnection;
use super::servers::{RedisServers, ServerKind};

#[derive(Clone)]
pub(super) enum RedisConnection {
    One(Arc<ServerConnection>),
    Cluster(Arc<ClusterConnection>),
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
