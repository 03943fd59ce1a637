//! A principal's open streams on this gateway.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard};

use baton_session::id::ConnectionId;
use baton_session::sync::MutexExt as _;

use super::account::CallerAccount;

/// Under which a connection's stream, or its stream of a session, is counted.
pub fn stream_name(connection: &ConnectionId, session: Option<&str>) -> String {
    format!("{connection}/{}", session.unwrap_or_default())
}

#[derive(Default)]
pub(super) struct StreamSlots {
    open: Mutex<OpenStreams>,
}

/// A stream that its client opens again takes the place of the one before, which may hang on for a
/// while if nobody reads it: both count as one.
#[derive(Default)]
struct OpenStreams {
    /// By name, with the permit that has it.
    places: HashMap<String, u64>,
    /// All that have not ended, also those whose place was taken.
    alive: u64,
    last: u64,
}

impl StreamSlots {
    fn open(&self) -> MutexGuard<'_, OpenStreams> {
        self.open.locked()
    }

    pub fn is_empty(&self) -> bool {
        self.open().alive == 0
    }
}

impl CallerAccount {
    /// `None` if there are too many. Without a name nothing takes the stream's place.
    pub(super) fn permit(
        self: &Arc<Self>,
        name: Option<String>,
        most: NonZeroU64,
    ) -> Option<StreamPermit> {
        let mut open = self.streams.open();
        let number = open.last + 1;
        let name = name.unwrap_or_else(|| number.to_string());
        let is_new = !open.places.contains_key(&name);
        let full = open.places.len() as u64 >= most.get();
        // Those that hang on are a client's misfortune once, and not for ever.
        if is_new && full || open.alive >= most.get().saturating_mul(2) {
            return None;
        }
        open.last = number;
        open.alive += 1;
        open.places.insert(name.clone(), number);
        let account = self.clone();
        Some(StreamPermit {
            account,
            name,
            number,
        })
    }
}

/// An open stream's place, until it is dropped.
pub struct StreamPermit {
    account: Arc<CallerAccount>,
    name: String,
    number: u64,
}

impl StreamPermit {
    /// It turns out which stream it is, and takes the place of the one before.
    pub fn rename(&mut self, name: String) {
        let mut open = self.account.streams.open();
        if open.places.get(&self.name) == Some(&self.number) {
            open.places.remove(&self.name);
        }
        open.places.insert(name.clone(), self.number);
        self.name = name;
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut open = self.account.streams.open();
        open.alive -= 1;
        if open.places.get(&self.name) == Some(&self.number) {
            open.places.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: NonZeroU64 = NonZeroU64::new(2).unwrap();

    fn account() -> Arc<CallerAccount> {
        Arc::new(CallerAccount::new("a".into()))
    }

    #[test]
    fn a_place_is_given_back() {
        let account = account();
        let one = account.permit(None, TWO).unwrap();
        let two = account.permit(None, TWO).unwrap();
        assert!(account.permit(None, TWO).is_none());
        drop(one);
        let three = account.permit(None, TWO).unwrap();
        assert!(account.permit(None, TWO).is_none());
        drop((two, three));
        assert!(account.streams.is_empty());
        assert!(account.streams.open().places.is_empty());
    }

    #[test]
    fn a_stream_and_the_one_that_took_it_over_count_as_one() {
        let account = account();
        let named = |name: &str| account.permit(Some(name.to_owned()), TWO);
        let (first, _other) = (named("a").unwrap(), named("b").unwrap());
        let second = named("a").expect("it takes the place of the first");
        assert!(named("c").is_none());
        drop(first);
        assert!(named("c").is_none(), "the place is the second's");
        drop(second);
        assert!(named("c").is_some());
    }

    #[test]
    fn streams_that_hang_on_are_bounded_as_well() {
        let account = account();
        let mut held = Vec::new();
        while let Some(permit) = account.permit(Some("a".into()), TWO) {
            held.push(permit);
        }
        assert_eq!(held.len(), 4);
    }

    #[test]
    fn a_socket_takes_the_place_of_the_one_it_resumes() {
        let account = account();
        let _lost = account.permit(Some("a".into()), TWO).unwrap();
        let mut back = account.permit(None, TWO).unwrap();
        assert!(account.permit(None, TWO).is_none());
        back.rename("a".into());
        let _other = account.permit(None, TWO).unwrap();
        assert!(account.permit(None, TWO).is_none());
    }
}
