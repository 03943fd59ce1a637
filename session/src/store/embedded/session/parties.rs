//! The connections that a session knows.

use std::collections::HashMap;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::clock::unix_millis;
use crate::id::ConnectionId;
use crate::route::{DeliveryPath, Route};
use crate::store::{AttachRequest, KEPT_PARTIES, OUTBOX_TTL};

/// A connection as the session sees it.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionParty {
    /// Holder of its session stream, and until when that counts.
    #[serde(skip)]
    pub stream: Option<(String, Instant)>,
    /// The holder before, until it has said how far it has written.
    #[serde(skip)]
    pub before: Option<String>,
    pub written: Option<String>,
    /// The holder of its connection stream was told to tail this session.
    pub(super) watched: bool,
    /// The last entry of its outbox that had told so, and does not count any more.
    #[serde(default)]
    pub(super) left: u64,
    pub(super) route: Route,
    pub(super) directives: Vec<AttachRequest>,
    /// When it was last heard of, in milliseconds since 1970. Earlier versions did not write it
    /// down.
    #[serde(default)]
    seen: u64,
}

impl SessionParty {
    /// Reads on its connection stream; whether its holder knows is another matter.
    pub(super) fn reading_from(first: u64, watched: bool) -> Self {
        let mut party = Self {
            watched,
            ..Self::default()
        };
        party.route.switch(first, DeliveryPath::Connection);
        party
    }

    /// Chooses the stream for what this connection is about to receive.
    pub(super) fn choose_stream(&mut self, watched: bool) -> Option<DeliveryPath> {
        let via = if self.has_stream() {
            DeliveryPath::Session
        } else {
            DeliveryPath::Connection
        };
        self.watched |= watched;
        (via == DeliveryPath::Session || self.watched).then_some(via)
    }

    /// Nothing is known of it but its name.
    pub(super) fn is_blank(&self) -> bool {
        let blank = Self {
            seen: self.seen,
            ..Self::default()
        };
        *self == blank
    }

    fn has_stream(&self) -> bool {
        let until = self.stream.as_ref().map(|(_, until)| *until);
        until.is_some_and(|until| until > Instant::now())
    }
}

#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionParties(HashMap<ConnectionId, SessionParty>);

impl SessionParties {
    pub fn of(connection: ConnectionId, party: SessionParty) -> Self {
        let mut parties = Self::default();
        let seen = unix_millis();
        parties.0.insert(connection, SessionParty { seen, ..party });
        parties
    }

    pub fn get(&self, connection: &ConnectionId) -> Option<&SessionParty> {
        self.0.get(connection)
    }

    pub fn any(&self, is_so: impl Fn(&SessionParty) -> bool) -> bool {
        self.0.values().any(is_so)
    }

    /// One that is known, and is heard of now.
    pub fn hear_of(&mut self, connection: &ConnectionId) -> Option<&mut SessionParty> {
        let party = self.0.get_mut(connection)?;
        party.seen = unix_millis();
        Some(party)
    }

    /// One that is heard of now, known or not. Others whose connections have ended long ago are
    /// forgotten.
    pub fn join(&mut self, connection: &ConnectionId) -> &mut SessionParty {
        let now = unix_millis();
        if self.0.len() >= KEPT_PARTIES && !self.0.contains_key(connection) {
            self.forget_seen_before(now.saturating_sub(OUTBOX_TTL.as_millis() as u64), now);
        }
        let party = self.0.entry(connection.clone()).or_default();
        party.seen = now;
        party
    }

    pub fn remove(&mut self, connection: &ConnectionId) {
        self.0.remove(connection);
    }

    fn forget_seen_before(&mut self, limit: u64, now: u64) {
        self.0.retain(|_, party| {
            if party.seen == 0 {
                party.seen = now;
            }
            party.seen >= limit || party.has_stream()
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::id::Partition;

    #[test]
    fn connections_that_ended_long_ago_are_forgotten_when_there_are_many() {
        let mut parties = SessionParties::default();
        let named: Vec<ConnectionId> = (0..KEPT_PARTIES)
            .map(|_| ConnectionId::mint(Partition(0)))
            .collect();
        for connection in &named {
            parties.join(connection);
        }
        let long_ago = unix_millis() - OUTBOX_TTL.as_millis() as u64 - 1;
        for connection in &named[1..] {
            parties.0.get_mut(connection).unwrap().seen = long_ago;
        }
        // Of an earlier version: nobody knows when it was heard of.
        parties.0.get_mut(&named[1]).unwrap().seen = 0;
        let until = Instant::now() + Duration::from_secs(60);
        parties.0.get_mut(&named[2]).unwrap().stream = Some(("holder".into(), until));
        parties.hear_of(&named[3]);
        // Somebody who is known is no occasion.
        parties.join(&named[0]);
        assert_eq!(parties.0.len(), KEPT_PARTIES);
        let newcomer = ConnectionId::mint(Partition(0));
        parties.join(&newcomer);
        for connection in named[..4].iter().chain([&newcomer]) {
            assert!(parties.get(connection).is_some());
        }
        assert_eq!(parties.0.len(), 5);
    }
}
