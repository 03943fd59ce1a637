//! What Redis has done for a cell, by its own count: commands, scripts and bytes per prompt hardly depend on what else the
//! machine does.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Counted by Redis since it started.
#[derive(Clone, Debug, Default)]
pub struct RedisCounters {
    /// Calls and microseconds, by command. Those of scripts count as well as the scripts.
    commands: BTreeMap<String, (f64, f64)>,
    received: f64,
    sent: f64,
}

/// The same per prompt.
#[derive(Clone, Copy, Debug, Default)]
pub struct RedisCost {
    pub scripts: f64,
    /// Scripts with all that they do.
    pub script_us: f64,
    /// What scripts call included.
    pub commands: f64,
    pub received: f64,
    pub sent: f64,
}

impl RedisCounters {
    pub async fn read(redis: SocketAddr) -> Result<Self> {
        let mut socket = TcpStream::connect(redis).await?;
        socket
            .write_all(b"INFO commandstats\r\nINFO stats\r\nQUIT\r\n")
            .await?;
        let mut text = String::new();
        socket.read_to_string(&mut text).await?;
        Self::parse(&text).context("Redis does not say what it did")
    }

    fn parse(text: &str) -> Option<Self> {
        let mut counters = Self::default();
        for line in text.lines() {
            if let Some((name, fields)) = line
                .strip_prefix("cmdstat_")
                .and_then(|l| l.split_once(':'))
            {
                let field = |name| number(fields.split(',').find_map(|f| f.strip_prefix(name))?);
                counters
                    .commands
                    .insert(name.to_owned(), (field("calls=")?, field("usec=")?));
            } else if let Some(bytes) = line.strip_prefix("total_net_input_bytes:") {
                counters.received = number(bytes)?;
            } else if let Some(bytes) = line.strip_prefix("total_net_output_bytes:") {
                counters.sent = number(bytes)?;
            }
        }
        Some(counters)
    }

    pub fn since(&self, before: &Self, prompts: f64) -> RedisCost {
        let (mut cost, mut calls) = (RedisCost::default(), 0.0);
        for (name, (count, us)) in &self.commands {
            let (count_before, us_before) = before.commands.get(name).copied().unwrap_or_default();
            if matches!(&**name, "eval" | "evalsha") {
                cost.scripts += (count - count_before) / prompts;
                cost.script_us += (us - us_before) / prompts;
            }
            calls += count - count_before;
        }
        cost.commands = calls / prompts;
        cost.received = (self.received - before.received) / prompts;
        cost.sent = (self.sent - before.sent) / prompts;
        cost
    }
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_told_from_what_they_call() {
        let at = |calls: u64| {
            let text = format!(
                "cmdstat_evalsha:calls={calls},usec={},usec_per_call=1.0\r\n\
                 cmdstat_hset:calls={},usec=9\r\ntotal_net_input_bytes:{}\r\n\
                 total_net_output_bytes:7\r\n",
                calls * 20,
                calls * 3,
                calls * 100
            );
            RedisCounters::parse(&text).unwrap()
        };
        let cost = at(30).since(&at(10), 10.0);
        assert_eq!(
            (cost.scripts, cost.script_us, cost.commands),
            (2.0, 40.0, 8.0)
        );
        assert_eq!((cost.received, cost.sent), (200.0, 0.0));
    }
}
