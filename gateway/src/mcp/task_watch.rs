//! `subscriptions/listen`: tells of tasks when their states change, for as long as the client
//! listens. It has nothing of its own to tell: another stream, elsewhere, tells the same.

use std::sync::Arc;

use baton_protocol::compose;
use baton_session::event::Event;
use baton_session::id::LogId;
use baton_session::store;
use baton_session::token::ConnectionToken;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

use super::call::McpClientCall;
use super::fault::{CallError, RpcFault};
use super::tasks;
use super::turn_reference::TurnReference;
use crate::stream::feed::{GatherOutcome, MessageFeed, OutgoingMessage, StartPosition};
use crate::stream::log_tail::LogTail;

/// Tasks that one stream watches at most: each reads a log.
const MOST_TASKS: usize = 16;
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

pub struct TaskWatch {
    call: McpClientCall,
    tasks: Vec<WatchedTask>,
    acknowledged: bool,
    wake: Arc<Notify>,
}

struct WatchedTask {
    turn: TurnReference,
    tail: LogTail,
    told: Option<Value>,
    changed: bool,
}

impl TaskWatch {
    /// Tasks that are not the caller's are left away, as those that there are not.
    pub async fn open(call: McpClientCall, params: &Map<String, Value>) -> Result<Self, CallError> {
        let wanted = params.get("notifications").and_then(Value::as_object);
        let wanted = wanted.ok_or_else(|| {
            RpcFault::invalid("params.notifications must say what is listened for")
        })?;
        let names = wanted.get("taskIds").and_then(Value::as_array);
        let names = names.map_or(&[][..], Vec::as_slice);
        if names.len() > MOST_TASKS {
            let text = format!("one subscription is for {MOST_TASKS} tasks at most");
            return Err(RpcFault::invalid(text).into());
        }
        let (mut watched, wake) = (Vec::new(), Arc::new(Notify::new()));
        for name in names {
            let named = Map::from_iter([("taskId".to_owned(), name.clone())]);
            let turn = match tasks::known(&call, &named).await {
                Ok(turn) => turn,
                Err(CallError::Rpc(fault)) if fault.is_invalid() => continue,
                Err(error) => return Err(error),
            };
            let log = LogId::Session(turn.session.clone());
            let mut tail = LogTail::open(&call.services.streams, &log, wake.clone()).await?;
            let head = tail.head().await?;
            tail.grow(head);
            tail.skip_to(head + 1);
            watched.push(WatchedTask {
                turn,
                tail,
                told: None,
                changed: true,
            });
        }
        Ok(Self {
            call,
            tasks: watched,
            acknowledged: false,
            wake,
        })
    }

    pub fn connection(&self) -> &ConnectionToken {
        &self.call.access.connection
    }

    fn say(&self, method: &str, mut params: Value, out: &mut Vec<OutgoingMessage>) {
        let id: Value = serde_json::from_str(&self.call.id).unwrap_or_default();
        params["_meta"] = json!({ SUBSCRIPTION: id });
        out.push(OutgoingMessage {
            cursor: String::new(),
            message: compose::notification(method, params),
        });
    }

    fn acknowledge(&mut self, out: &mut Vec<OutgoingMessage>) {
        let names: Vec<String> = self.tasks.iter().map(|task| task.turn.text()).collect();
        let agreed = json!({ "notifications": { "taskIds": names } });
        self.say("notifications/subscriptions/acknowledged", agreed, out);
        self.acknowledged = true;
    }
}

impl WatchedTask {
    /// Reads on; whether anything came that changes states.
    async fn read(&mut self) -> store::Result<()> {
        self.tail.notices();
        while let Some(page) = self.tail.next_page().await? {
            self.tail.expect_unbroken(&page)?;
            for frame in &page.frames {
                for (seq, event) in frame.numbered() {
                    if seq == self.tail.next() {
                        self.tail.advance(seq, frame.nonce);
                        self.changed |= changes_states(event);
                    }
                }
            }
        }
        Ok(())
    }
}

fn changes_states(event: &Event) -> bool {
    matches!(
        event,
        Event::Begin(_) | Event::Request { .. } | Event::Answer { .. } | Event::Response { .. }
    )
}

/// What a client is told of twice, unless it has changed.
fn without_time(task: &Value) -> Value {
    let mut task = task.clone();
    task["lastUpdatedAt"] = Value::Null;
    task
}

impl MessageFeed for TaskWatch {
    const KIND: &'static str = "mcp_tasks";

    fn start(&self) -> StartPosition {
        StartPosition {
            cursor: String::new(),
            reset: None,
        }
    }

    async fn gather(&mut self, out: &mut Vec<OutgoingMessage>) -> store::Result<GatherOutcome> {
        if !self.acknowledged {
            self.acknowledge(out);
        }
        for at in 0..self.tasks.len() {
            self.tasks[at].read().await?;
            if !std::mem::take(&mut self.tasks[at].changed) {
                continue;
            }
            let task = match tasks::state(&self.call, &self.tasks[at].turn).await {
                Ok(task) => task,
                // Its session is gone: there is nothing more to tell.
                Err(_) => continue,
            };
            let plain = without_time(&task);
            if self.tasks[at].told.as_ref() != Some(&plain) {
                self.tasks[at].told = Some(plain);
                self.say("notifications/tasks", task, out);
            }
        }
        Ok(GatherOutcome::Open)
    }

    fn wake(&self) -> &Arc<Notify> {
        &self.wake
    }

    /// Its client listens again elsewhere.
    fn seems_busy(&self) -> bool {
        false
    }

    async fn is_busy(&mut self) -> store::Result<bool> {
        Ok(false)
    }
}
