//! How full Redis is, looked at once a second at most, and only while somebody wants to know.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::connection::RedisConnection;
use super::startup_checks::ServerInfo;

const KEEP: Duration = Duration::from_secs(1);
/// An answer says nothing any more after this time: a Redis that was full may have room again, and
/// refuses by itself what it has no room for.
const BELIEVED: Duration = Duration::from_secs(5);
/// New sessions are refused above this share of maxmemory, so that running ones can go on.
const FULL_PERCENT: u64 = 80;

#[derive(Default)]
pub(super) struct MemoryGuard(Mutex<Option<MemoryLook>>);

#[derive(Clone, Copy)]
struct MemoryLook {
    at: Instant,
    /// When the servers last said so.
    said: Instant,
    left: bool,
}

impl MemoryLook {
    /// What is known now, with the answer of all primaries, if there is one.
    fn after(known: Option<Self>, answer: Option<bool>, at: Instant) -> Self {
        match (answer, known) {
            (Some(left), _) => Self { at, said: at, left },
            (None, Some(known)) if at - known.said < BELIEVED => Self { at, ..known },
            // A Redis that does not say is not taken for a full one; one that is away is noticed
            // elsewhere.
            (None, _) => Self {
                at,
                said: at,
                left: true,
            },
        }
    }
}

impl MemoryGuard {
    /// Those who ask at the same time wait for one answer.
    pub async fn is_left(&self, connection: &RedisConnection) -> bool {
        let mut known = self.0.lock().await;
        if let Some(known) = *known
            && known.at.elapsed() < KEEP
        {
            return known.left;
        }
        let mut command = redis::cmd("INFO");
        command.arg("memory");
        let asked = timeout(KEEP, connection.ask_primaries(&command)).await;
        let answer = asked.ok().and_then(Result::ok).map(|nodes| {
            let mut nodes = nodes.iter();
            nodes.all(|(_, text)| has_room(&ServerInfo::read(text)))
        });
        let look = MemoryLook::after(*known, answer, Instant::now());
        let left = look.left;
        if known.is_some_and(|before| before.left) && !left {
            tracing::warn!("Redis is nearly full: new sessions are refused, running ones go on");
        }
        *known = Some(look);
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

    #[test]
    fn one_that_was_full_and_says_nothing_is_not_full_for_ever() {
        let begin = Instant::now();
        let full = MemoryLook::after(None, Some(false), begin);
        let silent = |known, after| MemoryLook::after(Some(known), None, begin + after);
        let soon = silent(full, BELIEVED / 2);
        assert!(!soon.left);
        assert!(silent(soon, BELIEVED).left, "what was said is what counts");
        assert!(MemoryLook::after(None, None, begin).left);
    }
}
