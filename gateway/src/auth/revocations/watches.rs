//! The streams that have to check again after a revocation. All others sleep on: one caller's
//! logouts cost the others nothing.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use baton_session::id::{ConnectionId, SessionId};
use baton_session::revocation::RevocationSubject;
use baton_session::sync::MutexExt as _;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Something that a stream stands on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WatchedSubject {
    Session(SessionId),
    Connection(ConnectionId),
    Principal(Arc<str>),
    /// By its family.
    Login(Arc<str>),
}

impl WatchedSubject {
    /// `None` for what no stream stands on.
    fn of(subject: &RevocationSubject) -> Option<Self> {
        Some(match subject {
            RevocationSubject::Session(id) => Self::Session(id.clone()),
            RevocationSubject::Connection(id) => Self::Connection(id.clone()),
            RevocationSubject::Principal(name) | RevocationSubject::Logins(name) => {
                Self::Principal(name.as_str().into())
            }
            RevocationSubject::Family { family, below: 1 } => Self::Login(family.as_str().into()),
            RevocationSubject::Family { .. } | RevocationSubject::Everybody => return None,
        })
    }
}

#[derive(Default)]
pub struct RevocationWatches {
    streams: AtomicU64,
    /// Those to be woken, by their numbers.
    by_concern: Mutex<HashMap<WatchedSubject, HashMap<u64, Arc<Notify>>>>,
}

/// Given up when it is dropped.
pub struct RevocationWatch {
    all: Arc<RevocationWatches>,
    number: u64,
    own: Vec<WatchedSubject>,
    woken: Arc<Notify>,
}

impl RevocationWatches {
    fn map(&self) -> MutexGuard<'_, HashMap<WatchedSubject, HashMap<u64, Arc<Notify>>>> {
        self.by_concern.locked()
    }

    pub fn register(all: &Arc<Self>, own: Vec<WatchedSubject>) -> RevocationWatch {
        let number = all.streams.fetch_add(1, Ordering::Relaxed);
        let woken = Arc::new(Notify::new());
        let mut map = all.map();
        for concern in &own {
            let concerned = map.entry(concern.clone()).or_default();
            concerned.insert(number, woken.clone());
        }
        drop(map);
        RevocationWatch {
            all: all.clone(),
            number,
            own,
            woken,
        }
    }

    pub fn wake(&self, subject: &RevocationSubject) {
        if *subject == RevocationSubject::Everybody {
            return self.wake_all();
        }
        let concern = WatchedSubject::of(subject);
        if let Some(concerned) = concern.and_then(|concern| self.map().get(&concern).cloned()) {
            concerned.values().for_each(|one| one.notify_waiters());
        }
    }

    pub fn wake_all(&self) {
        let all: Vec<_> = self.map().values().cloned().collect();
        let all = all.iter().flat_map(|concerned| concerned.values());
        all.for_each(|one| one.notify_waiters());
    }
}

impl RevocationWatch {
    /// To be asked for before looking, so that nothing falls between the two.
    pub fn woken(&self) -> Notified<'_> {
        self.woken.notified()
    }
}

impl Drop for RevocationWatch {
    fn drop(&mut self) {
        let mut map = self.all.map();
        for concern in &self.own {
            if let Some(concerned) = map.get_mut(concern) {
                concerned.remove(&self.number);
                if concerned.is_empty() {
                    map.remove(concern);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn only_those_are_woken_whom_it_concerns_and_nothing_is_left_of_them() {
        let all = Arc::new(RevocationWatches::default());
        let of = |name: &str, login: &str| {
            let own = vec![
                WatchedSubject::Principal(name.into()),
                WatchedSubject::Login(login.into()),
            ];
            RevocationWatches::register(&all, own)
        };
        let (alice, bob) = (of("alice", "a"), of("bob", "b"));
        let (mut hers, mut his) = (pin!(alice.woken()), pin!(bob.woken()));
        assert!(!hers.as_mut().enable() && !his.as_mut().enable());
        let family = |family: &str, below| RevocationSubject::Family {
            family: family.into(),
            below,
        };
        all.wake(&family("b", 2));
        all.wake(&RevocationSubject::Logins("carol".into()));
        assert!(his.as_mut().now_or_never().is_none());
        all.wake(&family("b", 1));
        assert!(his.as_mut().now_or_never().is_some());
        assert!(hers.as_mut().now_or_never().is_none());
        all.wake_all();
        assert!(hers.as_mut().now_or_never().is_some());
    }

    #[test]
    fn who_has_gone_is_forgotten() {
        let all = Arc::new(RevocationWatches::default());
        drop(RevocationWatches::register(
            &all,
            vec![WatchedSubject::Login("a".into())],
        ));
        assert!(all.map().is_empty());
    }
}
