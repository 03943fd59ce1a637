//! What clients say of themselves, by connection: gateways write it, and workers read it. It has a
//! key of its own, because a worker's user has no access to connections and their outboxes.

use bytes::Bytes;

use super::{CONNECTION_TTL, RedisStore};
use crate::id::ConnectionId;
use crate::store::{Error, Result};

impl RedisStore {
    pub(super) async fn keep_description(
        &self,
        connection: &ConnectionId,
        description: &Bytes,
    ) -> Result<()> {
        let mut command = redis::cmd("SET");
        command
            .arg(self.keys.client(connection))
            .arg(&**description);
        command.arg("EX").arg(CONNECTION_TTL);
        match self.client.query(&command).await {
            Ok(_) => Ok(()),
            Err(error) => not_allowed::<()>(error).map(drop),
        }
    }

    pub(super) async fn description_of(&self, connection: &ConnectionId) -> Result<Option<Bytes>> {
        let mut command = redis::cmd("GET");
        command.arg(self.keys.client(connection));
        match self.client.query(&command).await {
            Ok(reply) => reply.optional_bytes(),
            Err(error) => not_allowed(error),
        }
    }
}

/// The Redis users of the version before cannot use this key. Everything else goes on without it.
fn not_allowed<T>(error: Error) -> Result<Option<T>> {
    match error {
        Error::Broken(text) if text.contains("NOPERM") => {
            tracing::warn!(
                error = text,
                "clients' descriptions cannot be used: create the Redis users again with \
                 `baton store users`"
            );
            Ok(None)
        }
        error => Err(error),
    }
}
