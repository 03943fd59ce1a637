//! The way to Redis. Every step is idempotent, so one whose outcome is unknown is simply repeated:
//! a Redis that restarts or fails over is waited for, within bounds.

use std::sync::Arc;
use std::time::Duration;

use redis::{Arg, Cmd, Pipeline, RedisError, Value};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::Instrument as _;

use super::connection::{ConnectionIdentity, RedisConnection};
use super::durable::DurableLanes;
use super::fault;
use super::memory_guard::MemoryGuard;
use super::options::{Durability, RedisOptions};
use super::reply::ScriptReply;
use super::scripts::ScriptCall;
use super::servers::{RedisServers, ServerKind};
use super::startup_checks::{self, ServerInfo};
use crate::metrics::StoreMetrics;
use crate::store::{Error, Result, StoreMemory};
use crate::trace::step;

/// How long a request waits for a store that is away: a failover must not end every client.
pub(super) const STEP_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a look waits that is repeated every second.
const BRIEF_TIMEOUT: Duration = Duration::from_millis(500);
/// How long a process waits for its store when it starts.
const START_TIMEOUT: Duration = Duration::from_secs(10);

const STANDALONE_PARTITIONS: u16 = 16;
const CLUSTER_PARTITIONS: u16 = 64;

pub(super) struct RedisClient {
    pub servers: RedisServers,
    connection: RedisConnection,
    /// For steps that must be on a replica, if that is asked for.
    lanes: Option<DurableLanes>,
    memory_guard: MemoryGuard,
    metrics: StoreMetrics,
    #[cfg(feature = "conformance")]
    fails_halfway: bool,
}

impl RedisClient {
    pub async fn connect(options: &RedisOptions) -> Result<Self> {
        let servers =
            RedisServers::parse(&options.url, options.ca.as_deref()).map_err(Error::Broken)?;
        servers.follow();
        let deadline = Instant::now() + START_TIMEOUT;
        let opened = until(deadline, || RedisConnection::open(&servers)).await;
        let connection = opened.map_err(|error| unreachable(&servers, &error))?;
        let replicated = options.durability == Durability::Replicated;
        let proof = loop {
            match startup_checks::at_start(&connection, &servers, replicated).await {
                Ok(proof) => break proof,
                // Replicas may be starting, too.
                Err(fault) if fault.may_pass && Instant::now() < deadline => {
                    sleep(Duration::from_millis(250)).await;
                }
                Err(fault) => return Err(Error::Unavailable(fault.text)),
            }
        };
        let lanes = match proof {
            Some(proof) => Some(
                until(deadline, || {
                    DurableLanes::open(&servers, proof, options.metrics.clone())
                })
                .await
                .map_err(|error| unreachable(&servers, &error))?,
            ),
            None => None,
        };
        Ok(Self {
            servers,
            connection,
            lanes,
            memory_guard: MemoryGuard::default(),
            metrics: options.metrics.clone(),
            #[cfg(feature = "conformance")]
            fails_halfway: options.fails_halfway,
        })
    }

    pub fn partitions(&self) -> u16 {
        match self.servers.kind {
            ServerKind::Cluster(_) => CLUSTER_PARTITIONS,
            _ => STANDALONE_PARTITIONS,
        }
    }

    /// Asks once, without patience.
    pub async fn ping(&self) -> Result<()> {
        let ping = redis::cmd("PING");
        match timeout(Duration::from_secs(1), self.connection.ask(&ping)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(Error::Unavailable(fault::explain(&error))),
            Err(_) => Err(Error::Unavailable("no answer within a second".into())),
        }
    }

    pub async fn has_room(&self) -> bool {
        self.memory_guard.is_left(&self.connection).await
    }

    /// Asks once, without patience.
    pub async fn memory(&self) -> Result<Vec<StoreMemory>> {
        let away = || Error::Unavailable("Redis does not say what it uses".into());
        let mut command = redis::cmd("INFO");
        command.arg("memory");
        let asked = timeout(
            Duration::from_secs(1),
            self.connection.ask_primaries(&command),
        );
        let nodes = asked.await.ok().and_then(std::result::Result::ok);
        let nodes = nodes.ok_or_else(away)?.into_iter();
        Ok(nodes
            .map(|(server, text)| {
                let info = ServerInfo::read(&text);
                let limit = info.number("maxmemory");
                StoreMemory {
                    server,
                    used: info.number("used_memory"),
                    limit: (limit > 0).then_some(limit),
                }
            })
            .collect())
    }

    pub async fn run(&self, call: ScriptCall<'_>) -> Result<ScriptReply> {
        self.run_within(STEP_TIMEOUT, call).await
    }

    /// For what is asked again soon: those who ask would rather look elsewhere meanwhile.
    pub async fn run_briefly(&self, call: ScriptCall<'_>) -> Result<ScriptReply> {
        self.run_within(BRIEF_TIMEOUT, call).await
    }

    async fn run_within(&self, patience: Duration, call: ScriptCall<'_>) -> Result<ScriptReply> {
        #[cfg(feature = "conformance")]
        // Housekeeping takes on what it finds for a while; what a try has taken on is found again
        // later.
        if self.fails_halfway && call.script().name != "tidy" {
            return self.run_failing(&call).await;
        }
        let span = step(call.script().name);
        let command = call.by_hash();
        let key = call.first_key().as_bytes();
        let asked = self.retry_until(patience, &command, key, Some(&call));
        self.timed(asked.instrument(span)).await
    }

    /// Fails at the first command, then at the second, and so on, until no command is left to fail.
    #[cfg(feature = "conformance")]
    async fn run_failing(&self, call: &ScriptCall<'_>) -> Result<ScriptReply> {
        for at in 1.. {
            let key = call.first_key().as_bytes();
            match self.connection.send(&call.failing(at), key).await {
                Ok(value) => return Ok(ScriptReply(value)),
                Err(error) if error.to_string().contains(super::scripts::INJECTED) => {}
                Err(error) => return Err(Error::Broken(fault::explain(&error))),
            }
        }
        unreachable!("a script has an end")
    }

    /// As [`Self::run`]; what was answered is also on a replica, if that is asked for.
    pub async fn run_durably(&self, call: ScriptCall<'_>) -> Result<ScriptReply> {
        match &self.lanes {
            Some(lanes) => {
                let span = step(call.script().name);
                self.timed(lanes.run(&call).instrument(span)).await
            }
            None => self.run(call).await,
        }
    }

    /// Commands about one key, in order, on one connection. They are tried once, and nobody waits
    /// for replicas: false if that was not enough, or is not what is asked for.
    pub async fn write_once(&self, commands: &Pipeline, key: &str) -> bool {
        if self.lanes.is_some() {
            return false;
        }
        let sent = self.connection.send_all(commands, key.as_bytes());
        let is_refused = |answer: &Value| matches!(answer, Value::ServerError(_));
        match timeout(BRIEF_TIMEOUT, sent.instrument(step("query"))).await {
            Ok(Ok(answers)) => !answers.iter().any(is_refused),
            Ok(Err(_)) | Err(_) => false,
        }
    }

    /// The connection that commands about the key take.
    pub fn connection_to(&self, key: &[u8]) -> Option<ConnectionIdentity> {
        self.connection.identity(key)
    }

    pub fn waits_for_replicas(&self) -> bool {
        self.lanes.is_some()
    }

    /// A command that names its key first.
    pub async fn query(&self, command: &Cmd) -> Result<ScriptReply> {
        let key = match command.args_iter().nth(1) {
            Some(Arg::Simple(key)) => key,
            _ => b"",
        };
        let asked = self.retry_until(STEP_TIMEOUT, command, key, None);
        self.timed(asked.instrument(step("query"))).await
    }

    async fn timed(&self, asked: impl Future<Output = Result<ScriptReply>>) -> Result<ScriptReply> {
        let began = Instant::now();
        let answer = asked.await;
        self.metrics.steps.observe(began.elapsed(), None);
        if let Err(Error::Unavailable(_)) = answer {
            self.metrics.given_up.inc();
        }
        answer
    }

    /// Repeats until there is an answer or patience ends. A server that doesn't know the script of
    /// a call gets its text.
    async fn retry_until(
        &self,
        patience: Duration,
        command: &Cmd,
        key: &[u8],
        script: Option<&ScriptCall<'_>>,
    ) -> Result<ScriptReply> {
        let deadline = Instant::now() + patience;
        let mut pause = Duration::from_millis(10);
        loop {
            let send = |command| timeout_at(deadline, self.connection.send(command, key));
            let mut tried = send(command).await;
            if let (Ok(Err(error)), Some(call)) = (&tried, script)
                && error.code() == Some("NOSCRIPT")
            {
                tried = send(&call.by_text()).await;
            }
            let error = match tried {
                Ok(Ok(value)) => return Ok(ScriptReply(value)),
                Ok(Err(error)) => {
                    self.metrics.failed(fault::reason(&error));
                    if !fault::is_passing(&error) {
                        return Err(Error::Broken(fault::explain(&error)));
                    }
                    fault::explain(&error)
                }
                Err(_) => {
                    self.metrics.failed("timeout");
                    "no answer".to_owned()
                }
            };
            if Instant::now() + pause >= deadline {
                return Err(Error::Unavailable(error));
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(250));
        }
    }
}

/// Repeats until it works or time is over. A refused login is not waited for.
pub(super) async fn until<T, F: Future<Output = std::result::Result<T, Arc<RedisError>>>>(
    deadline: Instant,
    attempt: impl Fn() -> F,
) -> std::result::Result<T, Arc<RedisError>> {
    let mut told = false;
    loop {
        match attempt().await {
            Err(error) if !fault::is_refused_login(&error) && Instant::now() < deadline => {
                if !told {
                    tracing::warn!(error = fault::explain(&error), "waiting for Redis");
                    told = true;
                }
                sleep(Duration::from_millis(250)).await;
            }
            outcome => return outcome,
        }
    }
}

pub(super) fn unreachable(servers: &RedisServers, error: &RedisError) -> Error {
    Error::Unavailable(if fault::is_refused_login(error) {
        format!("{servers}: {}", fault::explain(error))
    } else {
        let error = fault::explain(error);
        format!(
            "Redis at {servers} does not answer ({error}); is it running, and is --store right?"
        )
    })
}
