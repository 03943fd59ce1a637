//! Which session a request went to. A cancel names its request alone, and comes by any gateway.
//!
//! A session and a connection have different partitions, so this is a step beside the one that
//! takes the request. Nobody tells the connection when a request is done: when there are many
//! notes, some are compared with their sessions, with one request in 16. So there are hardly more
//! than live.

use futures_util::future::join_all;
use redis::Pipeline;

use super::scripts::{ScriptCall, scripts};
use super::{CONNECTION_TTL, RedisStore, reply};
use crate::clock::unix_millis;
use crate::command::IdempotencyKey;
use crate::id::{ConnectionId, SessionId};
use crate::store::{EnqueueRequest, Result};

/// From so many notes of a connection on, some are looked at. As many are still kept in one piece
/// by Redis.
const MANY: u64 = 128;
const LOOKED_AT: u64 = 128;
/// Longer than the step that takes a request is tried for.
const LEFT_ALONE_MS: u64 = 60_000;

/// One that may be done with.
struct RequestNote {
    key: String,
    session: SessionId,
    /// As it is kept.
    text: String,
}

impl RedisStore {
    pub(super) async fn note_request(&self, request: &EnqueueRequest) -> Result<()> {
        // Keys are hashes, so that is one in 16: most requests should cost no look.
        let looks = request.key.key.ends_with('0');
        if !looks && self.only_noted(request).await {
            return Ok(());
        }
        let notes = self.noted(request, &[]).await?;
        let waits = notes.iter().map(|note| self.waits(note));
        let waits = join_all(waits).await;
        let done = notes.into_iter().zip(waits);
        // One that cannot be asked after stays.
        let done: Vec<RequestNote> = done
            .filter_map(|(note, waits)| matches!(waits, Ok(false)).then_some(note))
            .collect();
        if !done.is_empty() {
            self.noted(request, &done).await?;
        }
        Ok(())
    }

    /// The first part of `note_request.lua`, without a script, which costs several times as much.
    /// The time is this process's: it matters only for how long a note is left alone.
    async fn only_noted(&self, request: &EnqueueRequest) -> bool {
        let key = self.keys.requests(&request.command.connection);
        let note = format!("{} {}", request.session.as_str(), unix_millis());
        let mut commands = Pipeline::with_capacity(2);
        commands.hset(&key, &request.key.key, note);
        commands.cmd("EXPIRE").arg(&key).arg(CONNECTION_TTL);
        self.client.write_once(&commands, &key).await
    }

    async fn noted(
        &self,
        request: &EnqueueRequest,
        done: &[RequestNote],
    ) -> Result<Vec<RequestNote>> {
        let connection = &request.command.connection;
        let mut call = ScriptCall::new(&scripts().note_request)
            .key(self.keys.requests(connection))
            .arg(&request.key.key)
            .arg(request.session.as_str())
            .num(CONNECTION_TTL)
            .num(MANY)
            .num(LOOKED_AT)
            .num(LEFT_ALONE_MS);
        for note in done {
            call = call.arg(&note.key).arg(&note.text);
        }
        let mut items = self.run_durably(call).await?.items()?;
        let mut notes = Vec::new();
        while let Some(key) = items.next_text()? {
            notes.push(RequestNote {
                key,
                session: session(&items.text()?)?,
                text: items.text()?,
            });
        }
        Ok(notes)
    }

    async fn waits(&self, note: &RequestNote) -> Result<bool> {
        let key = IdempotencyKey::key_bytes(&note.key).unwrap_or_default();
        let call = ScriptCall::new(&scripts().request_waits)
            .key(self.keys.session(&note.session))
            .key(self.keys.inbox(&note.session))
            .arg(&key);
        Ok(self.client.run_briefly(call).await?.optional_number()? == 1)
    }

    pub(super) async fn noted_session(
        &self,
        connection: &ConnectionId,
        key: &str,
    ) -> Result<Option<SessionId>> {
        let mut command = redis::cmd("HGET");
        command.arg(self.keys.requests(connection)).arg(key);
        let note = self.client.query(&command).await?.optional_text()?;
        let note = note.as_deref().and_then(|note| note.split_once(' '));
        note.map(|(id, _)| session(id)).transpose()
    }
}

fn session(text: &str) -> Result<SessionId> {
    SessionId::parse(text).ok_or_else(|| reply::unexpected(text))
}
