//! On whose behalf a stream is open, and for how long.

use std::time::Duration;

use baton_session::clock::unix_millis;
use baton_session::id::{ConnectionId, SessionId};
use tokio::time::sleep;

use crate::auth::Caller;

#[derive(Clone, Debug)]
pub struct Standing {
    pub caller: Caller,
    pub connection: Option<ConnectionId>,
    pub session: Option<SessionId>,
}

impl Standing {
    pub fn of(caller: &Caller) -> Self {
        Self {
            caller: caller.clone(),
            connection: None,
            session: None,
        }
    }

    pub fn on(mut self, connection: &ConnectionId) -> Self {
        self.connection = Some(connection.clone());
        self
    }

    pub fn reading(mut self, session: &SessionId) -> Self {
        self.session = Some(session.clone());
        self
    }

    /// Resolves when the stream may not go on: the credential it was opened with has expired. Whoever
    /// has a newer one comes back with it.
    pub async fn lapses(&self) {
        let Some(expires) = self.caller.expires else {
            return std::future::pending().await;
        };
        loop {
            let left = (expires * 1000).saturating_sub(unix_millis());
            if left == 0 {
                return;
            }
            // By the clock on the wall, which may be set: no long sleep.
            sleep(Duration::from_millis(left.min(30_000))).await;
        }
    }
}
