//! The connection that carries commands. Every step is idempotent, so one whose outcome is unknown
//! is simply repeated: a Redis that restarts or fails over is waited for, within bounds.

use std::time::Duration;

use redis::aio::{ConnectionLike as _, ConnectionManager, ConnectionManagerConfig};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    Client, Cmd, ConnectionInfo, IntoConnectionInfo as _, ProtocolVersion, RedisError, RetryMethod,
};
use tokio::time::{Instant, sleep, timeout};

use super::reply::Reply;
use super::scripts::Call;
use crate::store::{Error, Result};

/// How long a request waits for a store that is away: a failover must not end every client.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a process waits for its store when it starts.
const START_PATIENCE: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);

const CLUSTER_SCHEME: &str = "redis+cluster://";
const STANDALONE_PARTITIONS: u16 = 16;
const CLUSTER_PARTITIONS: u16 = 64;

#[derive(Clone)]
pub(super) struct Link {
    pub servers: Servers,
    connection: Connection,
}

#[derive(Clone)]
pub(super) enum Servers {
    One(Box<ConnectionInfo>),
    Cluster(Vec<String>),
}

#[derive(Clone)]
enum Connection {
    One(ConnectionManager),
    Cluster(ClusterConnection),
}

impl Link {
    pub async fn connect(url: &str) -> Result<Self> {
        let servers = Servers::parse(url).map_err(Error::Broken)?;
        let deadline = Instant::now() + START_PATIENCE;
        let mut told = false;
        loop {
            match servers.connect().await {
                Ok(connection) => {
                    return Ok(Self {
                        servers,
                        connection,
                    });
                }
                Err(error) if Instant::now() > deadline => {
                    let safe = url.rsplit('@').next().unwrap_or_default();
                    return Err(Error::Unavailable(format!(
                        "Redis at {safe} does not answer ({error}); is it running, and is --store right?"
                    )));
                }
                Err(error) => {
                    if !told {
                        tracing::warn!(%error, "waiting for Redis");
                        told = true;
                    }
                    sleep(Duration::from_millis(250)).await;
                }
            }
        }
    }

    pub fn partitions(&self) -> u16 {
        match self.servers {
            Servers::One(_) => STANDALONE_PARTITIONS,
            Servers::Cluster(_) => CLUSTER_PARTITIONS,
        }
    }

    /// Asks once, without patience.
    pub async fn ping(&self) -> Result<()> {
        let ping = redis::cmd("PING");
        match timeout(Duration::from_secs(1), self.send(&ping)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(Error::Unavailable(error.to_string())),
            Err(_) => Err(Error::Unavailable("no answer within a second".into())),
        }
    }

    pub async fn run(&self, call: Call<'_>) -> Result<Reply> {
        self.patiently(&call.by_hash(), Some(&call)).await
    }

    pub async fn query(&self, command: &Cmd) -> Result<Reply> {
        self.patiently(command, None).await
    }

    async fn send(&self, command: &Cmd) -> std::result::Result<Reply, RedisError> {
        match self.connection.clone() {
            Connection::One(mut connection) => connection.req_packed_command(command).await,
            Connection::Cluster(mut connection) => connection.req_packed_command(command).await,
        }
        .and_then(|value| value.extract_error())
        .map(Reply)
    }

    /// Repeats until there is an answer or patience ends. A server that doesn't know the script of
    /// a call gets its text.
    async fn patiently(&self, command: &Cmd, script: Option<&Call<'_>>) -> Result<Reply> {
        let deadline = Instant::now() + PATIENCE;
        let mut pause = Duration::from_millis(10);
        loop {
            let mut tried = timeout(deadline - Instant::now(), self.send(command)).await;
            if let (Ok(Err(error)), Some(call)) = (&tried, script)
                && error.code() == Some("NOSCRIPT")
            {
                tried = timeout(deadline - Instant::now(), self.send(&call.by_text())).await;
            }
            let error = match tried {
                Ok(Ok(reply)) => return Ok(reply),
                Ok(Err(error)) if is_passing(&error) => error.to_string(),
                Ok(Err(error)) => return Err(Error::Broken(error.to_string())),
                Err(_) => "no answer".to_owned(),
            };
            if Instant::now() + pause >= deadline {
                return Err(Error::Unavailable(error));
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(250));
        }
    }
}

/// Worth another try: the network, a server that is starting, failing over or moving slots.
fn is_passing(error: &RedisError) -> bool {
    let codes = [
        "LOADING",
        "READONLY",
        "CLUSTERDOWN",
        "TRYAGAIN",
        "MASTERDOWN",
        "BUSY",
        "NOREPLICAS",
        "OOM",
        "MISCONF",
    ];
    error.is_io_error()
        || error.is_cluster_error()
        || error.code().is_some_and(|code| codes.contains(&code))
        || !matches!(error.retry_method(), RetryMethod::NoRetry)
}

impl Servers {
    pub fn parse(url: &str) -> std::result::Result<Self, String> {
        if let Some(hosts) = url.strip_prefix(CLUSTER_SCHEME) {
            return Ok(Self::Cluster(
                hosts
                    .split(',')
                    .map(|host| format!("redis://{host}"))
                    .collect(),
            ));
        }
        let info = url
            .into_connection_info()
            .map_err(|error| error.to_string())?;
        let redis = info
            .redis_settings()
            .clone()
            .set_protocol(ProtocolVersion::RESP3);
        let tcp = TcpSettings::default().set_nodelay(true);
        Ok(Self::One(Box::new(
            info.set_redis_settings(redis).set_tcp_settings(tcp),
        )))
    }

    async fn connect(&self) -> std::result::Result<Connection, RedisError> {
        match self {
            Self::One(info) => {
                let config = ConnectionManagerConfig::new()
                    .set_connection_timeout(Some(CONNECT_TIMEOUT))
                    .set_response_timeout(Some(RESPONSE_TIMEOUT))
                    .set_min_delay(Duration::from_millis(20))
                    .set_max_delay(Duration::from_millis(200))
                    .set_number_of_retries(1);
                let client = Client::open((**info).clone())?;
                client
                    .get_connection_manager_with_config(config)
                    .await
                    .map(Connection::One)
            }
            Self::Cluster(nodes) => {
                let client = cluster(nodes).build()?;
                client.get_async_connection().await.map(Connection::Cluster)
            }
        }
    }
}

pub(super) fn cluster(nodes: &[String]) -> ClusterClientBuilder {
    ClusterClientBuilder::new(nodes.to_vec())
        .use_protocol(ProtocolVersion::RESP3)
        .tcp_settings(TcpSettings::default().set_nodelay(true))
        .connection_timeout(CONNECT_TIMEOUT)
        .response_timeout(RESPONSE_TIMEOUT)
}
