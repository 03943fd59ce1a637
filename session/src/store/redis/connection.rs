//! A connection that carries commands, to one server or to all of a Cluster.

use std::sync::Arc;

use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{
    MultipleNodeRoutingInfo, Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr,
};
use redis::{Cmd, Pipeline, RedisError, Value, aio::ConnectionLike as _, from_redis_value};

use super::line::Line;
use super::servers::{Kind, Servers};

#[derive(Clone)]
pub(super) enum Connection {
    One(Arc<Line>),
    Cluster(ClusterConnection),
}

impl Connection {
    pub async fn open(servers: &Servers) -> Result<Self, Arc<RedisError>> {
        if let Kind::Cluster(nodes) = &servers.kind {
            let client = servers.cluster(nodes).build()?;
            return Ok(Self::Cluster(client.get_async_connection().await?));
        }
        let line = Line::new(servers.clone());
        line.send(&redis::cmd("PING")).await?;
        Ok(Self::One(Arc::new(line)))
    }

    pub async fn send(&self, command: &Cmd) -> Result<Value, Arc<RedisError>> {
        match self {
            Self::One(line) => line.send(command).await,
            Self::Cluster(nodes) => {
                let answer = nodes.clone().req_packed_command(command).await;
                Ok(answer.and_then(Value::extract_error)?)
            }
        }
    }

    /// All to the server that has the key, on one connection and in order. Errors of single commands
    /// are among the values.
    pub async fn send_all(
        &self,
        commands: &Pipeline,
        key: &str,
    ) -> Result<Vec<Value>, Arc<RedisError>> {
        match self {
            Self::One(line) => line.send_all(commands).await,
            Self::Cluster(nodes) => {
                let route = Route::with_key(key, SlotAddr::Master);
                let route = SingleNodeRoutingInfo::SpecificNode(route);
                let count = commands.len();
                let mut nodes = nodes.clone();
                Ok(nodes
                    .route_pipeline(commands.clone(), 0, count, route)
                    .await?)
            }
        }
    }

    /// The text that each primary answers with, by its address.
    pub async fn ask_primaries(
        &self,
        command: &Cmd,
    ) -> Result<Vec<(String, String)>, Arc<RedisError>> {
        match self {
            Self::One(line) => {
                let answer = from_redis_value(line.send(command).await?).map_err(RedisError::from);
                Ok(vec![(String::new(), answer?)])
            }
            Self::Cluster(nodes) => {
                let all = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
                let answer = nodes.clone().route_command(command.clone(), all).await?;
                Ok(from_redis_value(answer).map_err(RedisError::from)?)
            }
        }
    }
}
