//! Facts about Redis for `baton doctor`: whether it answers, how fast, what time it has, and how it
//! is set up. Nothing is written there.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::from_redis_value;
use tokio::time::Instant;

use super::client::{unreachable, until};
use super::connection::RedisConnection;
use super::options::RedisOptions;
use super::replicas;
use super::servers::RedisServers;
use super::startup_checks::ServerInfo;
use crate::store::{Error, Result};

const PATIENCE: Duration = Duration::from_secs(3);
/// Round trips whose median is the latency.
const ROUND_TRIPS: usize = 9;

/// One Redis, or all primaries of a Cluster.
pub struct Diagnosis {
    /// One for each primary; empty if the user may not call `INFO`.
    pub servers: Vec<ServerFacts>,
    /// Of a round trip, in the middle of several.
    pub latency: Duration,
    /// `None` if it could not be asked.
    pub clock: Option<ClockOffset>,
}

/// How far this machine's clock is from the store's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockOffset {
    pub by: Duration,
    pub ahead: bool,
}

pub struct ServerFacts {
    pub address: String,
    /// Empty if the server hides it.
    pub version: String,
    pub is_supported: bool,
    /// The primary of this server, if it is a replica.
    pub replica_of: Option<String>,
    /// Whether the append-only file is on.
    pub append_only: bool,
    /// The policy that evicts sessions once memory is full, if there is one.
    pub eviction: Option<String>,
    pub replicas_in_step: usize,
}

impl RedisOptions {
    /// Asks Redis once, for a few seconds at most.
    pub async fn diagnose(&self) -> Result<Diagnosis> {
        let servers = RedisServers::parse(&self.url, self.ca.as_deref()).map_err(Error::Broken)?;
        servers.follow();
        let deadline = Instant::now() + PATIENCE;
        let opened = until(deadline, || RedisConnection::open(&servers)).await;
        let connection = opened.map_err(|error| unreachable(&servers, &error))?;
        Ok(Diagnosis {
            servers: facts(&connection, &servers).await?,
            latency: latency(&connection, &servers).await?,
            clock: clock(&connection).await,
        })
    }
}

async fn facts(connection: &RedisConnection, servers: &RedisServers) -> Result<Vec<ServerFacts>> {
    match connection.ask_primaries(&redis::cmd("INFO")).await {
        Ok(nodes) => {
            let facts = nodes.into_iter().map(|(at, text)| {
                let address = if at.is_empty() {
                    servers.to_string()
                } else {
                    at
                };
                ServerFacts::read(address, &text)
            });
            Ok(facts.collect())
        }
        Err(error) if error.code() == Some("NOPERM") => Ok(Vec::new()),
        Err(error) => Err(unreachable(servers, &error)),
    }
}

async fn latency(connection: &RedisConnection, servers: &RedisServers) -> Result<Duration> {
    let mut taken = Vec::with_capacity(ROUND_TRIPS);
    for _ in 0..ROUND_TRIPS {
        let began = Instant::now();
        let answer = connection.ask(&redis::cmd("PING")).await;
        answer.map_err(|error| unreachable(servers, &error))?;
        taken.push(began.elapsed());
    }
    taken.sort_unstable();
    Ok(taken[ROUND_TRIPS / 2])
}

async fn clock(connection: &RedisConnection) -> Option<ClockOffset> {
    let before = SystemTime::now();
    let answer = connection.ask(&redis::cmd("TIME")).await.ok()?;
    let after = SystemTime::now();
    let (seconds, micros): (u64, u64) = from_redis_value(answer).ok()?;
    let there = UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_micros(micros);
    Some(ClockOffset::between(there, before, after))
}

impl ClockOffset {
    /// The store's time was read between two moments of ours.
    fn between(there: SystemTime, before: SystemTime, after: SystemTime) -> Self {
        let (by, ahead) = match (before.duration_since(there), there.duration_since(after)) {
            (Ok(by), _) => (by, true),
            (_, Ok(by)) => (by, false),
            _ => (Duration::ZERO, false),
        };
        Self { by, ahead }
    }
}

impl ServerFacts {
    fn read(address: String, text: &str) -> Self {
        let info = ServerInfo::read(text);
        let policy = info.text("maxmemory_policy");
        let evicts = info.number("maxmemory") > 0 && !["", "noeviction"].contains(&policy);
        let primary = || format!("{}:{}", info.text("master_host"), info.text("master_port"));
        Self {
            address,
            version: info.text("redis_version").to_owned(),
            is_supported: info.is_supported(),
            replica_of: (info.text("role") == "slave").then(primary),
            append_only: info.text("aof_enabled") != "0",
            eviction: evicts.then(|| policy.to_owned()),
            replicas_in_step: replicas::all_in_step(&info).len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_of_clocks_leaves_out_the_way_there_and_back() {
        let at = |millis| UNIX_EPOCH + Duration::from_millis(millis);
        let offset = |there| ClockOffset::between(at(there), at(1_000), at(1_010));
        assert_eq!(offset(1_005).by, Duration::ZERO);
        let (behind, ahead) = (offset(3_010), offset(400));
        assert_eq!((behind.by, behind.ahead), (Duration::from_secs(2), false));
        assert_eq!((ahead.by, ahead.ahead), (Duration::from_millis(600), true));
    }

    #[test]
    fn settings_that_lose_sessions_are_seen() {
        let good = "redis_version:8.2.1\r\nrole:master\r\naof_enabled:1\r\nmaxmemory:0\r\n\
                    maxmemory_policy:allkeys-lru\r\nconnected_slaves:1\r\n\
                    slave0:ip=::1,port=1,state=online,offset=1,lag=0\r\n";
        let facts = ServerFacts::read("here:1".into(), good);
        assert!(facts.is_supported && facts.append_only && facts.replica_of.is_none());
        // Without a limit nothing is evicted.
        assert_eq!((facts.eviction, facts.replicas_in_step), (None, 1));
        let bad = "redis_version:6.2.0\r\nrole:slave\r\nmaster_host:there\r\nmaster_port:7\r\n\
                   aof_enabled:0\r\nmaxmemory:1\r\nmaxmemory_policy:allkeys-lru\r\n";
        let facts = ServerFacts::read("here:1".into(), bad);
        assert!(!facts.is_supported && !facts.append_only);
        assert_eq!(facts.replica_of.as_deref(), Some("there:7"));
        assert_eq!(facts.eviction.as_deref(), Some("allkeys-lru"));
    }
}
