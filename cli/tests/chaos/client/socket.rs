//! A WebSocket that comes back with its cursor, and sends again what was not answered.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use rand::RngExt as _;
use rand::rngs::StdRng;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use super::{World, anywhere, initialize, never};
use crate::ledger::id_of;

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

#[derive(Deserialize)]
struct Frame<'a> {
    cursor: String,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
}

/// Something to be said.
pub struct Saying {
    pub message: Value,
    /// It was said before, and is said again for no reason: nobody waits for it.
    pub again: bool,
}

/// Runs for as long as the task lives.
pub async fn run(
    world: Arc<World>,
    name: String,
    agent: &'static str,
    mut said: UnboundedReceiver<Saying>,
    heard: UnboundedSender<Value>,
) {
    let mut rng = world.rng(&format!("{name} socket"));
    let mut caller = Caller {
        patient: World::is_patient(&mut rng),
        world,
        name,
        agent,
        heard,
        token: Value::Null,
        cursor: "0".into(),
        unanswered: Vec::new(),
    };
    loop {
        if let Some(socket) = caller.connect(&mut rng).await {
            let leaves = Instant::now() + millis(&mut rng, 500, 12_000);
            caller.talk(socket, &mut said, leaves, &mut rng).await;
            caller.world.ledger.count(|counts| counts.cuts += 1);
        }
        sleep(millis(&mut rng, 20, 250)).await;
    }
}

fn millis(rng: &mut StdRng, from: u64, to: u64) -> Duration {
    Duration::from_millis(rng.random_range(from..to))
}

struct Caller {
    world: Arc<World>,
    name: String,
    agent: &'static str,
    heard: UnboundedSender<Value>,
    token: Value,
    cursor: String,
    /// A socket acknowledges nothing: only the answer says that a message arrived.
    unanswered: Vec<Value>,
    patient: bool,
}

impl Caller {
    /// A socket that has been introduced, with everything said that has no answer yet.
    async fn connect(&mut self, rng: &mut StdRng) -> Option<Socket> {
        let url = anywhere(&self.world, self.agent, rng).replace("http://", "ws://") + "?resume=1";
        let patience = millis(rng, 1000, 8000);
        let (mut socket, _) = timeout(patience, connect_async(url)).await.ok()?.ok()?;
        if self.token.is_null() {
            send(&mut socket, &initialize()).await?;
            let answer = timeout(patience, next(&mut socket)).await.ok()??;
            let answer: Value = serde_json::from_str(&answer).ok()?;
            self.token = answer["message"]["result"]["_meta"]["baton/connection"]["token"].clone();
            self.token.as_str()?;
        } else {
            let text = format!("comes back after {}", self.cursor);
            self.world.ledger.trace(&self.name, &text);
            let resume = json!({ "connection": self.token, "cursor": self.cursor });
            send(&mut socket, &json!({ "resume": resume })).await?;
        }
        for message in &self.unanswered {
            send(&mut socket, message).await?;
        }
        Some(socket)
    }

    /// Until the socket breaks, is silent for too long, or the client feels like leaving.
    async fn talk(
        &mut self,
        mut socket: Socket,
        said: &mut UnboundedReceiver<Saying>,
        leaves: Instant,
        rng: &mut StdRng,
    ) {
        loop {
            let silence = Instant::now() + millis(rng, 2000, 9000);
            let then = if self.patient {
                never()
            } else {
                leaves.min(silence)
            };
            tokio::select! {
                Some(Saying { message, again }) = said.recv() => {
                    if !again {
                        self.unanswered.push(message.clone());
                    }
                    if send(&mut socket, &message).await.is_none() {
                        return;
                    }
                }
                text = next(&mut socket) => match text {
                    Some(text) => if self.hear(&text).is_break() { return },
                    None => return,
                },
                _ = sleep_until(then) => return,
            }
        }
    }

    fn hear(&mut self, text: &str) -> ControlFlow<()> {
        let ledger = &self.world.ledger;
        let Ok(frame) = serde_json::from_str::<Frame>(text) else {
            ledger.violation("I1", &self.name, "-", &format!("not a frame: {text:.200}"));
            return ControlFlow::Break(());
        };
        let Some(raw) = frame.message else {
            ledger.reset(&self.name, "socket", &self.cursor);
            self.cursor = frame.cursor;
            return ControlFlow::Continue(());
        };
        let message = ledger.saw(&self.name, "socket", &frame.cursor, raw.get());
        self.cursor = frame.cursor;
        let Some(message) = message else {
            return ControlFlow::Break(());
        };
        if message.get("method").is_none() {
            let id = id_of(&message);
            ledger.accepted(&self.name, &id);
            self.unanswered.retain(|said| id_of(said) != id);
            // When every request has its answer, also what was said about them has arrived.
            if !self.unanswered.iter().any(is_request) {
                self.unanswered.clear();
            }
        }
        let _ = self.heard.send(message);
        ControlFlow::Continue(())
    }
}

fn is_request(message: &Value) -> bool {
    message.get("method").is_some() && message.get("id").is_some()
}

async fn send(socket: &mut Socket, message: &Value) -> Option<()> {
    let sent = socket.send(Message::text(message.to_string()));
    timeout(Duration::from_secs(8), sent).await.ok()?.ok()
}

/// `None` when the socket is of no more use.
async fn next(socket: &mut Socket) -> Option<String> {
    loop {
        match socket.next().await? {
            Ok(Message::Text(text)) => return Some(text.to_string()),
            Ok(Message::Ping(_) | Message::Pong(_)) => {}
            _ => return None,
        }
    }
}
