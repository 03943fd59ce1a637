//! Requests that are answered in the body of their own POST, one after the other on a socket that stays open.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use memchr::memmem;
use serde_json::{Value, json};

use super::http::{expect, initialize, post_accepting};
use super::http1::Conn;
use super::{rpc, sse};

pub struct OneShot {
    conn: Conn,
    addr: SocketAddr,
    ids: String,
    last_id: u64,
}

pub struct Answered {
    pub result: Value,
    /// What the agent said before the answer.
    pub chunks: usize,
    /// From the first byte sent to the last one received.
    pub took: Duration,
}

impl OneShot {
    pub async fn open(addr: SocketAddr) -> Result<Self> {
        let mut conn = Conn::open(addr).await?;
        let connection = initialize(&mut conn, addr, "").await?;
        Ok(Self {
            conn,
            addr,
            ids: format!("acp-connection-id: {connection}\r\n"),
            last_id: rpc::INITIALIZE,
        })
    }

    pub async fn ask(&mut self, method: &str, params: Value) -> Result<Answered> {
        self.last_id += 1;
        let id = self.last_id;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let message = message.to_string();
        let request = post_accepting("text/event-stream", self.addr, &self.ids, &message);
        let started = Instant::now();
        self.conn.send(request.as_bytes()).await?;
        let head = self.conn.head().await?;
        let mut body = self.conn.body(&head).await?;
        let took = started.elapsed();
        expect(&head, 200, method, &body)?;
        let (mut chunks, mut answer) = (0, None);
        sse::drain(&mut body, |message| {
            match memmem::find(message, b"\"agent_message_chunk\"") {
                Some(_) => chunks += 1,
                None => {
                    let value: Value = serde_json::from_slice(message).unwrap_or_default();
                    answer = answer.take().or((value["id"] == id).then_some(value));
                }
            }
        });
        let answer = answer.with_context(|| format!("{method} was not answered in its body"))?;
        let result = rpc::result(&answer).with_context(|| method.to_owned())?;
        Ok(Answered {
            result: result.clone(),
            chunks,
            took,
        })
    }
}
