//! Sentinels know which server is the primary. They are asked whenever a connection is made, and
//! every few seconds, since a failover need not break a connection to the old primary.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use redis::aio::{ConnectionLike as _, MultiplexedConnection};
use redis::{AsyncConnectionConfig, ErrorKind, RedisError, Value, from_redis_value};
use tokio::sync::{Mutex, watch};
use tokio::time::{sleep, timeout};

use super::login::ServerLogin;
use super::replicas;
use super::servers::{ServerAddress, config};

/// How often the sentinels are asked without an occasion.
const ASK_EVERY: Duration = Duration::from_secs(2);
/// A sentinel that takes longer to name the replicas is not waited for.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

pub(super) struct SentinelGroup {
    /// The name of the primary at the sentinels.
    name: String,
    nodes: Vec<SentinelNode>,
    /// How to log in at the primary, whatever its address.
    primary: ServerLogin,
    known: watch::Sender<Option<ServerAddress>>,
}

struct SentinelNode {
    login: ServerLogin,
    connection: Mutex<Option<MultiplexedConnection>>,
}

impl SentinelGroup {
    pub fn new(name: &str, sentinels: Vec<ServerLogin>, primary: ServerLogin) -> Self {
        let nodes = sentinels.into_iter().map(|login| SentinelNode {
            login,
            connection: Mutex::default(),
        });
        Self {
            name: name.to_owned(),
            nodes: nodes.collect(),
            primary,
            known: watch::Sender::new(None),
        }
    }

    pub fn login(&self) -> &ServerLogin {
        &self.primary
    }

    /// Asks now and then who is the primary; ends with the last owner.
    pub fn follow(self: &Arc<Self>) {
        async fn follow(sentinels: Weak<SentinelGroup>) {
            loop {
                sleep(ASK_EVERY).await;
                let Some(sentinels) = sentinels.upgrade() else {
                    return;
                };
                // Without an answer everything stays as it is.
                let _ = sentinels.ask().await;
            }
        }
        tokio::spawn(follow(Arc::downgrade(self)));
    }

    /// A connection to the primary, which has to agree that it is one: a sentinel may be late.
    pub async fn dial(
        &self,
        config: &AsyncConnectionConfig,
    ) -> Result<(MultiplexedConnection, Option<ServerAddress>), RedisError> {
        let address = self.ask().await?;
        let mut connection = self.primary.at(&address).dial(config).await?;
        let role = connection.req_packed_command(&redis::cmd("ROLE")).await?;
        if !is_primary(&role) {
            return Err(RedisError::from((
                ErrorKind::Io,
                "the sentinels name a server that is not a primary yet",
            )));
        }
        Ok((connection, Some(address)))
    }

    pub async fn moved(&self, from: Option<&ServerAddress>) {
        let mut known = self.known.subscribe();
        // Fails only without a sender, and that is us.
        let _ = known.wait_for(|primary| primary.as_ref() != from).await;
    }

    /// The replicas that may be promoted, as far as any sentinel knows. `None` if most sentinels do
    /// not answer in time: those that are silent may be promoting one that the others do not reach.
    pub async fn replicas(&self) -> Option<BTreeSet<String>> {
        let mut asked: FuturesUnordered<_> = self
            .nodes
            .iter()
            .map(|node| timeout(ANSWERS_WITHIN, node.replicas(&self.name)))
            .collect();
        let (mut answers, mut known) = (0, BTreeSet::new());
        while let Some(answer) = asked.next().await {
            match answer {
                Ok(Ok(replicas)) => {
                    answers += 1;
                    known.extend(replicas);
                }
                Ok(Err(error)) => tracing::warn!(%error, "a sentinel does not name the replicas"),
                Err(_) => tracing::warn!("a sentinel does not answer"),
            }
        }
        (answers * 2 > self.nodes.len()).then_some(known)
    }

    pub fn is_primary(&self, address: Option<&ServerAddress>) -> bool {
        self.known.borrow().as_ref() == address
    }

    /// The address that most sentinels name: one that was cut off may still name the old one. Those
    /// that don't answer are not waited for once the others agree.
    async fn ask(&self) -> Result<ServerAddress, RedisError> {
        let mut asked: FuturesUnordered<_> =
            self.nodes.iter().map(|node| node.ask(&self.name)).collect();
        let mut votes: HashMap<ServerAddress, usize> = HashMap::new();
        let mut failure = RedisError::from((ErrorKind::Io, "there is no sentinel"));
        while let Some(answer) = asked.next().await {
            match answer {
                Ok(address) => *votes.entry(address).or_default() += 1,
                Err(error) => failure = error,
            }
            if votes.values().any(|votes| votes * 2 > self.nodes.len()) {
                break;
            }
        }
        let Some((address, _)) = votes.into_iter().max_by_key(|(_, votes)| *votes) else {
            return Err(failure);
        };
        self.known.send_if_modified(|known| {
            let moved = known.as_ref() != Some(&address);
            if moved {
                if known.is_some() {
                    tracing::info!(
                        host = address.0,
                        port = address.1,
                        "Redis has a new primary"
                    );
                }
                *known = Some(address.clone());
            }
            moved
        });
        Ok(address)
    }
}

impl SentinelNode {
    async fn ask(&self, name: &str) -> Result<ServerAddress, RedisError> {
        let answer = self.question("GET-MASTER-ADDR-BY-NAME", name).await?;
        from_redis_value::<Option<(String, u16)>>(answer)?.ok_or_else(|| {
            let what = "the sentinels know no such primary";
            let kind = ErrorKind::MasterNameNotFoundBySentinel;
            RedisError::from((kind, what, name.to_owned()))
        })
    }

    async fn replicas(&self, name: &str) -> Result<Vec<String>, RedisError> {
        let answer = self.question("REPLICAS", name).await?;
        let known: Vec<HashMap<String, String>> = from_redis_value(answer)?;
        Ok(known
            .iter()
            .filter_map(replica_that_may_be_promoted)
            .collect())
    }

    async fn question(&self, what: &str, name: &str) -> Result<Value, RedisError> {
        let mut place = self.connection.lock().await;
        let mut connection = match place.take() {
            Some(connection) => connection,
            None => self.login.dial(&config()).await?,
        };
        let mut question = redis::cmd("SENTINEL");
        question.arg(what).arg(name);
        let answer = connection
            .req_packed_command(&question)
            .await
            .and_then(Value::extract_error)?;
        // Kept only while it answers.
        *place = Some(connection);
        Ok(answer)
    }
}

/// A sentinel's momentary state of a replica says little: it cuts its own connections to the one
/// that it promotes, and then has it as disconnected or down for a second or two. So a replica
/// counts until it has been silent for long.
fn replica_that_may_be_promoted(fields: &HashMap<String, String>) -> Option<String> {
    let field = |name: &str| fields.get(name).map_or("", String::as_str);
    let silent = field("last-ok-ping-reply").parse().unwrap_or(0);
    let is_gone = Duration::from_millis(silent) >= replicas::GONE;
    (!is_gone).then(|| replicas::address(field("ip"), field("port")))
}

/// Reads the answer to `ROLE`.
pub(super) fn is_primary(role: &Value) -> bool {
    let Value::Array(role) = role else {
        return false;
    };
    matches!(role.first(), Some(Value::BulkString(name)) if name == b"master")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_counts_until_it_has_been_silent_for_long() {
        let replica = |flags: &str, silent: &str| {
            let fields = [
                ("ip", "::1"),
                ("port", "7"),
                ("flags", flags),
                ("last-ok-ping-reply", silent),
            ];
            let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
            replica_that_may_be_promoted(&HashMap::from(fields))
        };
        let counts = Some("::1:7");
        assert_eq!(replica("slave", "10").as_deref(), counts);
        assert_eq!(replica("slave,promoted", "10").as_deref(), counts);
        // As the one looks that has just been promoted.
        assert_eq!(replica("slave,disconnected", "900").as_deref(), counts);
        let down = replica("s_down,slave,disconnected", "2500");
        assert_eq!(down.as_deref(), counts);
        assert_eq!(replica("s_down,slave,disconnected", "10000"), None);
    }
}
