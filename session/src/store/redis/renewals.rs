//! Keeps leases and streams alive.

use std::time::Duration;

use super::outbox::window;
use super::reply::ScriptReply;
use super::scripts::{ScriptCall, scripts};
use super::{CONNECTION_TTL, RedisStore};
use crate::id::SessionId;
use crate::store::{ClaimToken, LastWritten, Result, STREAM_TTL, StreamId, StreamTouch};

impl RedisStore {
    pub(super) async fn renew_partition(
        &self,
        claims: Vec<&(SessionId, ClaimToken)>,
        lease: Duration,
    ) -> Result<Vec<SessionId>> {
        let mut call = ScriptCall::new(&scripts().renew).num(lease.as_millis() as u64);
        for (session, token) in &claims {
            call = call
                .key(self.keys.session(session))
                .arg(session.as_str())
                .arg(&*token.0);
        }
        let mut items = self.run(call).await?.items()?;
        let mut lost = Vec::new();
        while !items.is_empty() {
            lost.push(claims[items.number()? as usize - 1].0.clone());
        }
        Ok(lost)
    }

    /// See [`GatewayStore::last_written`](crate::store::GatewayStore::last_written).
    pub(super) async fn written_by(
        &self,
        stream: &StreamId,
        holder: &str,
    ) -> Result<Option<LastWritten>> {
        let (k, connection) = (&self.keys, &stream.connection);
        let mut command = redis::cmd("HMGET");
        match &stream.session {
            Some(session) => {
                let fields = ["s", "b", "t"].map(|kind| format!("{kind}:{connection}"));
                command.arg(k.parties(session)).arg(&fields);
            }
            None => {
                let fields = ["holder", "before", "written"];
                command.arg(k.connection(connection)).arg(&fields);
            }
        }
        let mut items = self.client.query(&command).await?.items()?;
        let mut field = || ScriptReply(items.next()?).optional_text();
        let (held, before, cursor) = (field()?, field()?, field()?);
        let held = held.unwrap_or_default();
        let by = held.split_once(' ').map_or(held.as_str(), |(by, _)| by);
        Ok((by == holder).then_some(LastWritten {
            cursor,
            is_final: before.is_none(),
        }))
    }

    /// False if another holder has the stream.
    pub(super) async fn touch(&self, touch: &StreamTouch, keep: bool) -> Result<bool> {
        let written = touch.written.as_deref().unwrap_or_default();
        let delivered = touch.delivered.map(|delivered| delivered.upto.to_string());
        let delivered = delivered.unwrap_or_default();
        let settled = touch.delivered.map_or(0, |delivered| delivered.settled);
        let (k, connection) = (&self.keys, &touch.stream.connection);
        let call = match &touch.stream.session {
            Some(session) => {
                let ttl = if keep {
                    STREAM_TTL.as_millis() as u64
                } else {
                    0
                };
                ScriptCall::new(&scripts().touch_session_stream)
                    .key(k.parties(session))
                    .arg(connection.as_str())
                    .arg(&touch.holder)
                    .arg(written)
                    .num(ttl)
            }
            None => {
                let call = ScriptCall::new(&scripts().touch_connection_stream)
                    .key(k.connection(connection))
                    .key(k.outbox(connection))
                    .arg(&touch.holder)
                    .arg(written)
                    .num(keep.into())
                    .num(CONNECTION_TTL)
                    .arg(&delivered)
                    .num(settled);
                window(call)
            }
        };
        Ok(self.run(call).await?.optional_number()? == 1)
    }
}
