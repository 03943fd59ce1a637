//! The events of one request, for the body of the POST that made it.

use std::sync::Arc;

use baton_session::cursor::Cursor;
use baton_session::event::{Event, Frame};
use baton_session::id::{ConnectionId, LogId, SessionId};
use baton_session::store::{self, Store};
use tokio::sync::Notify;

use super::hub::Subscription;
use super::topic::Look;
use super::{Feed, Outgoing, Start};
use crate::app::App;

const PAGE: usize = 64;

pub struct OneShotFeed {
    store: Arc<dyn Store>,
    subscription: Subscription,
    wake: Arc<Notify>,
    follow: Follow,
    next: u64,
    /// Events up to here were seen by the client before it repeated its POST.
    seen: u64,
    /// The turn has begun, so what is said belongs to it.
    begun: bool,
    ended: bool,
}

/// A command that was accepted, and where its events begin.
#[derive(Clone, Debug)]
pub struct Follow {
    pub session: SessionId,
    pub connection: ConnectionId,
    pub request: Arc<str>,
    pub command: u64,
    pub head: u64,
}

impl OneShotFeed {
    /// `after` skips what a client that repeats its POST has already seen.
    pub async fn open(app: &App, follow: Follow, after: Option<Cursor>) -> store::Result<Self> {
        let wake = Arc::new(Notify::new());
        let log = LogId::Session(follow.session.clone());
        let subscription = app.hub.subscribe(&log, wake.clone()).await?;
        let head = app.store.heads(std::slice::from_ref(&log)).await?[0];
        subscription.topic.grow(head);
        Ok(Self {
            store: app.store.clone(),
            subscription,
            wake,
            next: follow.head + 1,
            // The turn's begin may lie before the cursor: what was seen is read but not sent again.
            seen: after.map_or(0, |cursor| cursor.seq),
            follow,
            begun: false,
            ended: false,
        })
    }

    fn deliver(&mut self, frame: &Frame, out: &mut Vec<Outgoing>) {
        for (seq, event) in frame.numbered() {
            if seq != self.next || self.ended {
                continue;
            }
            self.next = seq + 1;
            let message = match event {
                Event::Begin(begin) => {
                    self.begun |= begin.command == self.follow.command;
                    None
                }
                Event::Update { message, .. } | Event::Request { message, .. } => {
                    self.begun.then_some(message)
                }
                Event::Response { to, message, .. } => {
                    let ours = to.connection == self.follow.connection
                        && to.request == self.follow.request;
                    self.ended = ours;
                    ours.then_some(message)
                }
                _ => None,
            };
            if let Some(message) = message.filter(|_| seq > self.seen) {
                let cursor = Cursor::live(seq, frame.nonce).to_string();
                out.push(Outgoing {
                    cursor,
                    message: message.clone(),
                });
            }
        }
    }
}

impl Feed for OneShotFeed {
    fn start(&self) -> Start {
        Start {
            cursor: Cursor::live(self.seen, Default::default()).to_string(),
            reset: None,
        }
    }

    async fn gather(&mut self, out: &mut Vec<Outgoing>) -> store::Result<bool> {
        while !self.ended && out.len() < 1024 {
            let frames = match self.subscription.topic.look(self.next) {
                Look::UpToDate => return Ok(true),
                Look::Frames(frames) => frames,
                Look::InStore => {
                    let log = LogId::Session(self.follow.session.clone());
                    self.store.read(&log, self.next, PAGE).await?
                }
            };
            if frames.is_empty() {
                return Ok(true);
            }
            let before = self.next;
            frames.iter().for_each(|frame| self.deliver(frame, out));
            if self.next == before {
                let session = &self.follow.session;
                return Err(store::Error::Broken(format!(
                    "the log of {session} has a hole at {before}"
                )));
            }
        }
        Ok(!self.ended)
    }

    fn wake(&self) -> &Arc<Notify> {
        &self.wake
    }

    /// It ends by itself.
    fn seems_busy(&self) -> bool {
        true
    }

    async fn is_busy(&mut self) -> store::Result<bool> {
        Ok(true)
    }
}

/// A single answer that is known already.
pub struct Known {
    message: Option<bytes::Bytes>,
    wake: Arc<Notify>,
}

impl Known {
    pub fn new(message: bytes::Bytes) -> Self {
        Self {
            message: Some(message),
            wake: Arc::new(Notify::new()),
        }
    }
}

impl Feed for Known {
    fn start(&self) -> Start {
        Start {
            cursor: "0".into(),
            reset: None,
        }
    }

    async fn gather(&mut self, out: &mut Vec<Outgoing>) -> store::Result<bool> {
        let Some(message) = self.message.take() else {
            return Ok(false);
        };
        out.push(Outgoing {
            cursor: "0".into(),
            message,
        });
        Ok(true)
    }

    fn wake(&self) -> &Arc<Notify> {
        &self.wake
    }

    fn seems_busy(&self) -> bool {
        true
    }

    async fn is_busy(&mut self) -> store::Result<bool> {
        Ok(true)
    }
}

/// Nothing, for as long as the client likes: the stream of a session that does not exist.
#[derive(Default)]
pub struct Silence {
    wake: Arc<Notify>,
}

impl Feed for Silence {
    fn start(&self) -> Start {
        Start {
            cursor: "0".into(),
            reset: None,
        }
    }

    async fn gather(&mut self, _: &mut Vec<Outgoing>) -> store::Result<bool> {
        Ok(true)
    }

    fn wake(&self) -> &Arc<Notify> {
        &self.wake
    }

    fn seems_busy(&self) -> bool {
        false
    }

    async fn is_busy(&mut self) -> store::Result<bool> {
        Ok(false)
    }
}
