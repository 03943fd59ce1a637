//! A network that misbehaves on demand: a TCP proxy in front of one port.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    Clear,
    /// Every piece waits this long.
    Slow(Duration),
    /// A few bytes at a time.
    Sliced,
    /// Nothing moves, nothing breaks: a half-open connection.
    Stalled,
    /// What is asked gets through; at the reply the connection breaks.
    CutsReplies,
    /// Clear, until something is asked that contains this: that gets through, and no reply does from then on.
    CutsRepliesFrom(&'static str),
}

pub struct Proxy {
    pub port: u16,
    target: Arc<AtomicU16>,
    state: Arc<State>,
    task: JoinHandle<()>,
}

struct State {
    mood: watch::Sender<Mood>,
    cuts: watch::Sender<u64>,
    closed: AtomicBool,
    /// What goes to a Redis's replicas waits.
    holds_replicas: watch::Sender<bool>,
}

impl Proxy {
    pub async fn start(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let port = listener.local_addr().expect("bound").port();
        let state = Arc::new(State {
            mood: watch::Sender::new(Mood::Clear),
            cuts: watch::Sender::new(0),
            closed: AtomicBool::new(false),
            holds_replicas: watch::Sender::new(false),
        });
        let shared = state.clone();
        let target = Arc::new(AtomicU16::new(target));
        let aim = target.clone();
        let task = tokio::spawn(async move {
            // Dropped with the task, and every connection with it.
            let mut connections = JoinSet::new();
            loop {
                if let Ok((client, _)) = listener.accept().await
                    && !shared.closed.load(Ordering::SeqCst)
                {
                    let target = aim.load(Ordering::SeqCst);
                    connections.spawn(carry(client, target, shared.clone()));
                }
                while connections.try_join_next().is_some() {}
            }
        });
        Self {
            port,
            target,
            state,
            task,
        }
    }

    pub fn set(&self, mood: Mood) {
        self.state.mood.send_replace(mood);
    }

    /// From now on leads there.
    pub fn aim(&self, target: u16) {
        self.target.store(target, Ordering::SeqCst);
        self.cut();
    }

    /// Breaks every connection there is.
    pub fn cut(&self) {
        self.state.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Breaks every connection, and lets nobody in until it is opened, whatever its mood.
    #[allow(dead_code, reason = "chaos needs it, the other tests do not")]
    pub fn close(&self) {
        self.state.closed.store(true, Ordering::SeqCst);
        self.cut();
    }

    #[allow(dead_code, reason = "chaos needs it, the other tests do not")]
    pub fn open(&self) {
        self.state.closed.store(false, Ordering::SeqCst);
    }

    /// What replicas of the Redis behind it get and say waits, and nothing else does.
    #[allow(dead_code, reason = "chaos needs it, the other tests do not")]
    pub fn hold_replicas(&self, hold: bool) {
        self.state.holds_replicas.send_replace(hold);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn carry(client: TcpStream, target: u16, state: Arc<State>) {
    let mut cuts = state.cuts.subscribe();
    let Ok(server) = TcpStream::connect(("127.0.0.1", target)).await else {
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let replica = AtomicBool::new(false);
    tokio::select! {
        _ = cuts.changed() => {}
        _ = async {
            tokio::try_join!(
                pump(from_client, to_server, &state, &replica, false),
                pump(from_server, to_client, &state, &replica, true),
            )
        } => {}
    }
}

/// The connection breaks, in both directions.
struct Broken;

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    state: &State,
    replica: &AtomicBool,
    replies: bool,
) -> Result<(), Broken> {
    let mut mood = state.mood.subscribe();
    let mut held = state.holds_replicas.subscribe();
    let mut buffer = vec![0; 32 * 1024];
    loop {
        let count = from.read(&mut buffer).await.map_err(|_| Broken)?;
        // What arrived before a stall waits with the rest.
        let _ = mood.wait_for(|mood| *mood != Mood::Stalled).await;
        // How a replica introduces itself.
        if !replies && contains(&buffer[..count], "REPLCONF") {
            replica.store(true, Ordering::SeqCst);
        }
        if replica.load(Ordering::SeqCst) {
            let _ = held.wait_for(|held| !*held).await;
        }
        if count == 0 {
            return to.shutdown().await.map_err(|_| Broken);
        }
        let mut rest = &buffer[..count];
        let now = *mood.borrow();
        match now {
            Mood::CutsReplies if replies => return Err(Broken),
            // No pause before it is written below: a reply to something else would break the connection first.
            Mood::CutsRepliesFrom(words) if !replies && contains(rest, words) => {
                state.mood.send_replace(Mood::CutsReplies);
            }
            Mood::Slow(pause) => sleep(pause).await,
            Mood::Sliced => {
                // Enough to split every frame somewhere, not so much that nothing gets through.
                for _ in 0..24 {
                    let (piece, after) = rest.split_at(rest.len().min(7));
                    to.write_all(piece).await.map_err(|_| Broken)?;
                    rest = after;
                    tokio::task::yield_now().await;
                }
            }
            _ => {}
        }
        to.write_all(rest).await.map_err(|_| Broken)?;
    }
}

fn contains(bytes: &[u8], words: &str) -> bool {
    bytes
        .windows(words.len())
        .any(|window| window == words.as_bytes())
}

#[cfg(test)]
mod tests;
