//! Server-sent events as they come.

use std::collections::VecDeque;

use reqwest::Response;
use serde_json::Value;

use super::schema::CONVERSATIONS;
use super::within;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Event {
    pub id: String,
    pub event: String,
    pub data: String,
}

impl Event {
    pub fn message(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|e| panic!("{e}: {:?}", self.data))
    }

    /// The text of an agent's message chunk.
    pub fn chunk(&self) -> Option<String> {
        chunk_of(&self.message())
    }
}

/// The text of an agent's message chunk.
pub fn chunk_of(message: &Value) -> Option<String> {
    let update = &message["params"]["update"];
    let is_chunk = update["sessionUpdate"] == "agent_message_chunk";
    is_chunk.then(|| {
        update["content"]["text"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    })
}

pub struct Stream {
    /// Whose messages these are; `None` if they are not held against the schema.
    connection: Option<String>,
    response: Response,
    buffer: Vec<u8>,
    /// So much of it was looked at before: events may be large.
    searched: usize,
    events: VecDeque<Event>,
    /// The last id seen, as a browser would keep it.
    pub last_id: String,
    /// How long to wait before coming back, whenever the server said so.
    pub retries: Vec<u64>,
}

impl Stream {
    pub fn of(connection: &str, response: Response) -> Self {
        Self {
            connection: Some(connection.to_owned()),
            ..Self::unchecked(response)
        }
    }

    /// For requests that were made without a [`Client`](super::Client).
    pub fn unchecked(response: Response) -> Self {
        Self {
            connection: None,
            response,
            buffer: Vec::new(),
            searched: 0,
            events: VecDeque::new(),
            last_id: String::new(),
            retries: Vec::new(),
        }
    }

    /// The next event that has data; `None` when the stream has ended.
    pub async fn next(&mut self) -> Option<Event> {
        within("an event", async {
            loop {
                let event = self.block().await?;
                if !event.data.is_empty() {
                    return Some(event);
                }
            }
        })
        .await
    }

    /// Bytes that came by other means.
    pub fn parse_bytes(connection: &str, bytes: &[u8]) -> Vec<Event> {
        let mut rest = bytes;
        let mut events = Vec::new();
        while let Some(end) = rest.windows(2).position(|pair| pair == b"\n\n") {
            let block = String::from_utf8(rest[..end].to_vec()).expect("streams are UTF-8");
            let event = parse_block(&block).0;
            check(connection, &event);
            events.push(event);
            rest = &rest[end + 2..];
        }
        events
    }

    /// The next event, also one without data, or a comment; waits as long as it takes.
    pub async fn block(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                if !event.id.is_empty() {
                    self.last_id.clone_from(&event.id);
                }
                return Some(event);
            }
            // A cut connection is an end, too.
            let chunk = self.response.chunk().await.unwrap_or_default()?;
            self.buffer.extend_from_slice(&chunk);
            self.parse();
        }
    }

    fn parse(&mut self) {
        while let Some(end) = self.end_of_block() {
            let block: Vec<u8> = self.buffer.drain(..end + 2).collect();
            self.searched = 0;
            let block = String::from_utf8(block).expect("streams are UTF-8");
            let (event, retry) = parse_block(&block);
            if let Some(connection) = &self.connection {
                check(connection, &event);
            }
            self.retries.extend(retry);
            self.events.push_back(event);
        }
    }

    fn end_of_block(&mut self) -> Option<usize> {
        let mut pairs = self.buffer[self.searched..].windows(2);
        let found = pairs.position(|pair| pair == b"\n\n");
        let end = found.map(|end| self.searched + end);
        self.searched = self.buffer.len().saturating_sub(1);
        end
    }

    /// Reads on to the response with this id and returns it.
    pub async fn response(&mut self, id: &Value) -> Value {
        self.until_response(id).await.1
    }

    /// All events before the response with this id, and the response.
    pub async fn until_response(&mut self, id: &Value) -> (Vec<Event>, Value) {
        let mut before = Vec::new();
        loop {
            let event = self
                .next()
                .await
                .unwrap_or_else(|| panic!("the stream ended before the answer to {id}"));
            let message = event.message();
            if message["id"] == *id && message.get("method").is_none() {
                return (before, message);
            }
            before.push(event);
        }
    }

    /// Reads to the end of the stream; what came are comments and hints only.
    pub async fn ends(&mut self) {
        let more = self.next().await;
        assert_eq!(more, None, "nothing more is said");
    }

    /// The texts of chunks up to the response, which must be a normal end.
    pub async fn turn(&mut self, id: &Value) -> Vec<String> {
        let (events, response) = self.until_response(id).await;
        assert_eq!(response["result"]["stopReason"], "end_turn", "{response}");
        events.iter().filter_map(Event::chunk).collect()
    }
}

/// A named event, such as a reset, is none of the protocol's messages.
fn check(connection: &str, event: &Event) {
    if event.event.is_empty() && !event.data.is_empty() {
        CONVERSATIONS.received(connection, &event.message());
    }
}

fn parse_block(block: &str) -> (Event, Option<u64>) {
    let (mut event, mut retry) = (Event::default(), None);
    for line in block.lines() {
        match line.split_once(": ") {
            Some(("id", value)) => event.id = value.to_owned(),
            Some(("event", value)) => event.event = value.to_owned(),
            Some(("data", value)) => event.data = value.to_owned(),
            Some(("retry", value)) => retry = value.parse().ok(),
            _ => {}
        }
    }
    (event, retry)
}

/// What `/count` says.
pub fn counted(chunks: u64, prompt: u64) -> Vec<String> {
    (1..=chunks)
        .map(|chunk| format!("chunk {chunk} of {chunks}, prompt {prompt} "))
        .collect()
}
