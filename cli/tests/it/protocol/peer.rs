//! A client of the table's rows: the same to them whatever carries its messages.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use super::Transport;
use super::inbox::{Inbox, Reading};
use crate::support::schema::{self, CONVERSATIONS};
use crate::support::websocket::Socket;
use crate::support::{Client, Stream};

pub struct Peer {
    wire: Wire,
    /// The result of `initialize`.
    pub greeting: Value,
    pub inbox: Arc<Inbox>,
    next_id: AtomicU64,
    readers: Mutex<JoinSet<()>>,
    /// The sessions that have a stream of their own.
    streamed: Mutex<HashSet<String>>,
}

enum Wire {
    /// POSTs that are answered on streams, as the official clients do it.
    Streams(Client),
    /// POSTs that are answered in their bodies.
    OneShot(Client),
    Socket(mpsc::UnboundedSender<Value>, String),
}

/// A request that was sent, and how much had been received by then.
pub struct Asked {
    pub id: Value,
    mark: usize,
}

#[derive(Debug)]
pub struct Refusal {
    pub code: i64,
    pub message: String,
}

/// How a turn ended, and what was said in it.
#[derive(Debug)]
pub struct Turn {
    pub stop: String,
    pub updates: Vec<Value>,
}

pub type Answer = Result<Value, Refusal>;

impl Peer {
    pub async fn open(
        transport: Transport,
        url: &str,
        initialize: Value,
        inbox: Arc<Inbox>,
    ) -> Result<Self, Refusal> {
        let mut readers = JoinSet::new();
        let (wire, greeting) = match transport {
            Transport::WebSocket => socket(url, initialize, &inbox, &mut readers).await,
            _ => {
                let opened = Client::open(url, initialize).await;
                let (client, answer) = opened.expect("initialize is answered");
                let wire = match transport {
                    Transport::OneShot => Wire::OneShot(client),
                    _ => {
                        let stream = client.connection_stream(None).await;
                        readers.spawn(read(stream, inbox.clone()));
                        Wire::Streams(client)
                    }
                };
                (wire, answer)
            }
        };
        Ok(Self {
            wire,
            greeting: judge(&greeting)?,
            inbox,
            next_id: AtomicU64::new(1),
            readers: Mutex::new(readers),
            streamed: Mutex::default(),
        })
    }

    /// An update of this kind is no fault, though the schema does not know it.
    pub fn tolerates(&self, kind: &str) {
        let connection = match &self.wire {
            Wire::Streams(client) | Wire::OneShot(client) => &client.token,
            Wire::Socket(_, connection) => connection,
        };
        CONVERSATIONS.tolerate(connection, kind);
    }

    /// Sends a request and does not wait for its answer.
    pub async fn ask(&self, method: &str, params: Value) -> Asked {
        let id = json!(self.next_id.fetch_add(1, Ordering::Relaxed));
        let mark = self.inbox.len();
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(message).await;
        Asked { id, mark }
    }

    pub async fn notify(&self, method: &str, params: Value) {
        self.send(json!({ "jsonrpc": "2.0", "method": method, "params": params }))
            .await;
    }

    /// Answers a question of the agent.
    pub async fn reply(&self, question: &Value, result: Value) {
        self.send(json!({ "jsonrpc": "2.0", "id": question["id"], "result": result }))
            .await;
    }

    pub async fn answer(&self, asked: &Asked) -> Answer {
        let answer = self.inbox.answer(asked.mark, &asked.id).await.1;
        let answer = judge(&answer);
        if let Ok(result) = &answer
            && let Some(session) = result["sessionId"].as_str()
        {
            self.open_stream(session).await;
        }
        answer
    }

    pub async fn call(&self, method: &str, params: Value) -> Answer {
        let asked = self.ask(method, params).await;
        self.answer(&asked).await
    }

    /// The session's updates that came between a request and its answer.
    pub async fn updates_during(&self, asked: &Asked, session: &str) -> Vec<Value> {
        let (end, _) = self.inbox.answer(asked.mark, &asked.id).await;
        self.inbox.updates(asked.mark..end, session)
    }

    /// All updates of the session so far.
    pub fn updates(&self, session: &str) -> Vec<Value> {
        self.inbox.updates(0..self.inbox.len(), session)
    }

    /// The prompt's own updates, and how it ended.
    pub async fn turn(&self, asked: &Asked, session: &str) -> Turn {
        let updates = self.updates_during(asked, session).await;
        let result = self.answer(asked).await.expect("the prompt succeeds");
        let stop = result["stopReason"].as_str().expect("a stop reason");
        Turn {
            stop: stop.to_owned(),
            updates,
        }
    }

    async fn send(&self, message: Value) {
        match &self.wire {
            Wire::Socket(outgoing, _) => outgoing.send(message).expect("the socket is open"),
            Wire::OneShot(client)
                if message.get("method").is_some() && message.get("id").is_some() =>
            {
                let body = client.one_shot(message).await;
                self.readers
                    .lock()
                    .await
                    .spawn(read(body, self.inbox.clone()));
            }
            Wire::OneShot(client) => client.post(message).await,
            Wire::Streams(client) => {
                if let Some(session) = message["params"]["sessionId"].as_str() {
                    self.open_stream(session).await;
                }
                client.post(message).await;
            }
        }
    }

    /// As the official clients do: before the first message about a session, and once it is created.
    async fn open_stream(&self, session: &str) {
        if let Wire::Streams(client) = &self.wire
            && self.streamed.lock().await.insert(session.to_owned())
        {
            let stream = client.session_stream(session, None).await;
            let reader = read(stream, self.inbox.clone());
            self.readers.lock().await.spawn(reader);
        }
    }
}

async fn read(mut stream: Stream, inbox: Arc<Inbox>) {
    let _reading = Reading(inbox.clone());
    while let Some(event) = stream.block().await {
        if !event.data.is_empty() {
            inbox.push(event.data);
        }
    }
}

async fn socket(
    url: &str,
    initialize: Value,
    inbox: &Arc<Inbox>,
    readers: &mut JoinSet<()>,
) -> (Wire, Value) {
    let mut socket = Socket::open(url, false).await;
    let connection = socket.connection().to_owned();
    let message =
        json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": initialize });
    socket.send(message).await;
    let greeting = socket.next().await;
    schema::check_answer("initialize", &greeting);
    let (outgoing, mut waiting) = mpsc::unbounded_channel::<Value>();
    let inbox = inbox.clone();
    readers.spawn(async move {
        let _reading = Reading(inbox.clone());
        loop {
            tokio::select! {
                message = waiting.recv() => match message {
                    Some(message) => socket.send(message).await,
                    None => return,
                },
                text = socket.next_text() => inbox.push(text),
            }
        }
    });
    (Wire::Socket(outgoing, connection), greeting)
}

fn judge(answer: &Value) -> Answer {
    match (answer.get("result"), answer.get("error")) {
        (Some(result), _) => Ok(result.clone()),
        (_, Some(error)) => Err(Refusal {
            code: error["code"].as_i64().expect("a code"),
            message: error["message"].as_str().expect("a message").to_owned(),
        }),
        _ => panic!("neither result nor error: {answer}"),
    }
}
