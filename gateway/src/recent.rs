//! Which session a request went to, for those that came by this gateway of late: `$/cancel_request` names a
//! request and no session. What came by another gateway has to be searched for, and not too often.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use baton_session::id::SessionId;
use tokio::time::Instant;

/// So many requests are remembered.
const REQUESTS: usize = 16 << 10;
/// A principal may have so many searches at once, and one more each second.
const SEARCHES: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct Recent(Mutex<Requests>);

#[derive(Default)]
struct Requests {
    /// By the key that a repetition would have.
    sessions: HashMap<Arc<str>, SessionId>,
    order: VecDeque<Arc<str>>,
    /// Those who have searched, and when they could do so as if they had not.
    searches: HashMap<Arc<str>, Instant>,
}

impl Recent {
    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.0.lock().expect("held for moments only")
    }

    pub fn note(&self, key: &str, session: &SessionId) {
        if key.is_empty() {
            return;
        }
        let key: Arc<str> = key.into();
        let mut requests = self.requests();
        if requests
            .sessions
            .insert(key.clone(), session.clone())
            .is_some()
        {
            return;
        }
        requests.order.push_back(key);
        if requests.order.len() > REQUESTS
            && let Some(oldest) = requests.order.pop_front()
        {
            requests.sessions.remove(&oldest);
        }
    }

    pub fn session_of(&self, key: &str) -> Option<SessionId> {
        self.requests().sessions.get(key).cloned()
    }

    /// Whether this principal may have a request searched for now.
    pub fn may_search(&self, principal: &str) -> bool {
        let now = Instant::now();
        let mut requests = self.requests();
        if requests.searches.len() > REQUESTS {
            requests.searches.retain(|_, free| *free > now);
        }
        let free = requests.searches.entry(principal.into()).or_insert(now);
        let next = (*free).max(now) + PAUSE;
        let may = next <= now + PAUSE * SEARCHES;
        if may {
            *free = next;
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use baton_session::id::Partition;

    use super::*;

    #[test]
    fn the_latest_are_remembered() {
        let recent = Recent::default();
        let session = SessionId::mint(Partition(0));
        for number in 0..=REQUESTS {
            recent.note(&number.to_string(), &session);
        }
        recent.note("", &session);
        recent.note("7", &session);
        assert_eq!(recent.session_of("0"), None);
        assert_eq!(recent.session_of("1"), Some(session));
        assert_eq!(recent.requests().sessions.len(), REQUESTS);
    }

    #[tokio::test(start_paused = true)]
    async fn searches_are_few_and_each_principal_has_its_own() {
        let recent = Recent::default();
        let allowed = |name| (0..100).filter(|_| recent.may_search(name)).count();
        assert_eq!(allowed("a"), 5);
        assert_eq!(allowed("b"), 5);
        tokio::time::advance(PAUSE * 2).await;
        assert_eq!(allowed("a"), 2);
    }
}
