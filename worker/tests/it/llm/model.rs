//! A model that says what a test wants, slowly enough to be interrupted anywhere. It goes on after
//! the beginning that a request ends with.

use std::time::Duration;

use baton_worker::agent::llm::provider::CONTINUE_REQUEST;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

pub const SAID: &str = "First I change the file. It is done now, all of it.";
const FIRST: [&str; 3] = ["First I ", "change ", "the file. "];
const LAST: [&str; 3] = ["It is ", "done now, ", "all of it."];
/// The word at which it falls silent for ever.
pub const STALL: &str = "… ";
const PAUSE: Duration = Duration::from_millis(40);

/// What it says in each step, and the tool that it calls.
pub type Script = fn(step: usize) -> (&'static [&'static str], Option<(&'static str, Value)>);

/// Edits a file, runs a command and reports.
pub fn edit_and_run(step: usize) -> (&'static [&'static str], Option<(&'static str, Value)>) {
    let edit = json!({ "path": "/tmp/a", "old_text": "one", "new_text": "1" });
    match step {
        0 => (&FIRST, Some(("edit_file", edit))),
        1 => (&[], Some(("run_command", json!({ "command": "make" })))),
        _ => (&LAST, None),
    }
}

pub struct Model {
    port: u16,
    task: JoinHandle<()>,
}

impl Model {
    pub async fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let port = listener.local_addr().expect("bound").port();
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, script));
            }
        });
        Self { port, task }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut socket: TcpStream, script: Script) -> Option<()> {
    let mut read = Vec::new();
    let body = request(&mut socket, &mut read).await?;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    socket.write_all(head.as_bytes()).await.ok()?;
    for piece in answer(&body, script) {
        let data = format!("data: {piece}\n\n");
        if piece["choices"][0]["delta"]["content"] == STALL {
            std::future::pending::<()>().await;
        }
        socket.write_all(data.as_bytes()).await.ok()?;
        tokio::time::sleep(PAUSE).await;
    }
    socket.write_all(b"data: [DONE]\n\n").await.ok()
}

async fn request(socket: &mut TcpStream, read: &mut Vec<u8>) -> Option<Value> {
    loop {
        if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&read[..end]).to_lowercase();
            let length = head
                .lines()
                .find_map(|it| it.strip_prefix("content-length: "));
            let length: usize = length?.trim().parse().ok()?;
            if read.len() >= end + 4 + length {
                let body = serde_json::from_slice(&read[end + 4..end + 4 + length]);
                return body.ok();
            }
        }
        (socket.read_buf(read).await.ok()? > 0).then_some(())?;
    }
}

fn text(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|it| it["text"].as_str()).collect(),
        _ => String::new(),
    }
}

/// What was said of this message already.
fn beginning(messages: &[Value]) -> String {
    let Some((last, before)) = messages.split_last() else {
        return String::new();
    };
    let asked = text(last) == CONTINUE_REQUEST;
    let last = if asked { before.last() } else { Some(last) };
    let last = last.filter(|message| message["role"] == "assistant");
    last.map(text).unwrap_or_default()
}

fn answer(body: &Value, script: Script) -> Vec<Value> {
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    let step = messages.iter().filter(|it| it["role"] == "tool").count();
    let said = beginning(&messages);
    let (words, call) = script(step);
    let delta = |delta: Value| json!({ "choices": [{ "index": 0, "delta": delta }] });
    let mut pieces = Vec::new();
    if step == 0 {
        pieces.push(delta(json!({ "reasoning_content": "hm" })));
    }
    let whole = words.concat();
    let rest = whole.strip_prefix(said.trim_end()).unwrap_or(&whole);
    let rest = if said.ends_with(' ') {
        rest.trim_start()
    } else {
        rest
    };
    let words = rest.split_inclusive(' ');
    pieces.extend(words.map(|word| delta(json!({ "content": word }))));
    if let Some((name, arguments)) = &call {
        let function = json!({ "name": name, "arguments": arguments.to_string() });
        let call = json!({ "index": 0, "id": format!("call_{step}"), "type": "function", "function": function });
        pieces.push(delta(json!({ "tool_calls": [call] })));
    }
    let reason = if call.is_some() { "tool_calls" } else { "stop" };
    let usage = json!({ "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 });
    let end = json!({ "index": 0, "delta": {}, "finish_reason": reason });
    pieces.push(json!({ "choices": [end], "usage": usage }));
    pieces
}
