//! Revocations in memory, as a store or a gateway keeps them: what each caller has asked for within
//! its budget, what an administrator has asked for without one.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Revocation, RevocationCaller, RevocationCause, RevocationSubject};
use crate::id::{ConnectionId, SessionId};

/// Closed connections, of all callers together.
const MAX_ENDED: usize = 50_000;

#[derive(Default)]
pub struct RevocationRegister {
    pub sessions: HashMap<SessionId, Revocation>,
    pub connections: HashMap<ConnectionId, Revocation>,
    pub principals: HashMap<String, Revocation>,
    pub logins: HashMap<String, Revocation>,
    pub everybody: Option<Revocation>,
    /// By generation.
    pub families: HashMap<String, BTreeMap<u32, Revocation>>,
    /// All of them, by when they end.
    ends: BTreeSet<(u64, RevocationSubject)>,
    /// Those that callers have asked for, in the order in which they end.
    asked: HashMap<RevocationCaller, BTreeSet<(u64, RevocationSubject)>>,
    /// All revocations of closed connections.
    ended: BTreeSet<(u64, RevocationSubject)>,
    logouts: usize,
    /// Callers by how many logouts each has asked for.
    by_logouts: BTreeSet<(usize, String)>,
}

/// The outcome of a revocation.
#[derive(Debug, PartialEq, Eq)]
pub enum RevokeOutcome {
    /// It was there, word for word.
    Known,
    /// There is one that says more.
    Covered,
    /// Its caller has used up its budget.
    Full,
    /// This one is there now, and those are not any more.
    Done(Box<Revocation>, Vec<RevocationSubject>),
}

impl RevocationRegister {
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub fn all(&self) -> impl Iterator<Item = &Revocation> {
        self.ends
            .iter()
            .filter_map(|(_, subject)| self.find(subject))
    }

    pub fn find(&self, subject: &RevocationSubject) -> Option<&Revocation> {
        match subject {
            RevocationSubject::Session(id) => self.sessions.get(id),
            RevocationSubject::Connection(id) => self.connections.get(id),
            RevocationSubject::Principal(name) => self.principals.get(name),
            RevocationSubject::Logins(name) => self.logins.get(name),
            RevocationSubject::Everybody => self.everybody.as_ref(),
            RevocationSubject::Family { family, below } => self.families.get(family)?.get(below),
        }
    }

    pub fn apply(&mut self, new: &Revocation, now: u64) -> RevokeOutcome {
        match self.find(&new.subject) {
            Some(known) if known == new => return RevokeOutcome::Known,
            Some(known) if !known.gives_way_to(new) => return RevokeOutcome::Covered,
            _ => {}
        }
        let (mut kept, mut gone) = (new.clone(), Vec::new());
        match (&new.subject, &new.asker) {
            (RevocationSubject::Logins(name), _) => gone = self.logouts_until(name, new.before),
            (_, None) => {}
            (subject, Some(asker)) => {
                let there = self.asked.get(asker);
                let is_new = self.find(subject).is_none();
                let count = there.map_or(0, BTreeSet::len) + usize::from(is_new);
                let is_full = count > asker.asked.budget();
                match asker.asked {
                    RevocationCause::Logout if self.is_covered(new, &asker.principal) => {
                        return RevokeOutcome::Covered;
                    }
                    RevocationCause::Logout if is_full => {
                        kept = self.all_logins(&asker.principal, new, now);
                        gone = self.logouts_until(&asker.principal, kept.before);
                    }
                    RevocationCause::Renewal if is_full => return RevokeOutcome::Full,
                    RevocationCause::Ended if is_full => {
                        let first = there.and_then(|all| all.first());
                        gone.extend(first.map(|(_, subject)| subject.clone()));
                    }
                    _ => {}
                }
            }
        }
        gone.iter().for_each(|subject| self.remove(subject));
        self.insert(kept.clone());
        if self.ended.len() > MAX_ENDED
            && let Some((_, subject)) = self.ended.first().cloned()
        {
            self.remove(&subject);
            gone.push(subject);
        }
        RevokeOutcome::Done(Box::new(kept), gone)
    }

    /// Removes revocations that have ended.
    pub fn forget(&mut self, now: u64) -> Vec<RevocationSubject> {
        let mut over = Vec::new();
        while let Some((end, subject)) = self.ends.first()
            && *end <= now
        {
            let subject = subject.clone();
            self.remove(&subject);
            over.push(subject);
        }
        over
    }

    fn is_covered(&self, new: &Revocation, principal: &str) -> bool {
        let known = self.logins.get(principal);
        known.is_some_and(|known| new.before <= known.before && new.until <= known.until)
    }

    /// One for all that the principal has, this one included.
    fn all_logins(&self, principal: &str, new: &Revocation, now: u64) -> Revocation {
        let asker = RevocationCaller {
            asked: RevocationCause::Logout,
            principal: principal.to_owned(),
        };
        let one_by_one = self.asked.get(&asker).into_iter().flatten();
        let known = one_by_one.filter_map(|(_, subject)| self.find(subject));
        let known = known.chain(self.logins.get(principal));
        let (before, until) = known
            .fold((new.before.max(now), new.until), |(before, until), one| {
                (before.max(one.before), until.max(one.until))
            });
        Revocation {
            subject: RevocationSubject::Logins(principal.to_owned()),
            before,
            from: new.from,
            until,
            asker: Some(asker),
        }
    }

    fn logouts_until(&self, principal: &str, before: u64) -> Vec<RevocationSubject> {
        let asker = RevocationCaller {
            asked: RevocationCause::Logout,
            principal: principal.to_owned(),
        };
        let all = self.asked.get(&asker).into_iter().flatten();
        let all = all.map(|(_, subject)| subject);
        let is_over = |subject: &&RevocationSubject| {
            self.find(subject).is_some_and(|one| one.before <= before)
        };
        all.filter(is_over).cloned().collect()
    }

    fn insert(&mut self, new: Revocation) {
        self.remove(&new.subject);
        let end = (new.until, new.subject.clone());
        match (&new.asker, &new.subject) {
            // One at most, and not one of those that it stands for.
            (None, _) | (_, RevocationSubject::Logins(_)) => {}
            (Some(asker), _) => {
                if asker.asked == RevocationCause::Ended {
                    self.ended.insert(end.clone());
                }
                let all = self.asked.entry(asker.clone()).or_default();
                all.insert(end.clone());
                let count = all.len();
                if asker.asked == RevocationCause::Logout {
                    self.count_logouts(&asker.principal, count - 1, count);
                }
            }
        }
        self.ends.insert(end);
        match new.subject.clone() {
            RevocationSubject::Session(id) => _ = self.sessions.insert(id, new),
            RevocationSubject::Connection(id) => _ = self.connections.insert(id, new),
            RevocationSubject::Principal(name) => _ = self.principals.insert(name, new),
            RevocationSubject::Logins(name) => _ = self.logins.insert(name, new),
            RevocationSubject::Everybody => self.everybody = Some(new),
            RevocationSubject::Family { family, below } => {
                self.families.entry(family).or_default().insert(below, new);
            }
        }
    }

    fn remove(&mut self, subject: &RevocationSubject) {
        let removed = match subject {
            RevocationSubject::Session(id) => self.sessions.remove(id),
            RevocationSubject::Connection(id) => self.connections.remove(id),
            RevocationSubject::Principal(name) => self.principals.remove(name),
            RevocationSubject::Logins(name) => self.logins.remove(name),
            RevocationSubject::Everybody => self.everybody.take(),
            RevocationSubject::Family { family, below } => {
                let removed = self
                    .families
                    .get_mut(family)
                    .and_then(|all| all.remove(below));
                if self.families.get(family).is_some_and(BTreeMap::is_empty) {
                    self.families.remove(family);
                }
                removed
            }
        };
        let Some(Revocation { until, asker, .. }) = removed else {
            return;
        };
        let end = (until, subject.clone());
        self.ends.remove(&end);
        self.ended.remove(&end);
        if let Some(asker) = asker
            && let Some(all) = self.asked.get_mut(&asker)
        {
            let was_there = all.remove(&end);
            let count = all.len();
            if count == 0 {
                self.asked.remove(&asker);
            }
            if was_there && asker.asked == RevocationCause::Logout {
                self.count_logouts(&asker.principal, count + 1, count);
            }
        }
    }

    /// A caller has so many instead of so many.
    fn count_logouts(&mut self, principal: &str, before: usize, after: usize) {
        self.logouts = self.logouts - before + after;
        self.by_logouts.remove(&(before, principal.to_owned()));
        if after > 0 {
            self.by_logouts.insert((after, principal.to_owned()));
        }
    }

    /// Room for logouts of all callers together has ended: those of the caller with the most become
    /// one. `None` if nobody has any.
    pub fn collapse_largest(&mut self, now: u64) -> Option<Revocation> {
        let (_, principal) = self.by_logouts.last()?.clone();
        let asker = RevocationCaller {
            asked: RevocationCause::Logout,
            principal: principal.clone(),
        };
        let first = self.asked.get(&asker)?.first()?.1.clone();
        let one = self.all_logins(&principal, &self.find(&first)?.clone(), now);
        for subject in self.logouts_until(&principal, one.before) {
            self.remove(&subject);
        }
        self.insert(one.clone());
        Some(one)
    }

    /// Logins that were ended one by one.
    pub fn logouts(&self) -> usize {
        self.logouts
    }

    /// Forgets all that stand for all logins of somebody; returns up to when those were issued.
    pub fn drop_logins(&mut self) -> Option<(u64, u64)> {
        let all: Vec<Revocation> = self.logins.values().cloned().collect();
        all.iter().for_each(|one| self.remove(&one.subject));
        let before = all.iter().map(|one| one.before).max()?;
        Some((before, all.iter().map(|one| one.until).max()?))
    }
}

#[cfg(test)]
mod tests;
