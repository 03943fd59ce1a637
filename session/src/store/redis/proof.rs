//! How a step is proved durable, and how a server is asked for it.

use redis::{Cmd, Value};

/// How long a server waits for its replicas before it tells how many have confirmed.
const WAIT_MS: u64 = 500;

/// Which confirmation makes a step durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DurabilityProof {
    /// The replicas have it in memory.
    Replicas,
    /// It is on the disks of the primary and of the replicas.
    Disks,
}

impl DurabilityProof {
    pub fn wait(self, replicas: i64) -> Cmd {
        let mut wait = match self {
            Self::Replicas => redis::cmd("WAIT"),
            Self::Disks => redis::cmd("WAITAOF").arg(1).clone(),
        };
        wait.arg(replicas).arg(WAIT_MS);
        wait
    }

    /// How many replicas have confirmed.
    pub fn given_by(self, answer: &Value) -> i64 {
        let count = |value: &Value| match value {
            Value::Int(count) => *count,
            _ => 0,
        };
        match (self, answer) {
            (Self::Replicas, replicas) => count(replicas),
            (Self::Disks, Value::Array(counts)) if counts.len() == 2 && count(&counts[0]) >= 1 => {
                count(&counts[1])
            }
            (Self::Disks, _) => 0,
        }
    }
}
