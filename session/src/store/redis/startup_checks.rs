//! Checks at the start of a process: whether this Redis can be used at all, and whether it is
//! configured to keep its data.

use std::collections::{BTreeSet, HashMap};

use redis::from_redis_value;

use super::connection::RedisConnection;
use super::fault;
use super::proof::DurabilityProof;
use super::servers::RedisServers;

const OLDEST: (u32, u32) = (7, 0);

pub(super) struct CheckFault {
    pub text: String,
    /// Time may mend it.
    pub may_pass: bool,
}

/// The answer of one server to `INFO`.
pub(super) struct ServerInfo(HashMap<String, String>);

/// Warns of what could be lost; fails if this Redis cannot do what is asked. With `replicated`
/// returns what counts as proof that a step is safe.
pub(super) async fn at_start(
    connection: &RedisConnection,
    servers: &RedisServers,
    replicated: bool,
) -> Result<Option<DurabilityProof>, CheckFault> {
    let nodes = match connection.ask_primaries(&redis::cmd("INFO")).await {
        Ok(nodes) => nodes,
        Err(error) if error.code() == Some("NOPERM") => {
            tracing::warn!(
                "whether Redis keeps what it is given could not be checked: the user of --store \
                 may not call INFO; Redis should have appendonly yes and maxmemory-policy \
                 noeviction"
            );
            Vec::new()
        }
        Err(error) => {
            return Err(CheckFault {
                text: fault::explain(&error),
                may_pass: true,
            });
        }
    };
    let mut advice = BTreeSet::new();
    for (at, text) in nodes {
        let at = if at.is_empty() {
            servers.to_string()
        } else {
            at
        };
        let info = ServerInfo::read(&text);
        info.check(&at, replicated)?;
        advice.extend(info.advice());
    }
    // Once for all servers.
    for sentence in advice {
        tracing::warn!("{sentence}");
    }
    if !replicated {
        return Ok(None);
    }
    let proof = if keeps_disks_in_step(connection).await {
        DurabilityProof::Disks
    } else {
        DurabilityProof::Replicas
    };
    Ok(Some(proof))
}

impl ServerInfo {
    pub fn read(text: &str) -> Self {
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        Self(
            fields
                .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
                .collect(),
        )
    }

    pub fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    pub fn number(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or(0)
    }

    /// Servers that hide their version are taken at their word.
    pub fn is_supported(&self) -> bool {
        let version = self.text("redis_version");
        let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
        let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        version.is_empty() || found >= OLDEST
    }

    fn check(&self, at: &str, replicated: bool) -> Result<(), CheckFault> {
        let fault = |text: String, may_pass| Err(CheckFault { text, may_pass });
        if !self.is_supported() {
            let version = self.text("redis_version");
            let text = format!("Redis at {at} is version {version}: 7.0 or newer is needed");
            return fault(text, false);
        }
        if self.text("role") == "slave" {
            let primary = format!("{}:{}", self.text("master_host"), self.text("master_port"));
            let text = format!(
                "Redis at {at} is a read-only replica: --store must name its primary, {primary}"
            );
            return fault(text, true);
        }
        if replicated && self.number("connected_slaves") == 0 {
            let text = format!(
                "--durability replicated cannot work: Redis at {at} has no replica; add one, or \
                 use --durability fast"
            );
            return fault(text, true);
        }
        Ok(())
    }

    /// Warnings about possible data loss, and which setting prevents it.
    fn advice(&self) -> Vec<String> {
        let mut advice = Vec::new();
        if self.text("aof_enabled") == "0" {
            advice.push(
                "a restart of Redis loses every session, or all since the last snapshot: its \
                 append-only file is off; set appendonly yes"
                    .to_owned(),
            );
        }
        let policy = self.text("maxmemory_policy");
        if self.number("maxmemory") > 0 && !["", "noeviction"].contains(&policy) {
            advice.push(format!(
                "Redis may evict sessions once its memory is full: maxmemory-policy is {policy}; \
                 set it to noeviction"
            ));
        }
        advice
    }
}

/// Whether waiting for disks is possible and bearable. It needs `WAITAOF` (Redis 7.2, Valkey), and
/// `appendfsync always`: with `everysec` every answer would wait for the next second.
async fn keeps_disks_in_step(connection: &RedisConnection) -> bool {
    let mut command = redis::cmd("COMMAND");
    command.arg("INFO").arg("WAITAOF");
    let known = connection.ask(&command).await;
    // One entry per name, nil if there is no such command.
    let known = known.is_ok_and(|known| {
        from_redis_value::<Vec<redis::Value>>(known)
            .is_ok_and(|found| matches!(found.first(), Some(redis::Value::Array(_))))
    });
    if !known {
        return false;
    }
    let mut command = redis::cmd("CONFIG");
    command.arg("GET").arg("append*");
    let Ok(answer) = connection.ask(&command).await else {
        return false;
    };
    let settings: HashMap<String, String> = from_redis_value(answer).unwrap_or_default();
    let is = |name, value| settings.get(name).is_some_and(|set| set == value);
    is("appendonly", "yes") && is("appendfsync", "always")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str, replicated: bool) -> Option<String> {
        let checked = ServerInfo::read(text).check("here:1", replicated);
        checked.err().map(|fault| fault.text)
    }

    #[test]
    fn an_old_version_a_replica_and_a_missing_replica_are_refused() {
        let fine = "redis_version:7.0.15\r\nrole:master\r\nconnected_slaves:1\r\n";
        assert_eq!(fault(fine, true), None);
        assert_eq!(
            fault("redis_version:10.1.0\r\nrole:master\r\n", false),
            None
        );
        let old = fault("redis_version:6.2.14\r\nrole:master\r\n", false).unwrap();
        assert!(old.contains("6.2.14") && old.contains("7.0"), "{old}");
        let replica = "role:slave\r\nmaster_host:there\r\nmaster_port:7\r\n";
        let replica = fault(replica, false).unwrap();
        assert!(replica.contains("there:7"), "{replica}");
        let alone = "redis_version:7.0.15\r\nrole:master\r\nconnected_slaves:0\r\n";
        assert_eq!(fault(alone, false), None);
        assert!(fault(alone, true).unwrap().contains("no replica"));
    }

    #[test]
    fn what_could_be_lost_is_said() {
        let advice = |text| ServerInfo::read(text).advice();
        let fine = "aof_enabled:1\r\nmaxmemory:100\r\nmaxmemory_policy:noeviction\r\n";
        assert!(advice(fine).is_empty());
        // Without a limit nothing is evicted.
        assert!(
            advice("aof_enabled:1\r\nmaxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n").is_empty()
        );
        let both = advice("aof_enabled:0\r\nmaxmemory:100\r\nmaxmemory_policy:allkeys-lru\r\n");
        assert!(both[0].contains("appendonly yes"), "{both:?}");
        assert!(both[1].contains("allkeys-lru"), "{both:?}");
    }
}
