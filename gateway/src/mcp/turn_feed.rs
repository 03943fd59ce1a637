//! A turn as the stream of a call: what the agent says as progress, its questions, and at the end
//! the result. All of it comes from the session's log, so any gateway tells it alike.

use std::sync::Arc;
use std::time::Duration;

use baton_protocol::{Method, compose, meta};
use baton_session::clock::unix_millis;
use baton_session::cursor::{Cursor, CursorPhase};
use baton_session::event::Frame;
use baton_session::id::{LogId, SessionId};
use baton_session::store;
use baton_session::token::ConnectionToken;
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::call::McpClientCall;
use super::fault::CallError;
use super::questions;
use super::results::{self, TurnStatus};
use super::turn_reader::{TurnNews, TurnReader};
use super::turn_reference::FollowedCall;
use crate::stream::feed::{GatherOutcome, MessageFeed, OutgoingMessage, StartPosition, is_enough};
use crate::stream::log_tail::LogTail;
use crate::stream::truncation::LogCheck;

pub struct TurnFeed {
    call: McpClientCall,
    follow: FollowedCall,
    tail: LogTail,
    reader: TurnReader,
    /// Events up to here were told before the stream was cut.
    seen: Cursor,
    position: Cursor,
    /// Questions that the client has heard, and up to which event it has heard all.
    asked: Vec<Arc<str>>,
    asked_upto: u64,
    deadline: Option<WaitLimit>,
    ended: bool,
    /// There is no turn, and none is about to begin.
    idle: bool,
    /// The session of a call that has one of its own is gone.
    cleared: bool,
}

/// How long a call waits for its turn; wakes the stream when that is over.
struct WaitLimit {
    end: Instant,
    alarm: JoinHandle<()>,
}

impl WaitLimit {
    fn new(wait: Duration, wake: Arc<Notify>) -> Self {
        let end = Instant::now() + wait;
        let alarm = tokio::spawn(async move {
            sleep_until(end).await;
            wake.notify_one();
        });
        Self { end, alarm }
    }
}

impl Drop for WaitLimit {
    fn drop(&mut self) {
        self.alarm.abort();
    }
}

impl TurnFeed {
    pub async fn open(
        call: McpClientCall,
        follow: FollowedCall,
        seen: Option<Cursor>,
        wait: Option<Duration>,
    ) -> Result<Self, CallError> {
        let log = LogId::Session(follow.turn.session.clone());
        let wake = Arc::new(Notify::new());
        let streams = &call.services.streams;
        let mut tail = LogTail::open(streams, &log, wake.clone()).await?;
        tail.grow(tail.head().await?);
        tail.skip_to(follow.turn.head + 1);
        let seen = seen.unwrap_or_default();
        let asked_upto = match seen.phase {
            CursorPhase::Asked(_, question) => question,
            _ => 0,
        };
        Ok(Self {
            reader: TurnReader::new((&follow.turn).into()),
            call,
            follow,
            tail,
            seen,
            position: Cursor::default(),
            asked: Vec::new(),
            asked_upto,
            deadline: wait.map(|wait| WaitLimit::new(wait, wake)),
            ended: false,
            idle: false,
            cleared: false,
        })
    }

    /// These questions are answered, though the log may not say so yet.
    pub fn after_answers(mut self, answered: Vec<Arc<str>>) -> Self {
        self.asked.extend(answered);
        self
    }

    pub fn session(&self) -> &SessionId {
        &self.follow.turn.session
    }

    pub fn connection(&self) -> &ConnectionToken {
        &self.call.access.connection
    }

    fn deliver(&mut self, frame: &Frame, out: &mut Vec<OutgoingMessage>) {
        for (seq, event) in frame.numbered() {
            if seq != self.tail.next() || self.ended {
                continue;
            }
            self.tail.advance(seq, frame.nonce);
            self.position = Cursor::live(seq, frame.nonce);
            let news = self.reader.take(seq, event);
            match news.filter(|_| seq > self.seen.seq) {
                Some(TurnNews::Words(words)) => self.progress(&words, "words", out),
                Some(TurnNews::Tool(title)) => self.progress(&title, "tool", out),
                Some(TurnNews::Settled(id, by)) => {
                    let streams = self.call.revision.asks_on_streams();
                    let here = streams && self.asked.contains(&id);
                    if here && by.as_ref() != Some(&self.call.access.connection.id) {
                        self.say(withdraw(&id), out);
                    }
                }
                Some(TurnNews::Ended) | None => {}
            }
            if self.reader.outcome.is_some() {
                self.finish(out);
            }
        }
    }

    fn say(&self, message: Bytes, out: &mut Vec<OutgoingMessage>) {
        let resumes = !self.call.revision.is_sessionless();
        let mut seen = Cursor::live(self.position.seq.max(self.seen.seq), self.position.nonce);
        if self.asked_upto > 0 {
            seen.phase = CursorPhase::Asked(0, self.asked_upto);
        }
        let cursor = resumes.then(|| self.follow.event_id(seen));
        let cursor = cursor.unwrap_or_default();
        out.push(OutgoingMessage { cursor, message });
    }

    /// The number of the event grows, on whichever gateway the stream goes on.
    fn progress(&self, text: &str, kind: &str, out: &mut Vec<OutgoingMessage>) {
        let Some(token) = &self.follow.progress else {
            return;
        };
        let token: Value = serde_json::from_str(token).unwrap_or_default();
        let params = json!({
            "progressToken": token,
            "progress": self.position.seq - self.follow.turn.head,
            "message": text,
            "_meta": { meta::KIND: kind },
        });
        self.say(compose::notification("notifications/progress", params), out);
    }

    /// Everything that is there was read: what is open now is to be asked.
    fn ask(&mut self, out: &mut Vec<OutgoingMessage>) {
        let (client, revision) = (self.call.client, self.call.revision);
        for question in self.reader.open.clone() {
            if self.asked.contains(&question.id) {
                continue;
            }
            let message = questions::request(&question, revision);
            let Some(message) = message.filter(|_| client.elicits && revision.asks_on_streams())
            else {
                return self.finish(out);
            };
            self.asked.push(question.id);
            // Else it was asked before the stream was cut.
            if question.seq > self.asked_upto {
                self.asked_upto = question.seq;
                self.say(message, out);
            }
        }
    }

    fn finish(&mut self, out: &mut Vec<OutgoingMessage>) {
        self.ended = true;
        let status = TurnStatus::of(&self.reader, !self.idle);
        let session = &self.follow.turn.session;
        let asks = status == TurnStatus::InputRequired
            && self.call.revision.is_sessionless()
            && self.call.client.elicits;
        let result = if asks {
            results::input_required(&self.reader, &self.follow.turn, self.call.revision)
        } else {
            results::of_turn(session, &self.reader, status, self.call.revision)
        };
        let result = results::complete(self.call.revision, result);
        self.say(answer(&self.follow.id, &result), out);
    }

    /// The store has lost what the call waits for.
    fn give_up(&mut self, out: &mut Vec<OutgoingMessage>) {
        self.ended = true;
        let text = "the store has lost a part of the session after a failover: look with status, \
            then call again";
        let result = results::complete(self.call.revision, results::of_failure(text));
        self.say(answer(&self.follow.id, &result), out);
    }

    fn waits_too_long(&self) -> bool {
        let end = self.deadline.as_ref().map(|limit| limit.end);
        end.is_some_and(|end| Instant::now() >= end)
    }

    /// What the session has to do is no turn, and is done.
    async fn waits_for_nothing(&self) -> store::Result<bool> {
        let turn = &self.follow.turn;
        if !turn.request.is_empty() || self.reader.has_begun() {
            return Ok(false);
        }
        let store = &self.call.services.methods.store;
        Ok(store.waiting_commands(&turn.session).await?.is_empty())
    }

    async fn is_behind(&self) -> store::Result<bool> {
        let head = self.tail.head().await?;
        self.tail.grow(head);
        Ok(self.tail.next() <= head)
    }

    /// Once the answer is with the client.
    async fn clear_session(&mut self) {
        if self.cleared || !self.follow.throw_away || self.reader.outcome.is_none() {
            return;
        }
        self.cleared = true;
        remove(&self.call, &self.follow.turn.session).await;
    }
}

async fn remove(call: &McpClientCall, session: &SessionId) {
    let step = format!("delete {}", unix_millis());
    let params = json!({ "sessionId": session });
    if let Err(error) = call.ask(&step, Method::DeleteSession, params).await {
        tracing::debug!(?error, "could not remove the session of a call");
    }
}

impl Drop for TurnFeed {
    /// The client is gone. Where it cannot come back to its stream, nobody finds the session of a
    /// call that has one of its own. A gateway that stops leaves it to who repeats the call.
    fn drop(&mut self) {
        let stops = self.call.services.streams.stop.is_cancelled();
        let over = self.reader.outcome.is_some() || self.call.revision.is_sessionless();
        if !self.follow.throw_away || self.cleared || !over || stops {
            return;
        }
        let (call, session) = (self.call.clone(), self.follow.turn.session.clone());
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { remove(&call, &session).await });
        }
    }
}

fn answer(id: &str, result: &Value) -> Bytes {
    compose::result(id, result.to_string().as_bytes())
}

fn withdraw(id: &str) -> Bytes {
    let params = json!({ "requestId": id, "reason": "it was answered elsewhere" });
    compose::notification("notifications/cancelled", params)
}

impl MessageFeed for TurnFeed {
    const KIND: &'static str = "mcp";

    fn start(&self) -> StartPosition {
        let cursor = if self.call.revision.is_sessionless() {
            String::new()
        } else {
            self.follow.event_id(self.seen)
        };
        StartPosition {
            cursor,
            reset: None,
        }
    }

    async fn gather(&mut self, out: &mut Vec<OutgoingMessage>) -> store::Result<GatherOutcome> {
        if self.ended {
            self.clear_session().await;
            return Ok(GatherOutcome::Ended);
        }
        self.tail.notices();
        match self.tail.check().await? {
            LogCheck::Intact => {}
            LogCheck::Pending => return Ok(GatherOutcome::Open),
            LogCheck::Lost => {
                self.give_up(out);
                return Ok(GatherOutcome::Open);
            }
        }
        while !self.ended && !is_enough(out, OutgoingMessage::size) {
            let Some(page) = self.tail.next_page().await? else {
                self.ask(out);
                if !self.ended && self.waits_for_nothing().await? {
                    // What the inbox no longer holds is in the log by then.
                    if self.is_behind().await? {
                        continue;
                    }
                    self.idle = true;
                    self.finish(out);
                }
                if !self.ended && self.waits_too_long() {
                    self.finish(out);
                }
                break;
            };
            self.tail.expect_unbroken(&page)?;
            for frame in &page.frames {
                let had = out.len();
                self.deliver(frame, out);
                if out.len() > had {
                    self.tail.handed_on(frame);
                }
            }
        }
        Ok(GatherOutcome::Open)
    }

    fn wake(&self) -> &Arc<Notify> {
        self.tail.wake().notify()
    }

    /// It ends by itself.
    fn seems_busy(&self) -> bool {
        true
    }

    async fn is_busy(&mut self) -> store::Result<bool> {
        Ok(true)
    }
}
