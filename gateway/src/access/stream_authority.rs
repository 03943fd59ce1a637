//! On whose behalf a stream is open, and for how long.

use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use baton_session::clock::unix_millis;
use baton_session::id::{ConnectionId, SessionId};
use baton_session::token::ConnectionToken;
use tokio::time::sleep;

use crate::auth::Caller;
use crate::auth::revocations::{KnownRevocations, RevocationWatch, WatchedSubject};
use crate::limits::StreamPermit;

#[derive(Clone)]
pub struct StreamAuthority {
    pub caller: Caller,
    /// With when its token was issued, in seconds since 1970.
    pub connection: Option<(ConnectionId, u64)>,
    pub session: Option<SessionId>,
    /// The owner of the session, if the caller only watches it.
    owner: Option<String>,
    /// Its place among the caller's streams, if they are counted.
    pub permit: Option<Arc<StreamPermit>>,
    /// Made when it is first waited for, and kept: a stream waits for every event anew.
    interest: OnceLock<Arc<RevocationWatch>>,
}

impl StreamAuthority {
    pub fn of(caller: &Caller) -> Self {
        Self {
            caller: caller.clone(),
            connection: None,
            session: None,
            owner: None,
            permit: None,
            interest: OnceLock::new(),
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
        self.interest = OnceLock::new();
        self.connection = Some((connection, issued));
        self
    }

    pub fn on(mut self, connection: &ConnectionToken) -> Self {
        self = self.since(connection.id.clone(), connection.issued);
        let is_own = *connection.principal == *self.caller.principal;
        self.owner = (!is_own).then(|| connection.principal.clone());
        self
    }

    pub fn with(mut self, permit: Option<StreamPermit>) -> Self {
        self.permit = permit.map(Arc::new);
        self
    }

    pub fn reading(mut self, session: &SessionId) -> Self {
        self.session = Some(session.clone());
        self.interest = OnceLock::new();
        self
    }

    /// The stream may not go on.
    pub fn is_over(&self, revocations: &KnownRevocations) -> bool {
        self.left() == Some(0)
            || self.caller.credential.ended.is_cancelled()
            || self.is_revoked(revocations)
    }

    fn is_revoked(&self, revocations: &KnownRevocations) -> bool {
        let connection = self.connection.as_ref();
        let connection = connection.map(|(id, issued)| (id, *issued));
        // A session is read with what the connection was given.
        let session = connection.and_then(|(_, issued)| Some((self.session.as_ref()?, issued)));
        let (owner, login) = (self.owner.as_deref(), self.caller.login.as_ref());
        let principal = &self.caller.principal;
        revocations.is_revoked(principal, connection, session)
            || owner.is_some_and(|owner| revocations.is_revoked(owner, connection, session))
            || login.is_some_and(|login| {
                revocations.is_login_over(principal, &login.family, login.issued)
            })
    }

    /// How long the credential is good, in milliseconds.
    fn left(&self) -> Option<u64> {
        let expires = self.caller.expires?;
        Some((expires * 1000).saturating_sub(unix_millis()))
    }

    /// Resolves when the stream may not go on: the credential it was opened with has expired or is
    /// gone, or something it depends on was revoked. A client with a newer credential reconnects
    /// with it.
    pub async fn lapses(&self, revocations: &KnownRevocations) {
        let interest = || Arc::new(revocations.interest(self.concerns()));
        let interest = self.interest.get_or_init(interest);
        loop {
            let mut woken = pin!(interest.woken());
            woken.as_mut().enable();
            if self.is_over(revocations) {
                return;
            }
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
                () = woken => {}
            }
        }
    }

    fn concerns(&self) -> Vec<WatchedSubject> {
        let owner = self.owner.as_deref().map(Into::into);
        let principals = [Some(self.caller.principal.clone()), owner];
        let connection = self.connection.as_ref().map(|(id, _)| id.clone());
        let login = self.caller.login.as_ref().map(|login| login.family.clone());
        let principals = principals
            .into_iter()
            .flatten()
            .map(WatchedSubject::Principal);
        principals
            .chain(connection.map(WatchedSubject::Connection))
            .chain(self.session.clone().map(WatchedSubject::Session))
            .chain(login.map(WatchedSubject::Login))
            .collect()
    }
}
