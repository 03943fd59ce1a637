//! JSON-RPC with one agent process. The agent's messages to a session wait in that session's queue,
//! answers included, so that they are handled in the order in which they were written.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use baton_session::id::SessionId;
use baton_session::sync::MutexExt as _;
use bytes::Bytes;
use futures_util::StreamExt as _;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::codec::{AnyDelimiterCodec, FramedRead};
use tokio_util::sync::CancellationToken;

use super::failures;
use super::message::{self, AgentReply, IncomingMessage};
use super::process::{AgentProcess, ProcessLog};
use crate::agent_policy::{AgentAnswer, AgentMessage};
use crate::rpc::Failure;

/// Limits for queued output of an agent. Beyond them it is not read any further.
const MAX_QUEUED_BYTES: usize = 8 << 20;
const MAX_QUEUED_MESSAGES: usize = 1024;
/// Input that may be queued for an agent that does not read.
const MAX_UNREAD_BYTES: usize = 64 << 20;
/// So many lines in a row that are no messages are too many. Programs print this and that when they
/// start.
const MAX_JUNK: usize = 100;
/// How long a process may take to end that has closed its output. Its guard kills it within two
/// seconds.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// The agent runs until this is dropped.
pub struct AgentConnection {
    inner: Arc<ConnectionInner>,
}

struct ConnectionInner {
    out: mpsc::UnboundedSender<Bytes>,
    /// Bytes that the agent has not taken yet.
    unread: AtomicUsize,
    calls: AtomicU64,
    next_queue: AtomicU64,
    state: Mutex<ConnectionState>,
    log: Arc<ProcessLog>,
    /// Of the agent's guard.
    pid: u32,
    /// The agent's input is to be closed.
    leave: CancellationToken,
    /// The agent is gone.
    gone: CancellationToken,
}

#[derive(Default)]
struct ConnectionState {
    pending: HashMap<u64, PendingCall>,
    queues: HashMap<u64, SessionQueue>,
    /// How it ended, as clients are told.
    end: Option<Failure>,
    /// The same in a few words.
    how: String,
}

struct PendingCall {
    /// The session queue that gets the answer.
    queue_id: Option<u64>,
    reply: oneshot::Sender<AgentReply>,
}

struct SessionQueue {
    /// The session that owns the queue.
    owner: SessionId,
    queue: mpsc::Sender<QueuedOutput>,
    /// The agent's name for the session, if it shares its process with others and has told it.
    session: Option<String>,
    alone: bool,
}

/// Something an agent said to a session.
pub struct QueuedOutput {
    pub what: AgentOutput,
    _weight: OwnedSemaphorePermit,
}

pub enum AgentOutput {
    Notice {
        line: Bytes,
        method: String,
        session: Option<String>,
    },
    Question {
        id: Box<RawValue>,
        method: String,
        params: Box<RawValue>,
        session: Option<String>,
    },
    Answer {
        to: oneshot::Sender<AgentReply>,
        reply: AgentReply,
    },
}

impl AgentConnection {
    pub fn new(
        process: AgentProcess,
        input: ChildStdin,
        output: ChildStdout,
        line_limit: usize,
    ) -> Self {
        let (out, lines) = mpsc::unbounded_channel();
        let inner = Arc::new(ConnectionInner {
            out,
            unread: AtomicUsize::new(0),
            calls: AtomicU64::new(0),
            next_queue: AtomicU64::new(0),
            state: Mutex::default(),
            log: process.log.clone(),
            pid: process.registered.pid,
            leave: process.registered.leave.clone(),
            gone: CancellationToken::new(),
        });
        tokio::spawn(write(inner.clone(), input, lines));
        tokio::spawn(read(inner.clone(), process, output, line_limit));
        Self { inner }
    }

    pub fn log(&self) -> &ProcessLog {
        &self.inner.log
    }

    /// The process id of the agent's guard.
    pub fn pid(&self) -> u32 {
        self.inner.pid
    }

    pub fn is_gone(&self) -> bool {
        self.inner.gone.is_cancelled() || self.inner.leave.is_cancelled()
    }

    /// Returns once it has ended, with all that it has started.
    pub async fn ended(&self) {
        self.inner.gone.cancelled().await;
    }

    /// How it ended, if it has.
    pub fn end(&self) -> Option<Failure> {
        self.inner.state().end.clone()
    }

    /// The same as [`Self::end`], in a few words.
    pub fn end_reason(&self) -> String {
        self.inner.state().how.clone()
    }

    /// Ends the agent, whatever it does.
    pub fn kill(&self) {
        self.inner.leave.cancel();
    }

    /// A queue of its own for a session. `alone`: everything the agent says is for it.
    pub fn open_queue(
        &self,
        owner: &SessionId,
        alone: bool,
    ) -> (u64, mpsc::Receiver<QueuedOutput>) {
        let (queue, heard) = mpsc::channel(MAX_QUEUED_MESSAGES);
        let number = self.inner.next_queue.fetch_add(1, Ordering::Relaxed);
        let mut state = self.inner.state();
        if state.end.is_none() {
            let queue = SessionQueue {
                owner: owner.clone(),
                queue,
                session: None,
                alone,
            };
            state.queues.insert(number, queue);
        }
        (number, heard)
    }

    /// Routes messages that name this session to this queue; false if the name is another
    /// session's. With `None`, the next answer that opens a session names it.
    pub fn name_queue(&self, queue_id: u64, session: Option<&str>) -> bool {
        self.inner.state().name(queue_id, session)
    }

    /// Whether messages that name this session go to this queue, or the queue is gone.
    pub fn owns_name(&self, queue_id: u64, session: &str) -> bool {
        let state = self.inner.state();
        let queue = state.queues.get(&queue_id);
        queue.is_none_or(|queue| queue.session.as_deref() == Some(session))
    }

    pub fn close_queue(&self, queue_id: u64) {
        self.inner.state().queues.remove(&queue_id);
    }

    /// The answer comes through the session's queue, if there is one; it must be read.
    pub fn call(
        &self,
        queue_id: Option<u64>,
        message: &AgentMessage,
    ) -> oneshot::Receiver<AgentReply> {
        let (reply, answer) = oneshot::channel();
        let id = self.inner.calls.fetch_add(1, Ordering::Relaxed);
        let mut state = self.inner.state();
        match &state.end {
            Some(end) => drop(reply.send(Err(end.clone()))),
            None => {
                state.pending.insert(id, PendingCall { queue_id, reply });
                self.inner.send(message::call(Some(id), message));
            }
        }
        answer
    }

    pub fn notify(&self, message: &AgentMessage) {
        self.inner.send(message::call(None, message));
    }

    pub fn answer(&self, id: &RawValue, answer: &AgentAnswer) {
        self.inner.send(message::answer(id, answer));
    }
}

impl Drop for AgentConnection {
    fn drop(&mut self) {
        self.inner.leave.cancel();
    }
}

impl ConnectionState {
    /// False if the name is that of another session. An earlier queue of the same session loses the
    /// name.
    fn name(&mut self, queue_id: u64, session: Option<&str>) -> bool {
        let Some(owner) = self.queues.get(&queue_id).map(|queue| queue.owner.clone()) else {
            return true;
        };
        let has = |queue: &SessionQueue| session.is_some() && queue.session.as_deref() == session;
        if self
            .queues
            .values()
            .any(|queue| has(queue) && queue.owner != owner)
        {
            return false;
        }
        for (number, queue) in &mut self.queues {
            if *number == queue_id {
                queue.session = session.map(str::to_owned);
            } else if has(queue) {
                queue.session = None;
            }
        }
        true
    }
}

impl ConnectionInner {
    fn state(&self) -> MutexGuard<'_, ConnectionState> {
        self.state.locked()
    }

    fn send(&self, line: Bytes) {
        let unread = self.unread.fetch_add(line.len(), Ordering::Relaxed);
        if unread > MAX_UNREAD_BYTES {
            tracing::error!(
                bytes = unread,
                "the agent does not read its input: stopping it"
            );
            self.leave.cancel();
        }
        // Sending fails only if the agent is gone.
        let _ = self.out.send(line);
    }

    /// Where something goes that names a session, or none.
    fn queue(&self, session: Option<&str>) -> Option<mpsc::Sender<QueuedOutput>> {
        let state = self.state();
        let queue = state.queues.values().find(|queue| {
            queue.alone || (session.is_some() && queue.session.as_deref() == session)
        });
        queue.map(|queue| queue.queue.clone())
    }

    /// Answers all pending calls with the reason, after the output before it.
    async fn close(&self, end: Failure, weights: &Arc<Semaphore>) {
        let (pending, queues) = {
            let mut state = self.state();
            state.end = Some(end.clone());
            (
                std::mem::take(&mut state.pending),
                std::mem::take(&mut state.queues),
            )
        };
        self.gone.cancel();
        for PendingCall { queue_id, reply } in pending.into_values() {
            let queue = queue_id.and_then(|queue_id| queues.get(&queue_id));
            deliver(
                queue.map(|queue| &queue.queue),
                reply,
                Err(end.clone()),
                weights,
            )
            .await;
        }
    }
}

async fn deliver(
    queue: Option<&mpsc::Sender<QueuedOutput>>,
    to: oneshot::Sender<AgentReply>,
    reply: AgentReply,
    weights: &Arc<Semaphore>,
) {
    let size = reply.as_ref().map_or(0, |result| result.get().len());
    match queue {
        Some(queue) => {
            let what = AgentOutput::Answer { to, reply };
            let heard = with_permit(what, size, weights).await;
            let _ = queue.send(heard).await;
        }
        None => drop(to.send(reply)),
    }
}

async fn with_permit(what: AgentOutput, size: usize, weights: &Arc<Semaphore>) -> QueuedOutput {
    let weight = size.clamp(1, MAX_QUEUED_BYTES) as u32;
    let weight = weights.clone().acquire_many_owned(weight).await;
    QueuedOutput {
        what,
        _weight: weight.expect("never closed"),
    }
}

/// Returns when the agent is to leave or does not take anything more; its input is closed then.
async fn write(
    line: Arc<ConnectionInner>,
    mut input: ChildStdin,
    mut lines: mpsc::UnboundedReceiver<Bytes>,
) {
    loop {
        let next = tokio::select! {
            biased;
            () = line.leave.cancelled() => return,
            next = lines.recv() => next,
        };
        let Some(next) = next else { return };
        let written = tokio::select! {
            () = line.leave.cancelled() => return,
            written = input.write_all(&next) => written,
        };
        line.unread.fetch_sub(next.len(), Ordering::Relaxed);
        if written.is_err() {
            return;
        }
    }
}

/// Returns when the agent is gone.
async fn read(
    line: Arc<ConnectionInner>,
    mut process: AgentProcess,
    output: ChildStdout,
    limit: usize,
) {
    let weights = Arc::new(Semaphore::new(MAX_QUEUED_BYTES));
    let why = tokio::select! {
        why = read_messages(&line, output, limit, &weights) => why,
        // It is not to be waited for: it may neither read nor end.
        () = line.leave.cancelled() => Some("was stopped".to_owned()),
    };
    line.leave.cancel();
    let ended = timeout(EXIT_TIMEOUT, process.ended()).await;
    let how = why.unwrap_or_else(|| ended.unwrap_or_else(|_| "closed its output".into()));
    let end = failures::gone(&how, line.log.stderr_for_clients());
    line.state().how = how;
    line.close(end, &weights).await;
}

/// Returns why it is not listened to any more; `None` if it has nothing more to say.
async fn read_messages(
    line: &ConnectionInner,
    output: ChildStdout,
    limit: usize,
    weights: &Arc<Semaphore>,
) -> Option<String> {
    let newline = b"\n".to_vec();
    let codec = AnyDelimiterCodec::new_with_max_length(newline.clone(), newline, limit);
    let mut lines = FramedRead::with_capacity(output, codec, 64 << 10);
    let mut junk = 0;
    while let Some(read) = lines.next().await {
        let Ok(text) = read else {
            return Some(format!(
                "wrote a line of more than {limit} bytes and was stopped"
            ));
        };
        if text.trim_ascii().is_empty() {
            continue;
        }
        let Some(message) = IncomingMessage::read(&text) else {
            junk += 1;
            tracing::warn!(
                bytes = text.len(),
                "the agent wrote a line that is no JSON-RPC message"
            );
            if junk == MAX_JUNK {
                return Some(format!(
                    "wrote {MAX_JUNK} lines in a row that are no JSON-RPC messages and was stopped"
                ));
            }
            continue;
        };
        junk = 0;
        dispatch(line, text, message, weights).await;
    }
    None
}

/// The session that an answer is about, if it opens one.
pub fn opened(result: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct NewSessionResult {
        session_id: String,
    }
    let opened: Option<NewSessionResult> = serde_json::from_str(result.get()).ok();
    opened.map(|opened| opened.session_id)
}

async fn dispatch(
    line: &ConnectionInner,
    text: Bytes,
    message: IncomingMessage,
    weights: &Arc<Semaphore>,
) {
    let size = text.len();
    let (what, queue) = match message {
        IncomingMessage::Answer { call, reply } => {
            let pending = line.state().pending.remove(&call);
            let Some(PendingCall {
                queue_id,
                reply: to,
            }) = pending
            else {
                return tracing::warn!(id = call, "the agent answered an unknown request");
            };
            let queue = queue_id.and_then(|queue_id| {
                let mut state = line.state();
                let unnamed = state.queues.get(&queue_id)?.session.is_none();
                let name = reply.as_ref().ok().filter(|_| unnamed);
                // At once: what it says next may be for that session.
                if let Some(name) = name.and_then(|result| opened(result)) {
                    state.name(queue_id, Some(&name));
                }
                Some(state.queues.get(&queue_id)?.queue.clone())
            });
            return deliver(queue.as_ref(), to, reply, weights).await;
        }
        IncomingMessage::Notice { method, session } => {
            let queue = line.queue(session.as_deref());
            let what = AgentOutput::Notice {
                line: text,
                method,
                session,
            };
            (what, queue)
        }
        IncomingMessage::Question {
            id,
            method,
            params,
            session,
        } => {
            let queue = line.queue(session.as_deref());
            if queue.is_none() {
                let failure = Failure::invalid_params("there is no such session here");
                line.send(message::answer(&id, &AgentAnswer::own(Err(failure))));
            }
            let what = AgentOutput::Question {
                id,
                method,
                params,
                session,
            };
            (what, queue)
        }
    };
    match (queue, what) {
        // A session that has left does not need it.
        (Some(queue), what) => drop(queue.send(with_permit(what, size, weights).await).await),
        // Many agents send such notifications when they start. They belong to no session.
        (
            None,
            AgentOutput::Notice {
                method,
                session: None,
                ..
            },
        ) => tracing::debug!(method, "agent notification without a session"),
        (None, _) => tracing::warn!("agent message for an unknown session"),
    }
}
