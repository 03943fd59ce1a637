//! What is shown of a log when answers wait for replicas: nothing that a failover could take back
//! although others act on it. An append that waits hides its events until it is confirmed. Its
//! worker then lifts that together with the signal; if that is lost, or the worker is, whoever
//! meets hidden events has them confirmed.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::time::sleep;

use super::RedisStore;
use super::client::RedisClient;
use super::keys::RedisKeys;
use super::scripts::{ScriptCall, scripts};
use crate::event::Frame;
use crate::id::SessionId;
use crate::store::{Error, Result};
use crate::sync::MutexExt as _;

/// Between two tries, each of which has patience of its own.
const PAUSE: Duration = Duration::from_millis(100);

/// The sessions whose events are being confirmed, each once at a time.
#[derive(Clone, Default)]
pub(super) struct Confirmations(Arc<Mutex<HashSet<SessionId>>>);

/// Replicas have the session's log up to an event: it is shown so far, and those who follow it are
/// told.
pub(super) fn confirm_events<'a>(
    keys: &RedisKeys,
    session: &'a SessionId,
    upto: u64,
    signal: &'a [u8],
) -> ScriptCall<'a> {
    ScriptCall::new(&scripts().confirm_events)
        .key(keys.session(session))
        .arg(session.as_str())
        .num(upto)
        .arg(signal)
}

impl RedisStore {
    pub(super) async fn read_what_is_confirmed(
        &self,
        session: &SessionId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Arc<Frame>>> {
        let shown = self.client.waits_for_replicas();
        let (frames, hides) = self.read_page(session, from, None, limit, shown).await?;
        if hides && self.confirmations.0.locked().insert(session.clone()) {
            let (client, keys) = (Arc::downgrade(&self.client), self.keys.clone());
            let (under_way, session) = (self.confirmations.clone(), session.clone());
            tokio::spawn(async move {
                if let Err(error) = confirm(client, &keys, &session).await {
                    tracing::warn!(%error, session.id = %session, "could not confirm events");
                }
                under_way.0.locked().remove(&session);
            });
        }
        Ok(frames)
    }
}

/// Nobody else may ever do it, so it is tried for as long as the store is used.
async fn confirm(client: Weak<RedisClient>, keys: &RedisKeys, session: &SessionId) -> Result<()> {
    while let Some(client) = client.upgrade() {
        match confirm_once(&client, keys, session).await {
            Err(Error::Unavailable(_)) => {}
            outcome => return outcome,
        }
        drop(client);
        sleep(PAUSE).await;
    }
    Ok(())
}

async fn confirm_once(client: &RedisClient, keys: &RedisKeys, session: &SessionId) -> Result<()> {
    // Replicas that confirm this have what was written before it.
    let call = ScriptCall::new(&scripts().unconfirmed).key(keys.session(session));
    let mut items = client.run_durably(call).await?.items()?;
    if items.is_empty() {
        return Ok(());
    }
    let upto = items.number()?;
    let signal = format!("G{upto}");
    let call = confirm_events(keys, session, upto, signal.as_bytes());
    client.run(call).await.map(drop)
}
