//! The one way to write a session's log.

use super::RedisStore;
use super::changes::{changes, must_last};
use super::confirmation::confirm_events;
use super::reply::{self, ScriptReply};
use super::scripts::{ScriptCall, scripts};
use crate::command::CommandId;
use crate::event::Frame;
use crate::id::SessionId;
use crate::store::{AppendOutcome, AppendRequest, Result};

/// Larger frames are announced by number and read by those who want them.
const PUBLISH_WHOLE: usize = 16 * 1024;

impl RedisStore {
    /// Events that others act on are announced once replicas have them, where that is asked for: a
    /// gateway that has shown an answer cannot take it back. Other events are announced by the
    /// script itself.
    pub(super) async fn append_events(&self, append: &AppendRequest) -> Result<AppendOutcome> {
        let frame = Frame::encode(append.nonce, &append.events);
        let waits = must_last(append) && self.client.waits_for_replicas();
        let reply = self.run_append(append, &frame, waits).await?;
        let appended = read(reply)?;
        if waits && matches!(appended, AppendOutcome::Done { .. }) && !append.events.is_empty() {
            let last = append.first + append.events.len() as u64 - 1;
            let mut signal = format!("G{last}").into_bytes();
            if frame.len() <= PUBLISH_WHOLE {
                signal = [format!("F{last}\n").as_bytes(), &frame].concat();
            }
            self.announce(&append.session, last, &signal).await;
        }
        Ok(appended)
    }

    /// Tells those who follow the session that replicas have it up to this event. Tried once:
    /// whoever reads that far finds it unconfirmed otherwise, and sees to it.
    async fn announce(&self, session: &SessionId, upto: u64, signal: &[u8]) {
        let call = confirm_events(&self.keys, session, upto, signal);
        if let Err(error) = self.client.run_briefly(call).await {
            tracing::debug!(%error, session.id = %session, "a frame was not announced");
        }
    }

    async fn run_append(
        &self,
        append: &AppendRequest,
        frame: &[u8],
        waits: bool,
    ) -> Result<ScriptReply> {
        let (k, id) = (&self.keys, &append.session);
        let acks: Vec<String> = append.acks.iter().map(CommandId::to_string).collect();
        // An append that ends something frees memory, too.
        let script = if append.release || !append.acks.is_empty() {
            &scripts().append_end
        } else {
            &scripts().append
        };
        let call = ScriptCall::new(script)
            .key(k.session(id))
            .key(k.events(id))
            .key(k.inbox(id))
            .key(k.parties(id))
            .arg(id.as_str())
            .arg(&*append.token.0)
            .num(append.first)
            .num(append.events.len() as u64)
            .arg(frame)
            .num(append.release.into());
        let mut call = if waits {
            call.arg("")
        } else {
            call.num(PUBLISH_WHOLE as u64)
        };
        call = call.num(append.acks.len() as u64);
        for ack in &acks {
            call = call.arg(ack);
        }
        let changes = changes(append);
        for (name, value) in &changes {
            call = call.arg(name).arg(value);
        }
        if must_last(append) {
            self.run_durably(call).await
        } else {
            self.run(call).await
        }
    }
}

fn read(reply: ScriptReply) -> Result<AppendOutcome> {
    let mut items = reply.items()?;
    match items.text()?.as_str() {
        "done" => Ok(AppendOutcome::Done {
            head: items.number()?,
            released: items.number()? == 1,
        }),
        "fenced" => Ok(AppendOutcome::Fenced),
        "gap" => Ok(AppendOutcome::Gap {
            head: items.number()?,
        }),
        other => Err(reply::unexpected(other)),
    }
}
