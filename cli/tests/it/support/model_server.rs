//! A model endpoint that does what a test says, byte by byte, in all protocols on one port: Chat
//! Completions and Responses under `/v1`, Anthropic Messages at `/v1/messages`.
//!
//! Each request takes the next script; when none is left, the rule of [`ModelServer::always`].

mod call;
mod render;
mod script;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

pub use self::call::{ModelCall, WireProtocol};
pub use self::script::{ModelScript, ScriptStep};

use self::render::Rendering;
use super::within;

pub struct ModelServer {
    pub port: u16,
    state: Arc<ServerState>,
    task: JoinHandle<()>,
}

type ScriptRule = Arc<dyn Fn(&ModelCall) -> ModelScript + Send + Sync>;

struct ServerState {
    scripts: Mutex<VecDeque<ModelScript>>,
    rule: Mutex<Option<ScriptRule>>,
    calls: watch::Sender<Vec<ModelCall>>,
    /// Answers that are under way.
    open: watch::Sender<usize>,
    connections: AtomicUsize,
    /// Steps and ends that were reached.
    held: watch::Sender<usize>,
    /// Steps that wait go on.
    released: watch::Sender<u64>,
}

impl ModelServer {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let port = listener.local_addr().expect("bound").port();
        let state = Arc::new(ServerState {
            scripts: Mutex::default(),
            rule: Mutex::default(),
            calls: watch::Sender::default(),
            open: watch::Sender::default(),
            connections: AtomicUsize::new(0),
            held: watch::Sender::default(),
            released: watch::Sender::default(),
        });
        let shared = state.clone();
        let task = tokio::spawn(async move {
            // Dropped with the task, and every connection with it.
            let mut connections = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                let _ = socket.set_nodelay(true);
                shared.connections.fetch_add(1, Ordering::SeqCst);
                connections.spawn(serve(socket, shared.clone()));
                while connections.try_join_next().is_some() {}
            }
        });
        Self { port, state, task }
    }

    /// The base URL, as the options of `--agent llm` take it.
    pub fn url(&self, protocol: WireProtocol) -> String {
        let version = match protocol {
            WireProtocol::Anthropic => "",
            _ => "/v1",
        };
        format!("http://127.0.0.1:{}{version}", self.port)
    }

    /// One more request is answered like this.
    pub fn then(&self, script: ModelScript) -> &Self {
        let mut scripts = self.state.scripts.lock().expect("held for moments only");
        scripts.push_back(script);
        drop(scripts);
        self
    }

    /// How requests are answered for which there is no script.
    pub fn always(
        &self,
        rule: impl Fn(&ModelCall) -> ModelScript + Send + Sync + 'static,
    ) -> &Self {
        let mut slot = self.state.rule.lock().expect("held for moments only");
        *slot = Some(Arc::new(rule));
        drop(slot);
        self
    }

    /// Every request so far.
    pub fn calls(&self) -> Vec<ModelCall> {
        self.state.calls.borrow().clone()
    }

    /// The request with this number, from zero, once it has come.
    pub async fn call(&self, number: usize) -> ModelCall {
        let mut calls = self.state.calls.subscribe();
        let came = calls.wait_for(|calls| calls.len() > number);
        let calls = within("the model is called", came).await;
        calls.expect("the server lives")[number].clone()
    }

    /// All [`ScriptStep::Hold`] that wait go on.
    pub fn release(&self) {
        self.state.released.send_modify(|count| *count += 1);
    }

    /// Waits until this many [`ScriptStep::Hold`] were reached, or answers ended instead.
    pub async fn holding(&self, times: usize) {
        let mut held = self.state.held.subscribe();
        let waited = held.wait_for(|held| *held >= times).await;
        waited.expect("the server lives");
    }

    /// How many there were.
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// Waits until no answer is under way: each was finished, or its client has left.
    pub async fn quiet(&self) {
        let mut open = self.state.open.subscribe();
        let quiet = open.wait_for(|open| *open == 0);
        let waited = within("no call of the model is open", quiet).await;
        waited.expect("the server lives");
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ServerState {
    fn script(&self, call: &ModelCall) -> ModelScript {
        let next = self
            .scripts
            .lock()
            .expect("held for moments only")
            .pop_front();
        let rule = self.rule.lock().expect("held for moments only").clone();
        match (next, rule) {
            (Some(script), _) => script,
            (None, Some(rule)) => rule(call),
            (None, None) => ModelScript::error(400, json!({ "error": { "message": "no script" } })),
        }
    }
}

/// Counts an answer for as long as it is under way.
struct OpenAnswer<'a>(&'a ServerState);

impl<'a> OpenAnswer<'a> {
    fn of(state: &'a ServerState) -> Self {
        state.open.send_modify(|open| *open += 1);
        Self(state)
    }
}

impl Drop for OpenAnswer<'_> {
    fn drop(&mut self) {
        self.0.open.send_modify(|open| *open -= 1);
    }
}

async fn serve(mut socket: TcpStream, state: Arc<ServerState>) {
    let mut read = Vec::new();
    while let Some(call) = call::read(&mut socket, &mut read).await {
        if call.path.ends_with("/models") {
            let models = json!({ "object": "list", "data": [{ "id": "test-model" }] });
            let script = ModelScript::error(200, models);
            let Ok(()) = refuse(&mut socket, &script).await else {
                return;
            };
            continue;
        }
        let _open = OpenAnswer::of(&state);
        // Counted before it is seen, so that `quiet` means all that were seen.
        state.calls.send_modify(|calls| calls.push(call.clone()));
        let script = state.script(&call);
        let left = watch_for_end(&mut socket, &state, &call, &script).await;
        if left.is_err() {
            return;
        }
    }
}

/// The client has left, or the script wants the connection to end.
struct ConnectionEnds;

impl From<std::io::Error> for ConnectionEnds {
    fn from(_: std::io::Error) -> Self {
        Self
    }
}

async fn watch_for_end(
    socket: &mut TcpStream,
    state: &ServerState,
    call: &ModelCall,
    script: &ModelScript,
) -> Result<(), ConnectionEnds> {
    if script.status != 200 || script.body.is_some() {
        return refuse(socket, script).await;
    }
    let (mut from, mut to) = socket.split();
    let mut byte = [0];
    tokio::select! {
        answered = answer(&mut to, state, call, script) => answered,
        // Clients send nothing before the answer's end, so anything that can be read is the end.
        _ = from.peek(&mut byte) => Err(ConnectionEnds),
    }
}

async fn refuse(socket: &mut TcpStream, script: &ModelScript) -> Result<(), ConnectionEnds> {
    let body = script.body.clone().unwrap_or_default();
    let mut head = format!("HTTP/1.1 {} Scripted\r\n", script.status);
    let kind = ("content-type".to_owned(), "application/json".to_owned());
    let named = script.headers.iter().any(|(name, _)| *name == kind.0);
    for (name, value) in script.headers.iter().chain((!named).then_some(&kind)) {
        head += &format!("{name}: {value}\r\n");
    }
    let whole = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    socket.write_all(whole.as_bytes()).await?;
    Ok(())
}

async fn answer(
    to: &mut (impl tokio::io::AsyncWrite + Unpin),
    state: &ServerState,
    call: &ModelCall,
    script: &ModelScript,
) -> Result<(), ConnectionEnds> {
    let mut head = String::from(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n",
    );
    for (name, value) in &script.headers {
        head += &format!("{name}: {value}\r\n");
    }
    to.write_all(format!("{head}\r\n").as_bytes()).await?;
    let mut rendering = Rendering::new(call);
    let mut room = script.breaks_at.unwrap_or(usize::MAX);
    for step in script.steps_after(call.beginning().as_deref()) {
        let piece = match &step {
            ScriptStep::Pause(pause) => {
                sleep(*pause).await;
                continue;
            }
            ScriptStep::Hold => {
                let mut released = state.released.subscribe();
                let now = *released.borrow_and_update();
                state.held.send_modify(|held| *held += 1);
                let _ = released.wait_for(|count| *count > now).await;
                continue;
            }
            ScriptStep::Stall => return std::future::pending().await,
            ScriptStep::BreakOff => return Err(ConnectionEnds),
            step => rendering.step(step, script),
        };
        let piece = &piece.as_bytes()[..piece.len().min(room)];
        if !piece.is_empty() {
            to.write_all(format!("{:x}\r\n", piece.len()).as_bytes())
                .await?;
            to.write_all(piece).await?;
            to.write_all(b"\r\n").await?;
        }
        room -= piece.len();
        if room == 0 {
            return Err(ConnectionEnds);
        }
    }
    to.write_all(b"0\r\n\r\n").await?;
    state.held.send_modify(|held| *held += 1);
    Ok(())
}
