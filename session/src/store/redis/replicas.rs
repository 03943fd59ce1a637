//! How many replicas have to confirm a write. Any that is in step may be promoted, so all of them
//! have to. One that has just left counts as well: in a planned failover the promoted one leaves
//! first, and the old primary goes on with the others until it is told.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::startup_checks::ServerInfo;

/// A replica that has been away for this long, or silent, is not about to be promoted: whoever
/// promotes knows it for a dead one, or has told the old primary.
pub(super) const GONE: Duration = Duration::from_secs(10);
/// After so long without a look at the primary a replica may have come into step and left to be
/// promoted, unseen. It happens to a process that stood still.
const STALE: Duration = Duration::from_secs(1);

#[derive(Clone, Default)]
pub(super) struct ReplicaTracker {
    /// Which history this is about; a new primary begins another.
    history: String,
    /// By address: in the place of one that is being promoted another may have joined.
    in_step: BTreeSet<String>,
    /// Replicas that have left, and until when they count.
    left: BTreeMap<String, Instant>,
    /// The primary does not say whom it had: it was started anew, or was not asked for a while.
    /// Until this time others have to say so.
    unsure_until: Option<Instant>,
    /// When the primary last said whom it has.
    told_at: Option<Instant>,
}

impl ReplicaTracker {
    /// There is always one that has to confirm.
    pub fn needed(&self) -> i64 {
        (self.in_step.len() + self.left.len()).max(1) as i64
    }

    /// After a primary was started anew, or was not asked for a while, sentinels may be replacing
    /// it by a replica that we do not know: they have to be asked before anything counts as
    /// confirmed.
    pub fn is_unsure(&self, now: Instant) -> bool {
        self.unsure_until.is_some_and(|until| now < until)
    }

    /// Others could not be asked yet.
    pub fn become_unsure(&mut self, now: Instant) {
        self.unsure_until = Some(now + GONE);
    }

    /// There is nobody to ask.
    pub fn is_sure(&mut self) {
        self.unsure_until = None;
    }

    /// Takes note of replicas that others know. If the primary does not have them any more, they
    /// have just left.
    pub fn add_known(&mut self, known: impl IntoIterator<Item = String>, now: Instant) {
        let known: Vec<String> = known.into_iter().collect();
        // They may be known by other names there.
        let most = known.len().saturating_sub(self.in_step.len());
        let missing = known
            .into_iter()
            .filter(|name| !self.in_step.contains(name));
        let missing = missing.take(most);
        self.left.extend(missing.map(|name| (name, now + GONE)));
        self.unsure_until = None;
    }

    /// Reads the primary's `INFO replication`; returns how many have to confirm. Missing fields
    /// change nothing.
    pub fn update(&mut self, info: &str, now: Instant) -> i64 {
        let info = ServerInfo::read(info);
        let history = info.text("master_replid");
        if history.is_empty() {
            return self.needed();
        }
        let last = self.told_at.replace(now);
        let is_stale = last.is_some_and(|last| now.duration_since(last) > STALE);
        if is_stale {
            self.become_unsure(now);
        }
        let in_step = all_in_step(&info);
        if history != self.history {
            // One that was promoted goes on with the history that it had copied.
            let succeeds = info.text("master_replid2") == self.history;
            let is_known = self.history.is_empty() || succeeds && !is_stale;
            *self = Self {
                unsure_until: (!is_known).then_some(now + GONE),
                told_at: self.told_at,
                history: history.to_owned(),
                in_step,
                left: BTreeMap::new(),
            };
            return self.needed();
        }
        let left: Vec<String> = self.in_step.difference(&in_step).cloned().collect();
        if !left.is_empty() {
            tracing::warn!(
                replicas = in_step.len(),
                left = left.join(" "),
                "a replica of Redis has left: until it is back, or for ten seconds, nothing is \
                 acknowledged"
            );
        }
        self.left
            .retain(|name, until| *until > now && !in_step.contains(name));
        self.left
            .extend(left.into_iter().map(|name| (name, now + GONE)));
        self.in_step = in_step;
        self.needed()
    }
}

/// The replicas that a primary names in `INFO replication`, as far as they are in step.
pub(super) fn all_in_step(info: &ServerInfo) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for number in 0..info.number("connected_slaves") {
        if let Some(mut name) = in_step(info.text(&format!("slave{number}"))) {
            // Behind one address there may be several.
            while !names.insert(name.clone()) {
                name.push('\'');
            }
        }
    }
    names
}

/// Reads a replica's line: `ip=…,port=…,state=online,offset=…,lag=0`. Returns where it is if it is
/// in step.
fn in_step(replica: &str) -> Option<String> {
    let field = |name: &str| {
        let mut fields = replica.split(',').filter_map(|field| field.split_once('='));
        fields.find_map(|(found, value)| (found == name).then_some(value))
    };
    let lag = field("lag").and_then(|lag| lag.parse().ok()).unwrap_or(0);
    let is_in_step = field("state") == Some("online") && Duration::from_secs(lag) < GONE;
    is_in_step.then(|| {
        address(
            field("ip").unwrap_or_default(),
            field("port").unwrap_or_default(),
        )
    })
}

/// As replicas are told apart here.
pub(super) fn address(host: &str, port: &str) -> String {
    format!("{host}:{port}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(history: &str, replicas: &[(u16, &str, u64)]) -> String {
        let count = replicas.len();
        let mut text =
            format!("role:master\r\nmaster_replid:{history}\r\nconnected_slaves:{count}\r\n");
        for (number, (port, state, lag)) in replicas.iter().enumerate() {
            text +=
                &format!("slave{number}:ip=::1,port={port},state={state},offset=1,lag={lag}\r\n");
        }
        text
    }

    const A: (u16, &str, u64) = (1, "online", 0);
    const B: (u16, &str, u64) = (2, "online", 0);
    const C: (u16, &str, u64) = (3, "online", 0);

    #[test]
    fn all_that_are_in_step_have_to_confirm_and_at_least_one() {
        let (mut replicas, now) = (ReplicaTracker::default(), Instant::now());
        assert_eq!(replicas.needed(), 1);
        assert_eq!(replicas.update(&info("a", &[]), now), 1);
        assert_eq!(replicas.update(&info("a", &[A, B]), now), 2);
        let joining = [A, B, (3, "wait_bgsave", 0), (4, "online", 11)];
        assert_eq!(replicas.update(&info("a", &joining), now), 2);
        assert_eq!(replicas.update("", now), 2);
    }

    #[test]
    fn one_that_has_left_is_waited_for_until_it_is_back_or_given_up() {
        let (mut replicas, now) = (ReplicaTracker::default(), Instant::now());
        replicas.update(&info("a", &[A, B, C]), now);
        assert_eq!(replicas.update(&info("a", &[A, B]), now), 3);
        // Another one leaves, and is waited for as long.
        let later = now + GONE / 2;
        assert_eq!(replicas.update(&info("a", &[A]), later), 3);
        assert_eq!(replicas.update(&info("a", &[A]), now + GONE), 2);
        assert_eq!(replicas.update(&info("a", &[A]), later + GONE), 1);
        assert_eq!(replicas.update(&info("a", &[A, B]), later + GONE), 2);
        assert_eq!(replicas.update(&info("a", &[A]), later + GONE), 2);
        assert_eq!(replicas.update(&info("a", &[A, B]), later + GONE), 2);
        assert!(replicas.left.is_empty());
    }

    #[test]
    fn another_one_in_its_place_is_not_the_same() {
        let (mut replicas, now) = (ReplicaTracker::default(), Instant::now());
        replicas.update(&info("a", &[A]), now);
        // Between two looks B came into step, and A was promoted.
        assert_eq!(replicas.update(&info("a", &[B]), now), 2);
        assert_eq!(replicas.update(&info("a", &[B]), now + GONE), 1);
    }

    #[test]
    fn what_sentinels_know_has_to_confirm_although_it_has_left_before_the_first_look() {
        let (mut replicas, now) = (ReplicaTracker::default(), Instant::now());
        replicas.update(&info("a", &[B]), now);
        replicas.add_known(["::1:1".to_owned(), "::1:2".to_owned()], now);
        assert_eq!(replicas.needed(), 2);
        assert_eq!(replicas.update(&info("a", &[B]), now), 2);
        assert_eq!(replicas.update(&info("a", &[B]), now + GONE), 1);
    }

    #[test]
    fn a_new_primary_is_judged_by_the_replicas_that_it_has() {
        let (mut replicas, now) = (ReplicaTracker::default(), Instant::now());
        replicas.update(&info("a", &[A, B]), now);
        let promoted = format!("{}master_replid2:a\r\n", info("b", &[B]));
        assert_eq!(replicas.update(&promoted, now), 1);
        assert!(!replicas.is_unsure(now));
    }

    #[test]
    fn of_a_primary_that_was_started_anew_others_have_to_tell() {
        let (mut replicas, now) = (ReplicaTracker::default(), Instant::now());
        replicas.update(&info("a", &[A, B]), now);
        assert!(!replicas.is_unsure(now));
        let restarted = format!("{}master_replid2:0000\r\n", info("b", &[B]));
        assert_eq!(replicas.update(&restarted, now), 1);
        assert!(replicas.is_unsure(now) && !replicas.is_unsure(now + GONE));
        // It had another one, which is being promoted.
        replicas.add_known(["::1:1".to_owned(), "::1:2".to_owned()], now);
        assert!(!replicas.is_unsure(now));
        assert_eq!(replicas.update(&restarted, now), 2);
    }

    /// A process stood still while one replica came into step and was promoted.
    #[test]
    fn after_a_while_without_a_look_others_have_to_tell() {
        let (mut replicas, now) = (ReplicaTracker::default(), Instant::now());
        replicas.update(&info("a", &[B]), now);
        replicas.update(&info("a", &[B]), now + STALE);
        assert!(!replicas.is_unsure(now + STALE));
        let later = now + STALE * 4;
        assert_eq!(replicas.update(&info("a", &[B]), later), 1);
        assert!(replicas.is_unsure(later) && !replicas.is_unsure(later + GONE));
        replicas.add_known(["::1:1".to_owned(), "::1:2".to_owned()], later);
        assert!(!replicas.is_unsure(later));
        assert_eq!(replicas.update(&info("a", &[B]), later), 2);
        // The same of one that was promoted meanwhile.
        let promoted = format!("{}master_replid2:a\r\n", info("b", &[B]));
        let much_later = later + STALE * 2;
        replicas.update(&promoted, much_later);
        assert!(replicas.is_unsure(much_later));
    }

    #[test]
    fn names_need_not_be_the_same_everywhere() {
        let (mut replicas, now) = (ReplicaTracker::default(), Instant::now());
        replicas.update(&info("a", &[A, B]), now);
        replicas.add_known(["one:1".to_owned(), "two:1".to_owned()], now);
        assert_eq!(replicas.needed(), 2);
        // Nor different.
        assert_eq!(replicas.update(&info("a", &[A, A]), now), 3);
    }
}
