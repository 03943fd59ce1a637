//! Reading a log whose beginning may be in blocks, and putting it there.

use std::sync::Arc;
use std::time::Duration;

use super::RedisStore;
use super::deletion::kept_for;
use super::reply::{self, ScriptReply};
use super::scripts::{ScriptCall, scripts};
use crate::block;
use crate::event::Frame;
use crate::id::{LogId, Partition, SessionId};
use crate::store::{Error, KEPT_PARTIES, OUTBOX_TTL, PAGE_BYTES, Result, TidyOutcome, TidyPolicy};

/// Sessions that one round takes on.
const AT_ONCE: u64 = 32;
/// How long that may take before somebody else takes them on.
const LEASE_TIME: Duration = Duration::from_secs(30);
/// Frames that are turned into blocks in one step: it stands still for nobody.
const FRAMES: usize = 256;
/// A session that somebody listens to is looked at again.
const LISTENED_TO: Duration = Duration::from_secs(60);

impl RedisStore {
    pub(super) async fn read_session(
        &self,
        session: &SessionId,
        from: u64,
        upto: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Arc<Frame>>> {
        let (frames, _) = self.read_page(session, from, upto, limit, false).await?;
        Ok(frames)
    }

    /// With `confirmed` nothing that replicas may lack, and whether something was hidden for that.
    pub(super) async fn read_page(
        &self,
        session: &SessionId,
        from: u64,
        upto: Option<u64>,
        limit: usize,
        confirmed: bool,
    ) -> Result<(Vec<Arc<Frame>>, bool)> {
        let call = ScriptCall::new(&scripts().read)
            .key(self.keys.session(session))
            .key(self.keys.events(session))
            .key(self.keys.history(session))
            .num(from)
            .num(limit as u64)
            .num(upto.unwrap_or(0))
            .num(PAGE_BYTES)
            .num(confirmed.into());
        let mut items = self.run(call).await?.items()?;
        let kind = items.text()?;
        let entries = ScriptReply(items.next()?);
        let frames = match kind.as_str() {
            "frames" => reply::frames(entries)?,
            "blocks" => reply::blocks(entries, from)?,
            other => return Err(reply::unexpected(other)),
        };
        let frames = match items.text()?.parse() {
            Ok(upto) => frames
                .iter()
                .map_while(|frame| frame.inherited(upto, session).map(Arc::new))
                .collect(),
            Err(_) => frames,
        };
        let hides = kind == "frames" && items.number()? == 1;
        Ok((frames, hides))
    }

    /// Also of a session that is frozen. Between two looks it may be frozen or thawed, but not
    /// often enough to be missed three times.
    pub(super) async fn head(&self, log: &LogId) -> Result<u64> {
        let id = match log {
            LogId::Session(id) => id,
            LogId::Outbox(id) => return self.counted(self.keys.connection(id)).await,
        };
        for _ in 0..2 {
            let head = self.counted(self.keys.session(id)).await?;
            if head > 0 {
                return Ok(head);
            }
            let mut start = redis::cmd("GETRANGE");
            start.arg(self.keys.frozen(id)).arg(0).arg(31);
            let start = reply::bytes(self.client.query(&start).await?.0)?;
            let digits = start.split(|byte| *byte == b' ').next();
            let number = digits.and_then(|digits| std::str::from_utf8(digits).ok());
            if let Some(head) = number.and_then(|number| number.parse().ok()) {
                return Ok(head);
            }
        }
        Ok(0)
    }

    async fn counted(&self, key: String) -> Result<u64> {
        let mut head = redis::cmd("HGET");
        head.arg(key).arg("seq");
        self.client.query(&head).await?.optional_number()
    }

    pub(super) async fn read_stream(
        &self,
        log: &LogId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Arc<Frame>>> {
        let call = ScriptCall::new(&scripts().entries)
            .key(self.keys.log(log))
            .num(from)
            .num(limit as u64)
            .num(PAGE_BYTES);
        reply::frames(self.run(call).await?)
    }

    pub(super) async fn tidy_partition(
        &self,
        partition: Partition,
        when: &TidyPolicy,
    ) -> Result<TidyOutcome> {
        let call = ScriptCall::new(&scripts().tidy)
            .key(self.keys.rest(partition))
            .key(self.keys.idle(partition))
            .key(self.keys.gone(partition))
            .num(when.rested.as_millis() as u64)
            .num(when.unused.as_millis() as u64)
            .num(AT_ONCE)
            .num(LEASE_TIME.as_millis() as u64)
            .num(kept_for(when).as_millis() as u64);
        let mut items = self.run(call).await?.items()?;
        let resting = reply::sessions(ScriptReply(items.next()?))?;
        let unused = reply::sessions(ScriptReply(items.next()?))?;
        let deleted = reply::sessions(ScriptReply(items.next()?))?;
        let mut tidied = TidyOutcome::default();
        for session in &resting {
            let compacted = self.compact(session, when).await;
            tidied.compacted += usize::from(or_later(session, compacted)?);
        }
        for session in &unused {
            let expired = self.expire(session, when).await;
            tidied.expired += usize::from(or_later(session, expired)?);
        }
        for session in &deleted {
            let purged = self.purge(session, when).await;
            tidied.expired += usize::from(or_later(session, purged)?);
        }
        Ok(tidied)
    }

    /// Up to where the log ends now, a page at a time. False if somebody else was at it.
    async fn compact(&self, session: &SessionId, when: &TidyPolicy) -> Result<bool> {
        let log = LogId::Session(session.clone());
        // A session that is frozen has no frames.
        let end = self.counted(self.keys.session(session)).await?;
        loop {
            let frames = self.read_stream(&log, 1, FRAMES).await?;
            let done = match frames.first() {
                Some(first) => first.first - 1,
                None => self.snapped(session).await?,
            };
            let more = frames.last().is_some_and(|last| last.last() < end);
            if !self.put_in_blocks(session, done, frames, when).await? {
                return Ok(false);
            }
            if !more {
                return Ok(true);
            }
        }
    }

    async fn snapped(&self, session: &SessionId) -> Result<u64> {
        let mut command = redis::cmd("HGET");
        command.arg(self.keys.session(session)).arg("snap");
        self.client.query(&command).await?.optional_number()
    }

    async fn put_in_blocks(
        &self,
        session: &SessionId,
        done: u64,
        frames: Vec<Arc<Frame>>,
        when: &TidyPolicy,
    ) -> Result<bool> {
        let (upto, nonce) = match frames.last() {
            Some(last) => (last.last(), last.nonce),
            None => (done, Default::default()),
        };
        let entry = |(last, block): (u64, bytes::Bytes)| {
            let number = format!("{last} ");
            [number.as_bytes(), &block].concat()
        };
        let blocks: Vec<Vec<u8>> = block::encode(&frames).into_iter().map(entry).collect();
        // A single one may be large, and what is sent is made of it once more.
        drop(frames);
        let nonce = nonce.0.to_be_bytes();
        let mut call = ScriptCall::new(&scripts().compact)
            .key(self.keys.session(session))
            .key(self.keys.events(session))
            .key(self.keys.history(session))
            .key(self.keys.parties(session))
            .key(self.keys.inbox(session))
            .arg(session.as_str())
            .num(done)
            .num(upto)
            .arg(&nonce)
            // Everything that refers to it expires before it does.
            .num(
                when.unused
                    .as_secs()
                    .saturating_mul(2)
                    .clamp(86_400, u32::MAX.into()),
            )
            .num(OUTBOX_TTL.as_millis() as u64)
            .num(LISTENED_TO.as_millis() as u64)
            .num(KEPT_PARTIES as u64);
        for block in &blocks {
            call = call.arg(block);
        }
        Ok(self.run(call).await?.optional_number()? == 1)
    }
}

/// One session that something is wrong with does not keep the others of its partition from being
/// tidied.
fn or_later(session: &SessionId, outcome: Result<bool>) -> Result<bool> {
    match outcome {
        Err(Error::Broken(error)) => {
            tracing::warn!(session.id = %session, error, "housekeeping of a session failed");
            Ok(false)
        }
        outcome => outcome,
    }
}
