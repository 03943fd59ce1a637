//! An agent that lives where its session is held: the session stays with it between turns.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use baton_session::command::{Command, CommandKind};
use baton_session::conformance::scene::Scene;
use baton_session::event::Event;
use baton_session::store::{AgentCard, MemoryStore, Store};
use baton_worker::agent::{
    Agent, AgentMessage, CallResult, Conversation, ConversationChanges, Failure, ListenContext,
    SessionOpening, StopReason, Turn,
};
use bytes::Bytes;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio::sync::{Mutex, Notify, mpsc};

use crate::support::{Worker, frames, until};

/// The test's side of the agent.
#[derive(Default)]
struct House {
    opened: AtomicUsize,
    ended: AtomicUsize,
    /// Lets a slow call end.
    let_go: Notify,
    /// The one who lives there now.
    voice: std::sync::Mutex<Option<mpsc::Sender<Bytes>>>,
    /// The outcome of its requests.
    heard: std::sync::Mutex<Vec<String>>,
}

impl House {
    fn count(&self) -> (usize, usize) {
        let count = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);
        (count(&self.opened), count(&self.ended))
    }

    async fn say(&self, text: &str) {
        let voice = self
            .voice
            .lock()
            .unwrap()
            .clone()
            .expect("somebody lives there");
        let update =
            json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "update": text } });
        voice.send(update.to_string().into()).await.unwrap();
    }

    /// The agent asks its client something, and says aloud what it hears.
    async fn ask(&self, request: &str) {
        let voice = self.voice.lock().unwrap().clone();
        let voice = voice.expect("somebody lives there");
        let params = json!({ "serverId": "s", "requestId": request, "method": "tools/list" });
        voice.send(params.to_string().into()).await.unwrap();
    }

    /// The agent dies.
    fn desert(&self) {
        self.voice.lock().unwrap().take();
    }
}

struct Lodger {
    house: Arc<House>,
    heard: Mutex<mpsc::Receiver<Bytes>>,
}

impl Drop for Lodger {
    fn drop(&mut self) {
        self.house.ended.fetch_add(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Conversation for Lodger {
    async fn prompt(&self, _: &Turn, _: &AgentMessage) -> Result<Box<RawValue>, Failure> {
        Ok(StopReason::EndTurn.answer())
    }

    async fn call(&self, _: &AgentMessage) -> Result<CallResult, Failure> {
        self.house.let_go.notified().await;
        Ok(CallResult {
            result: to_raw_value(&json!({ "slow": true })).unwrap(),
            announces: None,
        })
    }

    async fn listen(&self, stage: ListenContext<'_>) {
        let mut heard = self.heard.lock().await;
        while let Some(message) = heard.recv().await {
            match stage {
                ListenContext::Turn(turn) => turn.forward(message).await,
                ListenContext::Rest(rest) if message.starts_with(b"{\"jsonrpc") => {
                    rest.forward(message).await
                }
                ListenContext::Rest(rest) => {
                    let params: &RawValue = serde_json::from_slice(&message).unwrap();
                    let (answer, house) = (rest.request("mcp/message", params), self.house.clone());
                    tokio::spawn(async move {
                        let heard = match answer.await {
                            Ok(answer) => format!("heard {answer}"),
                            Err(failure) => format!("heard {failure}"),
                        };
                        house.heard.lock().unwrap().push(heard.clone());
                        if house.voice.lock().unwrap().is_some() {
                            house.say(&heard).await;
                        }
                    });
                }
            }
        }
    }

    fn idle_timeout(&self) -> Option<Duration> {
        Some(Duration::from_secs(3600))
    }

    fn view(&self) -> Bytes {
        Bytes::from_static(b"{}")
    }

    fn changes(&self) -> ConversationChanges {
        ConversationChanges::default()
    }
}

struct Landlord {
    name: String,
    house: Arc<House>,
}

#[async_trait]
impl Agent for Landlord {
    fn card(&self) -> AgentCard {
        AgentCard {
            name: self.name.clone(),
            version: "1".into(),
            initialize: json!({}),
        }
    }

    async fn open(&self, _: &SessionOpening) -> Result<Arc<dyn Conversation>, Failure> {
        self.house.opened.fetch_add(1, Ordering::SeqCst);
        let (voice, heard) = mpsc::channel(8);
        *self.house.voice.lock().unwrap() = Some(voice);
        Ok(Arc::new(Lodger {
            house: self.house.clone(),
            heard: Mutex::new(heard),
        }))
    }
}

async fn settled(slots: usize) -> (Arc<dyn Store>, Scene, Arc<House>, Worker) {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let scene = Scene::created(&store).await;
    let house = Arc::new(House::default());
    let agent = Arc::new(Landlord {
        name: scene.agent.clone(),
        house: house.clone(),
    });
    let worker = Worker::start_in(&store, agent, None, slots);
    prompt(&scene, "1").await;
    (store, scene, house, worker)
}

fn asking(scene: &Scene, kind: CommandKind, id: &str, method: &str) -> Command {
    let params = json!({ "prompt": [{ "type": "text", "text": "x" }] });
    let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    Command {
        message: message.to_string().into(),
        ..scene.command(kind, Some(&format!("{id:?}")))
    }
}

async fn ask(scene: &Scene, kind: CommandKind, id: &str, method: &str) {
    let asked = scene.request(asking(scene, kind, id, method));
    scene.store.enqueue(&asked).await.expect("the store works");
}

/// Asks, and waits for the answer.
async fn prompt(scene: &Scene, id: &str) {
    ask(scene, CommandKind::Prompt, id, "session/prompt").await;
    answered(scene, id).await;
}

async fn answered(scene: &Scene, id: &str) {
    until("an answer", async || {
        let frames = frames(scene).await;
        let mut events = frames.iter().flat_map(|frame| &frame.events);
        let wanted = format!("{id:?}");
        events.any(|event| matches!(event, Event::Response { to, .. } if *to.request == *wanted))
    })
    .await;
}

async fn heard(scene: &Scene, text: &str) {
    until("what the agent said", async || {
        let frames = frames(scene).await;
        let mut events = frames.iter().flat_map(|frame| &frame.events);
        events.any(|event| match event {
            Event::Update { message, .. } => String::from_utf8_lossy(message).contains(text),
            _ => false,
        })
    })
    .await;
}

#[tokio::test]
async fn it_is_heard_between_turns_and_asked_again_at_home() {
    let (_store, scene, house, _worker) = settled(8).await;
    house.say("by the way").await;
    heard(&scene, "by the way").await;
    prompt(&scene, "2").await;
    assert_eq!(house.count(), (1, 0));
}

#[tokio::test]
async fn a_slow_call_holds_nothing_up() {
    let (_store, scene, house, _worker) = settled(8).await;
    ask(&scene, CommandKind::Extension, "slow", "_slow").await;
    prompt(&scene, "2").await;
    house.say("meanwhile").await;
    heard(&scene, "meanwhile").await;
    house.let_go.notify_one();
    answered(&scene, "slow").await;
    assert_eq!(house.count(), (1, 0));
}

#[tokio::test]
async fn it_moves_out_when_the_session_is_closed() {
    let (_store, scene, house, _worker) = settled(8).await;
    ask(&scene, CommandKind::Close, "2", "session/close").await;
    answered(&scene, "2").await;
    until("it is gone", async || house.count() == (1, 1)).await;
}

#[tokio::test]
async fn when_it_has_died_the_session_is_opened_anew() {
    let (_store, scene, house, _worker) = settled(8).await;
    house.desert();
    until("it is gone", async || house.count() == (1, 1)).await;
    prompt(&scene, "2").await;
    assert_eq!(house.count(), (2, 1));
}

#[tokio::test]
async fn it_makes_room_for_who_has_something_to_do() {
    let (_store, scene, house, _worker) = settled(1).await;
    assert_eq!(house.count(), (1, 0));
    let other = scene.another().await;
    prompt(&other, "1").await;
    assert_eq!(house.count(), (2, 1));
    prompt(&scene, "2").await;
    assert_eq!(house.count(), (3, 2));
}

/// The ids of what the agent asked its client, and what the client would read.
async fn questions(scene: &Scene) -> Vec<(String, Value)> {
    let frames = frames(scene).await;
    let events = frames.iter().flat_map(|frame| &frame.events);
    let questions = events.filter_map(|event| match event {
        Event::Request { id, message } => {
            Some((id.to_string(), serde_json::from_slice(message).unwrap()))
        }
        _ => None,
    });
    questions.collect()
}

async fn question(scene: &Scene) -> (String, Value) {
    until("a question", async || !questions(scene).await.is_empty()).await;
    questions(scene).await.remove(0)
}

#[tokio::test]
async fn it_asks_its_client_between_turns_and_hears_the_answer_whenever_it_comes() {
    let (_store, scene, house, _worker) = settled(8).await;
    house.ask("r:1").await;
    let (id, message) = question(&scene).await;
    assert_eq!(message["method"], "mcp/message");
    let named = format!("{}:r:1", scene.id);
    assert_eq!(message["params"]["requestId"], named.as_str());
    // A turn that begins and ends meanwhile is none of its business.
    prompt(&scene, "2").await;
    let open = scene
        .store
        .attachment(&scene.id, &scene.creator, &scene.principal);
    let open = open.await.unwrap().expect("a session");
    assert_eq!(open.pending.len(), 1, "whoever comes now is asked, too");
    let answer = json!({ "jsonrpc": "2.0", "id": id, "result": { "result": { "tools": [] } } });
    let answer = Command {
        message: answer.to_string().into(),
        ..scene.command(CommandKind::Answer, None)
    };
    scene.store.enqueue(&scene.request(answer)).await.unwrap();
    heard(&scene, "heard {\\\"result\\\"").await;
    until("nothing is open", async || {
        let open = scene
            .store
            .attachment(&scene.id, &scene.creator, &scene.principal);
        open.await.unwrap().expect("a session").pending.is_empty()
    })
    .await;
}

#[tokio::test]
async fn what_it_asked_is_withdrawn_when_the_session_is_given_up() {
    let (_store, scene, house, worker) = settled(8).await;
    house.ask("r").await;
    let (id, _) = question(&scene).await;
    worker.stop.cancel();
    until("it is withdrawn", async || {
        let frames = frames(&scene).await;
        let mut events = frames.iter().flat_map(|frame| &frame.events);
        events.any(|event| matches!(event, Event::Answer { id: it, by: None, .. } if **it == *id))
    })
    .await;
    until("it hears of that", async || {
        let heard = house.heard.lock().unwrap();
        heard.iter().any(|heard| heard.contains("given up"))
    })
    .await;
}
