//! `session/load` on a connection of its own: how fast a history comes back, and whether it is all of it.

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::Result;
use memchr::memmem;
use serde_json::Value;

use super::http::{accepted, delete, initialize, post, subscribe};
use super::http1::Conn;
use super::{rpc, sse};
use crate::count::Count;

/// A session whose every prompt was answered by the same number of chunks.
#[derive(Clone, Debug)]
pub struct History {
    pub session: String,
    pub count: Count,
    pub prompts: u64,
}

pub struct Loaded {
    /// `session/update`s until the answer.
    pub updates: u64,
    pub bytes: usize,
    pub seconds: f64,
    /// The first thing that was not as it should be.
    pub fault: Option<String>,
}

/// A load that was asked for and not read yet.
pub struct Loading {
    pub stream: Conn,
    /// Held open, as SDK clients do; nothing comes here, because the session has a stream of its own.
    _connection_stream: Conn,
    posts: Conn,
    ids: String,
    addr: SocketAddr,
    asked: Instant,
}

impl Loading {
    /// `stream` becomes the session's stream, which clients open before they load.
    pub async fn ask(addr: SocketAddr, session: &str, mut stream: Conn) -> Result<Self> {
        let mut connection_stream = Conn::open(addr).await?;
        let connection = initialize(&mut connection_stream, addr, "").await?;
        let mut ids = format!("acp-connection-id: {connection}\r\n");
        subscribe(&mut connection_stream, addr, &ids).await?;
        ids += &format!("acp-session-id: {session}\r\n");
        subscribe(&mut stream, addr, &ids).await?;
        let mut posts = Conn::open(addr).await?;
        let request = post(addr, &ids, &rpc::load_session(session));
        let asked = Instant::now();
        accepted(&mut posts, &request).await?;
        Ok(Self {
            stream,
            _connection_stream: connection_stream,
            posts,
            ids,
            addr,
            asked,
        })
    }
}

impl History {
    /// Loads the session and reads as fast as it can.
    pub async fn load(&self, addr: SocketAddr) -> Result<Loaded> {
        let mut loading = Loading::ask(addr, &self.session, Conn::open(addr).await?).await?;
        let (mut pending, mut check, mut bytes) = (Vec::new(), Check::new(self), 0);
        while !check.answered {
            let before = pending.len();
            anyhow::ensure!(
                loading.stream.chunks(&mut pending).await?,
                "the stream ended before the answer"
            );
            bytes += pending.len() - before;
            sse::drain(&mut pending, |message| check.receive(message));
        }
        let seconds = loading.asked.elapsed().as_secs_f64();
        delete(&mut loading.posts, loading.addr, &loading.ids).await?;
        Ok(Loaded {
            updates: check.updates,
            bytes,
            seconds,
            fault: check.fault,
        })
    }
}

/// Every chunk once, in order, and then the answer.
struct Check<'a> {
    history: &'a History,
    /// The chunk and prompt that must come next.
    next: (u32, u64),
    updates: u64,
    answered: bool,
    fault: Option<String>,
}

impl<'a> Check<'a> {
    fn new(history: &'a History) -> Self {
        Self {
            history,
            next: (1, 1),
            updates: 0,
            answered: false,
            fault: None,
        }
    }

    fn receive(&mut self, message: &[u8]) {
        if memmem::find(message, b"\"agent_message_chunk\"").is_none() {
            return self.other(message);
        }
        self.updates += 1;
        let found = self.history.count.find(message);
        if found != Some(self.next) {
            self.fault(format!("{:?} came instead of {:?}", found, self.next));
        }
        let (k, prompt) = found.unwrap_or(self.next);
        self.next = if k == self.history.count.chunks {
            (1, prompt + 1)
        } else {
            (k + 1, prompt)
        };
    }

    fn other(&mut self, message: &[u8]) {
        let value: Value = serde_json::from_slice(message).unwrap_or_default();
        if value["method"] == "session/update" {
            // What the user said.
            self.updates += 1;
        } else if value["id"] == rpc::LOAD_SESSION && !self.answered {
            self.answered = true;
            if let Err(error) = rpc::result(&value) {
                self.fault(error.to_string());
            }
            let end = (1, self.history.prompts + 1);
            if self.next != end {
                self.fault(format!("the answer came before {:?}", self.next));
            }
        } else {
            self.fault(String::from_utf8_lossy(message).chars().take(400).collect());
        }
    }

    fn fault(&mut self, fault: String) {
        self.fault.get_or_insert(fault);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(chunks: &[(u32, u64)]) -> Option<String> {
        let history = History {
            session: "s".into(),
            count: Count::parse("/count 2 size=50").unwrap(),
            prompts: 2,
        };
        let mut check = Check::new(&history);
        check.receive(br#"{"method":"session/update","params":{"update":{"sessionUpdate":"user_message_chunk"}}}"#);
        for (k, prompt) in chunks {
            let text = history.count.text(*k, *prompt);
            let update = format!(
                r#"{{"sessionUpdate":"agent_message_chunk","content":{{"text":"{text}"}}}}"#
            );
            check.receive(update.as_bytes());
        }
        check.receive(br#"{"id":1,"result":{}}"#);
        assert!(check.answered);
        assert_eq!(check.updates, 1 + chunks.len() as u64);
        check.fault
    }

    #[test]
    fn a_whole_history_has_no_fault() {
        assert_eq!(check(&[(1, 1), (2, 1), (1, 2), (2, 2)]), None);
    }

    #[test]
    fn gaps_repeats_swaps_and_a_cut_are_faults() {
        for chunks in [
            &[(1, 1), (1, 2), (2, 2)][..],
            &[(1, 1), (2, 1), (2, 1), (1, 2), (2, 2)],
            &[(2, 1), (1, 1), (1, 2), (2, 2)],
            &[(1, 1), (2, 1), (1, 2)],
        ] {
            assert!(check(chunks).is_some(), "{chunks:?}");
        }
    }
}
