//! A worker that stops hands its sessions over, and another goes on at once.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use async_trait::async_trait;
use baton_session::store::{AgentCard, MemoryStore, Store};
use baton_worker::agent::scripted::ScriptedAgent;
use baton_worker::agent::{
    Agent, AgentMessage, CallResult, Conversation, ConversationChanges, Failure, SessionOpening,
    StopReason, Turn,
};
use bytes::Bytes;
use serde_json::value::RawValue;

use crate::support::{Worker, chunks, counted, frames, is_answered, prompted, until};

#[tokio::test]
async fn a_turn_goes_on_elsewhere_at_once() {
    let memory = MemoryStore::default();
    let store: Arc<dyn Store> = Arc::new(memory.clone());
    let scene = prompted(&memory, &ScriptedAgent, "/count 100 delay=5").await;
    let mut worker = Worker::start(&store, Arc::new(ScriptedAgent));
    // Leases last for an hour here: only what is handed over goes on.
    for head in [10, 30, 50, 70] {
        until("the turn goes on", async || scene.head().await >= head).await;
        let next = Worker::start(&store, Arc::new(ScriptedAgent));
        let began = Instant::now();
        worker.stop.cancel();
        until("the worker leaves", async || worker.task.is_finished()).await;
        let left = scene.head().await;
        until("another goes on", async || scene.head().await > left).await;
        println!("handed over in {:?}", began.elapsed());
        worker = next;
    }
    until("the answer", async || is_answered(&frames(&scene).await)).await;
    let log = frames(&scene).await;
    assert!(log.is_sorted_by(|one, next| one.last() + 1 == next.first));
    assert_eq!(chunks(&log), counted(100));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_agent_that_does_not_yield_is_left_behind() {
    let memory = MemoryStore::default();
    let store: Arc<dyn Store> = Arc::new(memory.clone());
    let scene = prompted(&memory, &ScriptedAgent, "/count 3").await;
    let (stuck, entered, let_go) = Stuck::new();
    let worker = Worker::start(&store, Arc::new(stuck));
    let entered = tokio::task::spawn_blocking(move || entered.recv());
    entered.await.expect("a thread").expect("the turn begins");
    worker.stop.cancel();
    until("the worker leaves", async || worker.task.is_finished()).await;
    let _next = Worker::start(&store, Arc::new(ScriptedAgent));
    until("the answer", async || is_answered(&frames(&scene).await)).await;
    let before = frames(&scene).await;
    assert_eq!(chunks(&before), counted(3));
    // The first worker's late append is refused.
    let_go.send(()).expect("it still waits");
    let refused = tokio::time::timeout(std::time::Duration::from_millis(200), async {
        until("nothing", async || frames(&scene).await != before).await
    });
    assert!(refused.await.is_err(), "the log is another's");
}

/// Says it is the scripted agent, and holds its thread.
struct Stuck {
    entered: Sender<()>,
    let_go: Arc<Mutex<Receiver<()>>>,
}

impl Stuck {
    fn new() -> (Self, Receiver<()>, Sender<()>) {
        let (entered, has_entered) = channel();
        let (free, let_go) = channel();
        let let_go = Arc::new(Mutex::new(let_go));
        (Self { entered, let_go }, has_entered, free)
    }
}

#[async_trait]
impl Agent for Stuck {
    fn card(&self) -> AgentCard {
        ScriptedAgent.card()
    }

    async fn open(&self, _: &SessionOpening) -> Result<Arc<dyn Conversation>, Failure> {
        Ok(Arc::new(Self {
            entered: self.entered.clone(),
            let_go: self.let_go.clone(),
        }))
    }
}

#[async_trait]
impl Conversation for Stuck {
    async fn prompt(&self, turn: &Turn, _: &AgentMessage) -> Result<Box<RawValue>, Failure> {
        let _ = self.entered.send(());
        let _ = self.let_go.lock().expect("one turn").recv();
        turn.update(serde_json::json!({ "sessionUpdate": "late" }))
            .await;
        Ok(StopReason::EndTurn.answer())
    }

    async fn call(&self, message: &AgentMessage) -> Result<CallResult, Failure> {
        Err(Failure::method_not_found(message.method()))
    }

    fn view(&self) -> Bytes {
        Bytes::from_static(b"{}")
    }

    fn changes(&self) -> ConversationChanges {
        ConversationChanges::default()
    }
}
