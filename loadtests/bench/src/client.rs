//! The load client: a session with its own connection, the way the SDK clients do it, only cheaper.

mod http;
mod http1;
mod inbox;
mod ledger;
mod load;
mod one_shot;
pub mod rpc;
mod sse;
mod websocket;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::task::JoinSet;

use crate::count::Count;

pub use http::{get, probe};
pub use http1::Conn;
pub use inbox::Inbox;
pub use ledger::Faults;
pub use load::{History, Loading};
pub use one_shot::OneShot;

#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
pub enum Transport {
    Http,
    Ws,
}

impl Transport {
    /// How many sockets an idle session holds open.
    pub fn streams(self) -> usize {
        match self {
            Transport::Http => 2,
            Transport::Ws => 1,
        }
    }
}

pub struct Session {
    id: String,
    directive: String,
    inbox: Inbox,
    link: Link,
    /// One task per stream, ended with the session.
    _readers: JoinSet<()>,
}

/// The open streams of a session at rest.
pub struct Resting {
    pub inbox: Inbox,
    _readers: JoinSet<()>,
    _socket: Option<websocket::Link>,
}

/// Since the first byte of a prompt was sent.
pub struct Timed {
    /// It was acknowledged, over HTTP.
    pub accepted: Duration,
    pub answered: Duration,
}

enum Link {
    Http(http::Link),
    Ws(websocket::Link),
}

impl Session {
    /// Initializes a connection, makes a session and opens its streams.
    pub async fn open(addr: SocketAddr, transport: Transport, count: Count) -> Result<Self> {
        Self::open_as("", addr, transport, count).await
    }

    /// `caller` is a header line that says who calls, over HTTP.
    pub async fn open_as(
        caller: &str,
        addr: SocketAddr,
        transport: Transport,
        count: Count,
    ) -> Result<Self> {
        let (inbox, mut readers) = (Inbox::default(), JoinSet::new());
        let (link, id) = match transport {
            Transport::Http => {
                let opened = http::Link::open(addr, caller, count, &inbox, &mut readers);
                let (link, id) = opened.await?;
                (Link::Http(link), id)
            }
            Transport::Ws => {
                let (link, id) = websocket::Link::open(addr, count, &inbox, &mut readers).await?;
                (Link::Ws(link), id)
            }
        };
        Ok(Self {
            id,
            directive: count.directive(),
            inbox,
            link,
            _readers: readers,
        })
    }

    pub fn inbox(&self) -> Inbox {
        self.inbox.clone()
    }

    /// One prompt, from the first byte sent to the answer received.
    pub async fn prompt(&mut self) -> Result<Duration> {
        Ok(self.timed_prompt().await?.answered)
    }

    pub async fn timed_prompt(&mut self) -> Result<Timed> {
        let prompt = self.inbox.with(|ledger| ledger.ask());
        let message = rpc::prompt(prompt + ledger::ID_OFFSET, &self.id, &self.directive);
        let started = Instant::now();
        match &mut self.link {
            Link::Http(link) => link.post(&message).await?,
            Link::Ws(link) => link.send(message).await?,
        }
        let accepted = started.elapsed();
        self.inbox.answered().await?;
        let answered = self.inbox.with(|ledger| ledger.answered_at) - started;
        Ok(Timed { accepted, answered })
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// Nothing more is asked: what stays open is what an SDK client holds while its user is away.
    pub fn rest(self) -> Resting {
        let socket = match self.link {
            // HTTP libraries close a connection that nobody posts on.
            Link::Http(_) => None,
            Link::Ws(link) => Some(link),
        };
        Resting {
            inbox: self.inbox,
            _readers: self._readers,
            _socket: socket,
        }
    }

    pub async fn close(self) {
        self.inbox.close();
        match self.link {
            Link::Http(link) => link.close().await,
            Link::Ws(link) => link.close().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::official;

    async fn prompts_are_answered_whole(transport: Transport, directive: &str) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let count = Count::parse(directive).unwrap();
        tokio::task::spawn_local(official::serve(listener));
        let mut session = Session::open(addr, transport, count).await.unwrap();
        for _ in 0..3 {
            session.prompt().await.unwrap();
        }
        session.inbox().with(|ledger| {
            assert_eq!(
                ledger.close(),
                Faults::default(),
                "{:?}",
                ledger.first_wrong
            );
            assert_eq!((ledger.answers, ledger.events), (3, 3 * 6));
        });
        session.close().await;
    }

    #[tokio::test(flavor = "local")]
    async fn http_carries_prompts_to_the_official_server() {
        prompts_are_answered_whole(Transport::Http, "/count 5 size=100").await;
    }

    #[tokio::test(flavor = "local")]
    async fn websocket_carries_prompts_to_the_official_server() {
        prompts_are_answered_whole(Transport::Ws, "/count 5 size=100").await;
    }

    #[tokio::test(flavor = "local")]
    async fn paced_prompts_are_answered_too() {
        prompts_are_answered_whole(Transport::Http, "/count 5 delay=1 size=100").await;
    }
}
