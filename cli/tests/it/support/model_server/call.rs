//! A request as it came.

use std::collections::BTreeMap;

use baton_worker::agent::llm::provider::CONTINUE_REQUEST;
use serde_json::Value;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireProtocol {
    Chat,
    Responses,
    Anthropic,
}

#[derive(Clone, Debug)]
pub struct ModelCall {
    pub protocol: WireProtocol,
    pub path: String,
    /// Names are in small letters.
    pub headers: BTreeMap<String, String>,
    pub body: Value,
}

/// The next request on a connection; `None` at its end.
pub async fn read(socket: &mut TcpStream, read: &mut Vec<u8>) -> Option<ModelCall> {
    let head = loop {
        if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            break read.drain(..end + 4).collect::<Vec<u8>>();
        }
        more(socket, read).await?;
    };
    let head = String::from_utf8(head).ok()?;
    let mut lines = head.lines();
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let length = headers.get("content-length");
    let length = length.and_then(|length| length.parse().ok()).unwrap_or(0);
    while read.len() < length {
        more(socket, read).await?;
    }
    let body: Vec<u8> = read.drain(..length).collect();
    Some(ModelCall {
        protocol: if path.contains("/messages") {
            WireProtocol::Anthropic
        } else if path.contains("/responses") {
            WireProtocol::Responses
        } else {
            WireProtocol::Chat
        },
        path,
        headers,
        body: serde_json::from_slice(&body).unwrap_or_default(),
    })
}

async fn more(socket: &mut TcpStream, read: &mut Vec<u8>) -> Option<()> {
    let count = socket.read_buf(read).await.ok()?;
    (count > 0).then_some(())
}

impl ModelCall {
    pub fn model(&self) -> &str {
        self.body["model"].as_str().unwrap_or_default()
    }

    /// The messages, or items of Responses.
    pub fn messages(&self) -> &[Value] {
        let member = match self.protocol {
            WireProtocol::Responses => "input",
            _ => "messages",
        };
        self.body[member].as_array().map_or(&[], Vec::as_slice)
    }

    /// The names of the tools that it offers.
    pub fn tools(&self) -> Vec<&str> {
        let tools = self.body["tools"].as_array();
        let tools = tools.into_iter().flatten();
        let name = |tool: &'_ Value| tool.pointer("/function/name").is_some();
        tools
            .filter_map(|tool| match name(tool) {
                true => tool["function"]["name"].as_str(),
                false => tool["name"].as_str(),
            })
            .collect()
    }

    /// The last text of the user.
    pub fn prompt(&self) -> String {
        let users = self.messages().iter().rev();
        let texts = users
            .filter(|message| message["role"] == "user")
            .map(|message| said_text(&message["content"]));
        let mut prompts = texts.filter(|text| !text.is_empty() && text != CONTINUE_REQUEST);
        prompts.next().unwrap_or_default()
    }

    /// Results of tools since the last message of the model: id and text.
    pub fn tool_results(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut results = Vec::new();
        for message in self.messages().iter().rev() {
            let parts = message["content"].as_array();
            let blocks = parts.into_iter().flatten();
            let blocks: Vec<&Value> = blocks
                .filter(|block| block["type"] == "tool_result")
                .collect();
            if message["role"] == "tool" {
                let id = text(&message["tool_call_id"]);
                results.push((id, said_text(&message["content"])));
            } else if message["type"] == "function_call_output" {
                results.push((text(&message["call_id"]), said_text(&message["output"])));
            } else if !blocks.is_empty() {
                let read =
                    |block: &&Value| (text(&block["tool_use_id"]), said_text(&block["content"]));
                results.extend(blocks.iter().rev().map(read));
            } else if message["role"] != "user" {
                break;
            }
        }
        results.reverse();
        results
    }

    /// The text after which the answer is to go on.
    pub fn beginning(&self) -> Option<String> {
        let (last, before) = self.messages().split_last()?;
        if last["role"] == "assistant" {
            return Some(said_text(&last["content"]));
        }
        let asked = said_text(&last["content"]) == CONTINUE_REQUEST;
        let before = before.last().filter(|_| asked)?;
        Some(said_text(&before["content"]))
    }
}

/// The texts of a content, a string or parts.
fn said_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part["text"].as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}
