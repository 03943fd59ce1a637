//! Who wrote which event. The second half of an event's cursor names the claim under which it was written.

use std::collections::{BTreeMap, BTreeSet, HashMap};

#[derive(Default)]
pub struct Writers {
    /// Of each session: number of the event, claim.
    sessions: HashMap<String, BTreeMap<u64, String>>,
    /// Events that two have written: session, what is wrong.
    twice: BTreeSet<(String, String)>,
}

impl Writers {
    pub fn saw(&mut self, session: &str, seq: u64, claim: &str) {
        let events = self.sessions.entry(session.to_owned()).or_default();
        let before = events.insert(seq, claim.to_owned());
        if let Some(before) = before.filter(|before| before != claim) {
            let text = format!("event {seq} is by {before} and by {claim}");
            self.twice.insert((session.to_owned(), text));
        }
    }

    /// Sessions in which a claim wrote something after another one had, or what another one had.
    pub fn wrong(&self) -> Vec<(String, String)> {
        let mut wrong: Vec<_> = self.twice.iter().cloned().collect();
        for (session, events) in &self.sessions {
            let (mut now, mut before) = ("", BTreeSet::new());
            for (seq, claim) in events {
                if claim == now {
                    continue;
                }
                before.insert(now);
                if before.contains(claim.as_str()) {
                    let text = format!("event {seq} is by {claim} again, after one by {now}");
                    wrong.push((session.clone(), text));
                }
                now = claim;
            }
        }
        wrong
    }
}
