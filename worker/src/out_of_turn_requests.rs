//! Requests of an agent to its client outside of turns. Such a request is open until it is answered
//! or the agent is gone: the end of a turn does not withdraw it, and no other worker takes it over.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use baton_protocol::compose;
use baton_session::event::{Event, aside_id};
use baton_session::id::{SessionId, random_text};
use baton_session::sync::MutexExt as _;
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::event_writer::EventWriter;
use crate::mcp::over_acp;
use crate::rpc::{self, ClientAnswer, Failure};

pub(crate) struct OutOfTurnRequests {
    session: SessionId,
    writer: Arc<EventWriter>,
    /// Sets this holder's questions apart from those of others.
    holder: String,
    open: Mutex<OpenRequests>,
}

#[derive(Default)]
struct OpenRequests {
    asked: u64,
    waiting: HashMap<Arc<str>, OutOfTurnWaiter>,
}

struct OutOfTurnWaiter {
    seq: u64,
    reply: oneshot::Sender<ClientAnswer>,
}

impl OutOfTurnRequests {
    pub fn new(session: SessionId, writer: Arc<EventWriter>) -> Self {
        Self {
            session,
            writer,
            holder: random_text(8),
            open: Mutex::default(),
        }
    }

    /// Sends the request at once. The returned future waits for the answer and may be polled
    /// anywhere.
    pub fn ask(
        &self,
        method: &str,
        params: impl Serialize,
    ) -> BoxFuture<'static, Result<Box<RawValue>, Failure>> {
        let params = over_acp::outbound(&self.session, method, params);
        let asked = params.map(|params| self.push(method, &params));
        Box::pin(async move {
            let answer = asked?.await;
            answer.map_err(|_| Failure::internal(WITHDRAWN))?.outcome
        })
    }

    fn push(&self, method: &str, params: &RawValue) -> oneshot::Receiver<ClientAnswer> {
        let (reply, answer) = oneshot::channel();
        let mut open = self.open();
        open.asked += 1;
        let id = aside_id(&self.session, &self.holder, open.asked);
        let message = compose::request(&id, method, params);
        self.writer.permissions.asked(&id, &message);
        let request = Event::Request {
            id: id.clone(),
            message,
        };
        let seq = self.writer.push(request);
        open.waiting.insert(id, OutOfTurnWaiter { seq, reply });
        answer
    }

    /// Handles a client's answer. False if there is no such request, or it was answered before.
    pub fn answer(&self, answer: ClientAnswer) -> bool {
        let Some(waiting) = self.open().waiting.remove(answer.id.as_str()) else {
            return false;
        };
        self.writer.mark_answered(waiting.seq);
        let _ = waiting.reply.send(answer);
        true
    }

    /// Keeps the open requests pending after a turn has ended.
    pub fn restore_pending(&self) {
        let open = self.open();
        let open: Vec<u64> = open.waiting.values().map(|waiting| waiting.seq).collect();
        if !open.is_empty() {
            self.writer.restore_pending(open);
        }
    }

    /// Withdraws all open requests, and tells their clients.
    pub fn withdraw_all(&self) {
        for (id, waiting) in self.open().waiting.drain() {
            self.writer.mark_answered(waiting.seq);
            self.writer.push(Event::Answer {
                message: rpc::no_answer(&id, WITHDRAWN),
                by: None,
                id,
            });
        }
    }

    fn open(&self) -> MutexGuard<'_, OpenRequests> {
        self.open.locked()
    }
}

const WITHDRAWN: &str = "the session was given up before the answer came";
