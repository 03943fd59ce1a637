//! A connection's outbox.

use super::reply;
use super::scripts::{ScriptCall, scripts};
use super::{CONNECTION_TTL, RedisStore};
use crate::command::IdempotencyKey;
use crate::event::{Event, Frame};
use crate::id::{ConnectionId, Nonce, SessionId};
use crate::store::{
    OUTBOX_BYTES, OUTBOX_TRIMMED_AT_ONCE, OUTBOX_WATCHES, OUTBOX_WINDOW_BYTES,
    OUTBOX_WINDOW_ENTRIES, OUTBOX_WINDOW_POSITIONS, PostOutcome, REMEMBERED_KEYS, Result,
};

impl RedisStore {
    pub(super) async fn post_event(
        &self,
        to: &ConnectionId,
        event: Event,
        key: &IdempotencyKey,
    ) -> Result<PostOutcome> {
        let watch = match &event {
            Event::Watch { session, .. } => session.to_string(),
            _ => String::new(),
        };
        let nonce = Nonce::random();
        let frame = Frame::encode(nonce, &[event]);
        let call = self.posting(to, key, &frame, &watch, OUTBOX_BYTES);
        let mut items = self.run_durably(call).await?.items()?;
        match items.text()?.as_str() {
            "new" => {
                let number = items.number()?;
                Ok(PostOutcome::New { number, nonce })
            }
            "conflict" => Ok(PostOutcome::Conflict),
            "full" => Ok(PostOutcome::Full),
            "known" => {
                let number = items.number()?;
                let frame = reply::frame(number, items.bytes()?)?;
                Ok(PostOutcome::Known(frame.events[0].clone()))
            }
            "delivered" => {
                let watch = SessionId::parse(&items.text()?);
                let watch = watch.map(|session| Event::Watch { session, after: 0 });
                Ok(watch.map_or(PostOutcome::Delivered, PostOutcome::Known))
            }
            other => Err(reply::unexpected(other)),
        }
    }

    pub(super) async fn outbox_room(&self, of: &ConnectionId) -> Result<bool> {
        let nothing = IdempotencyKey {
            key: String::new(),
            fingerprint: String::new(),
        };
        let call = self.posting(of, &nothing, &[], "", OUTBOX_BYTES / 2);
        let mut items = self.run(call).await?.items()?;
        match items.text()?.as_str() {
            "room" => Ok(true),
            "full" => Ok(false),
            other => Err(reply::unexpected(other)),
        }
    }

    fn posting<'a>(
        &self,
        to: &'a ConnectionId,
        key: &'a IdempotencyKey,
        frame: &'a [u8],
        watch: &'a str,
        most: u64,
    ) -> ScriptCall<'a> {
        let call = ScriptCall::new(&scripts().post)
            .key(self.keys.connection(to))
            .key(self.keys.outbox(to))
            .arg(to.as_str())
            .arg(&key.key)
            .arg(&key.fingerprint)
            .arg(frame)
            .num(REMEMBERED_KEYS)
            .num(CONNECTION_TTL)
            .arg(watch)
            .num(most);
        window(call)
    }

    pub(super) async fn watches_of(&self, of: &ConnectionId) -> Result<Vec<(u64, SessionId)>> {
        let mut command = redis::cmd("HGETALL");
        command.arg(self.keys.connection(of));
        let mut items = self.client.query(&command).await?.items()?;
        let mut watches = Vec::new();
        while !items.is_empty() {
            let (field, value) = (items.bytes()?, items.bytes()?);
            let prefixes: [&[u8]; 2] = [b"w:", b"v:"];
            let session = prefixes
                .iter()
                .find_map(|prefix| field.strip_prefix(*prefix));
            let session = session.map(String::from_utf8_lossy);
            let session = session.and_then(|session| SessionId::parse(&session));
            let number = String::from_utf8_lossy(&value).parse().ok();
            watches.extend(number.zip(session));
        }
        watches.sort_unstable_by_key(|(number, _)| *number);
        Ok(watches)
    }

    pub(super) async fn forget_watch_of(
        &self,
        of: &ConnectionId,
        session: &SessionId,
        told: u64,
    ) -> Result<()> {
        let call = ScriptCall::new(&scripts().forget_watch)
            .key(self.keys.connection(of))
            .arg(session.as_str())
            .num(told);
        self.run(call).await.map(drop)
    }
}

/// Arguments for trimming an outbox: which entries stay, and how many are removed at once.
pub(super) fn window(call: ScriptCall<'_>) -> ScriptCall<'_> {
    call.num(OUTBOX_WINDOW_BYTES)
        .num(OUTBOX_WINDOW_ENTRIES)
        .num(OUTBOX_TRIMMED_AT_ONCE as u64)
        .num(OUTBOX_WATCHES)
        .num(OUTBOX_WINDOW_POSITIONS)
}
