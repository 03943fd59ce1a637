//! On whose behalf a stream is open, and for how long.

use std::sync::Arc;
use std::time::Duration;

use baton_session::clock::unix_millis;
use baton_session::id::{ConnectionId, SessionId};
use baton_session::token::Connection;
use tokio::time::sleep;

use crate::auth::Caller;
use crate::limits::Permit;
use crate::revoked::Revoked;

#[derive(Clone)]
pub struct Standing {
    pub caller: Caller,
    /// With when its token was issued, in seconds since 1970.
    pub connection: Option<(ConnectionId, u64)>,
    pub session: Option<SessionId>,
    /// Whose session it is, if somebody else may watch it.
    owner: Option<String>,
    /// Its place among the caller's streams, if they are counted.
    pub permit: Option<Arc<Permit>>,
}

impl Standing {
    pub fn of(caller: &Caller) -> Self {
        Self {
            caller: caller.clone(),
            connection: None,
            session: None,
            owner: None,
            permit: None,
        }
    }

    /// No longer than this, in seconds since 1970.
    pub fn until(mut self, end: u64) -> Self {
        let expires = self.caller.expires.unwrap_or(u64::MAX);
        self.caller.expires = Some(expires.min(end));
        self
    }

    /// On a connection of the caller's own that is about to be opened.
    pub fn since(mut self, connection: ConnectionId, issued: u64) -> Self {
        self.connection = Some((connection, issued));
        self
    }

    pub fn on(mut self, connection: &Connection) -> Self {
        self = self.since(connection.id.clone(), connection.issued);
        let is_own = *connection.principal == *self.caller.principal;
        self.owner = (!is_own).then(|| connection.principal.clone());
        self
    }

    pub fn with(mut self, permit: Option<Permit>) -> Self {
        self.permit = permit.map(Arc::new);
        self
    }

    pub fn reading(mut self, session: &SessionId) -> Self {
        self.session = Some(session.clone());
        self
    }

    /// The stream may not go on.
    pub fn is_over(&self, revoked: &Revoked) -> bool {
        self.left() == Some(0)
            || self.caller.credential.ended.is_cancelled()
            || self.is_revoked(revoked)
    }

    fn is_revoked(&self, revoked: &Revoked) -> bool {
        let connection = self.connection.as_ref();
        let connection = connection.map(|(id, issued)| (id, *issued));
        // A session is read with what the connection was given.
        let session = connection.and_then(|(_, issued)| Some((self.session.as_ref()?, issued)));
        let (owner, login) = (self.owner.as_deref(), self.caller.login.as_deref());
        revoked.is_revoked(&self.caller.principal, connection, session)
            || owner.is_some_and(|owner| revoked.is_revoked(owner, connection, session))
            || login.is_some_and(|family| revoked.is_family_revoked(family, 0))
    }

    /// How long the credential is good, in milliseconds.
    fn left(&self) -> Option<u64> {
        let expires = self.caller.expires?;
        Some((expires * 1000).saturating_sub(unix_millis()))
    }

    /// Resolves when the stream may not go on: the credential it was opened with has expired or is gone, or
    /// something it stands on was revoked. Whoever has a newer one comes back with it.
    pub async fn lapses(&self, revoked: &Revoked) {
        let mut news = revoked.news();
        while !self.is_over(revoked) {
            // By the clock on the wall, which may be set: no long sleep.
            let expires = async {
                match self.left() {
                    Some(left) => sleep(Duration::from_millis(left.min(30_000))).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = expires => {}
                () = self.caller.credential.ended.cancelled() => {}
                _ = news.changed() => {}
            }
        }
    }
}
