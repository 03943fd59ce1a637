//! How full Redis is, looked at once a second at most, and only while somebody wants to know.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::connection::RedisConnection;
use super::startup_checks::ServerInfo;

const KEEP: Duration = Duration::from_secs(1);
/// New sessions are refused above this share of maxmemory, so that running ones can go on.
const FULL_PERCENT: u64 = 80;

#[derive(Default)]
pub(super) struct MemoryGuard(Mutex<Option<(Instant, bool)>>);

impl MemoryGuard {
    /// Those who ask at the same time wait for one answer.
    pub async fn is_left(&self, connection: &RedisConnection) -> bool {
        let mut known = self.0.lock().await;
        if let Some((at, left)) = *known
            && at.elapsed() < KEEP
        {
            return left;
        }
        let mut command = redis::cmd("INFO");
        command.arg("memory");
        let asked = timeout(KEEP, connection.ask_primaries(&command)).await;
        // A Redis that does not say is not taken for a full one; one that is away is noticed
        // elsewhere.
        let left = match asked {
            Ok(Ok(nodes)) => nodes
                .iter()
                .all(|(_, text)| has_room(&ServerInfo::read(text))),
            _ => known.is_none_or(|(_, left)| left),
        };
        if known.is_some_and(|(_, before)| before) && !left {
            tracing::warn!("Redis is nearly full: new sessions are refused, running ones go on");
        }
        *known = Some((Instant::now(), left));
        left
    }
}

fn has_room(info: &ServerInfo) -> bool {
    let limit = info.number("maxmemory");
    limit == 0 || info.number("used_memory") <= limit / 100 * FULL_PERCENT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_up_to_four_fifths_or_without_a_limit() {
        let room = |text| has_room(&ServerInfo::read(text));
        assert!(room("used_memory:800\r\nmaxmemory:1000\r\n"));
        assert!(!room("used_memory:801\r\nmaxmemory:1000\r\n"));
        assert!(room("used_memory:801\r\nmaxmemory:0\r\n"));
    }
}
