//! Server-sent events, as far as Baton sends them.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::Context as _;
use reqwest::Response;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    pub id: String,
    pub name: String,
    pub data: String,
}

impl SseEvent {
    /// Neither a comment, nor only a cursor, nor something about the stream itself.
    pub fn is_message(&self) -> bool {
        self.name.is_empty() && !self.data.is_empty()
    }
}

pub struct SseParser {
    response: Response,
    read: Vec<u8>,
    ready: VecDeque<SseEvent>,
    /// How long to wait before coming back, as the server last said.
    pub retry: Option<Duration>,
}

impl SseParser {
    pub fn of(response: Response) -> Self {
        Self {
            response,
            read: Vec::new(),
            ready: VecDeque::new(),
            retry: None,
        }
    }

    /// `None` at the end.
    pub async fn next(&mut self) -> anyhow::Result<Option<SseEvent>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            let chunk = self.response.chunk().await;
            let Some(chunk) = chunk.context("the stream broke off")? else {
                return Ok(None);
            };
            let searched = self.read.len().saturating_sub(1);
            self.read.extend_from_slice(&chunk);
            self.split(searched);
        }
    }

    fn split(&mut self, mut searched: usize) {
        let mut begin = 0;
        while let Some(end) = find(&self.read, searched.max(begin)) {
            let block = String::from_utf8_lossy(&self.read[begin..end]);
            let (event, retry) = parse(&block);
            self.ready.push_back(event);
            self.retry = retry.or(self.retry);
            begin = end + 2;
            searched = begin;
        }
        self.read.drain(..begin);
    }
}

/// Where a block ends.
fn find(bytes: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    let at = rest.windows(2).position(|pair| pair == b"\n\n")?;
    Some(from + at)
}

fn parse(block: &str) -> (SseEvent, Option<Duration>) {
    let (mut event, mut retry) = (SseEvent::default(), None);
    for line in block.lines() {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => event.id = value.to_owned(),
            "event" => event.name = value.to_owned(),
            "data" => {
                event.data.push_str(value);
                event.data.push('\n');
            }
            "retry" => retry = value.parse().ok().map(Duration::from_millis),
            _ => {}
        }
    }
    event.data.pop();
    (event, retry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_an_event() {
        let (event, retry) = parse("retry: 700\nid: 3.5\ndata: {\"a\": 1}");
        assert_eq!(
            (event.id.as_str(), event.data.as_str()),
            ("3.5", "{\"a\": 1}")
        );
        assert!(event.is_message());
        assert_eq!(retry, Some(Duration::from_millis(700)));
        for silent in [": comment", "id: 3.5", "event: reset\nid: 4.5\ndata: gone"] {
            assert!(!parse(silent).0.is_message(), "{silent}");
        }
    }
}
