//! How many replicas have to confirm a write. Any that is in step may be promoted, so all of them have to.
//! One that has just left counts as well: in a planned failover the promoted one leaves first, and the old
//! primary goes on with the others until it is told.

use std::time::Duration;

use tokio::time::Instant;

use super::checks::Info;

/// A replica that has been away for this long, or silent, is not about to be promoted: whoever promotes
/// knows it for a dead one, or has told the old primary.
const GONE: Duration = Duration::from_secs(10);

#[derive(Clone, Default)]
pub(super) struct Replicas {
    /// Which history this is about; a new primary begins another.
    history: String,
    in_step: i64,
    /// How many there were before some left, and when those are given up.
    before: Option<(i64, Instant)>,
}

impl Replicas {
    /// There is always one that has to confirm.
    pub fn needed(&self) -> i64 {
        let before = self.before.map_or(0, |(count, _)| count);
        self.in_step.max(before).max(1)
    }

    /// Takes note of what the primary says in `INFO replication`; returns how many have to confirm. What it
    /// does not say changes nothing.
    pub fn told(&mut self, info: &str, now: Instant) -> i64 {
        let info = Info::read(info);
        let history = info.text("master_replid");
        if history.is_empty() {
            return self.needed();
        }
        let in_step = (0..info.number("connected_slaves"))
            .filter(|number| is_in_step(info.text(&format!("slave{number}"))))
            .count() as i64;
        if history != self.history {
            *self = Self {
                history: history.to_owned(),
                in_step,
                before: None,
            };
            return self.needed();
        }
        self.before
            .take_if(|(count, until)| *count <= in_step || *until <= now);
        if in_step < self.in_step {
            tracing::warn!(
                replicas = in_step,
                before = self.in_step,
                "a replica of Redis has left: until it is back, or for ten seconds, nothing is acknowledged"
            );
            self.before = Some((self.needed(), now + GONE));
        }
        self.in_step = in_step;
        self.needed()
    }
}

/// Reads a replica's line: `ip=…,port=…,state=online,offset=…,lag=0`.
fn is_in_step(replica: &str) -> bool {
    let field = |name: &str| {
        let mut fields = replica.split(',').filter_map(|field| field.split_once('='));
        fields.find_map(|(found, value)| (found == name).then_some(value))
    };
    let lag = field("lag").and_then(|lag| lag.parse().ok()).unwrap_or(0);
    field("state") == Some("online") && Duration::from_secs(lag) < GONE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(history: &str, replicas: &[(&str, u64)]) -> String {
        let count = replicas.len();
        let mut text =
            format!("role:master\r\nmaster_replid:{history}\r\nconnected_slaves:{count}\r\n");
        for (number, (state, lag)) in replicas.iter().enumerate() {
            text += &format!("slave{number}:ip=::1,port=1,state={state},offset=1,lag={lag}\r\n");
        }
        text
    }

    const UP: (&str, u64) = ("online", 0);

    #[test]
    fn all_that_are_in_step_have_to_confirm_and_at_least_one() {
        let (mut replicas, now) = (Replicas::default(), Instant::now());
        assert_eq!(replicas.needed(), 1);
        assert_eq!(replicas.told(&info("a", &[]), now), 1);
        assert_eq!(replicas.told(&info("a", &[UP, UP]), now), 2);
        let joining = [UP, UP, ("wait_bgsave", 0), ("online", 11)];
        assert_eq!(replicas.told(&info("a", &joining), now), 2);
        assert_eq!(replicas.told("", now), 2);
    }

    #[test]
    fn one_that_has_left_is_waited_for_until_it_is_back_or_given_up() {
        let (mut replicas, now) = (Replicas::default(), Instant::now());
        replicas.told(&info("a", &[UP, UP, UP]), now);
        assert_eq!(replicas.told(&info("a", &[UP, UP]), now), 3);
        // Another one leaves, and is waited for as long.
        let later = now + GONE / 2;
        assert_eq!(replicas.told(&info("a", &[UP]), later), 3);
        assert_eq!(replicas.told(&info("a", &[UP]), now + GONE), 3);
        assert_eq!(replicas.told(&info("a", &[UP]), later + GONE), 1);
        assert_eq!(replicas.told(&info("a", &[UP, UP]), later + GONE), 2);
        assert_eq!(replicas.told(&info("a", &[UP]), later + GONE), 2);
        assert_eq!(replicas.told(&info("a", &[UP, UP]), later + GONE), 2);
        assert_eq!(replicas.before, None);
    }

    #[test]
    fn a_new_primary_is_judged_by_the_replicas_that_it_has() {
        let (mut replicas, now) = (Replicas::default(), Instant::now());
        replicas.told(&info("a", &[UP, UP]), now);
        assert_eq!(replicas.told(&info("b", &[UP]), now), 1);
    }
}
