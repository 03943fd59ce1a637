//! Where all streams of a session end: SDK clients too merge them, whichever one a message came by.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use anyhow::{Result, bail};
use serde_json::Value;
use tokio::sync::Notify;

use super::ledger::Ledger;

#[derive(Clone, Default)]
pub struct Inbox(Rc<Inner>);

#[derive(Default)]
struct Inner {
    /// None until the session has a name: until then messages are kept for `answer`.
    ledger: RefCell<Option<Ledger>>,
    early: RefCell<Vec<Value>>,
    /// Why no more will come.
    broken: RefCell<Option<String>>,
    news: Notify,
    closed: Cell<bool>,
}

impl Inbox {
    pub fn receive(&self, message: &[u8]) {
        let answered = match self.0.ledger.borrow_mut().as_mut() {
            Some(ledger) => {
                ledger.receive(message);
                ledger.is_answered()
            }
            None => {
                let value = serde_json::from_slice(message).unwrap_or_default();
                self.0.early.borrow_mut().push(value);
                true
            }
        };
        if answered {
            self.0.news.notify_one();
        }
    }

    /// A stream ended; after `close` nobody minds.
    pub fn fail(&self, why: impl std::fmt::Display) {
        if !self.0.closed.get() {
            self.0.broken.borrow_mut().get_or_insert(why.to_string());
            self.0.news.notify_one();
        }
    }

    /// Waits for the answer to a request sent before the session was open.
    pub async fn answer(&self, id: u64) -> Result<Value> {
        loop {
            let found = self
                .0
                .early
                .borrow_mut()
                .extract_if(.., |m| m["id"] == id)
                .next();
            if let Some(message) = found {
                return Ok(message);
            }
            self.wait().await?;
        }
    }

    /// From here on every message is booked.
    pub fn open(&self, ledger: Ledger) {
        *self.0.ledger.borrow_mut() = Some(ledger);
    }

    pub fn with<T>(&self, look: impl FnOnce(&mut Ledger) -> T) -> T {
        look(
            self.0
                .ledger
                .borrow_mut()
                .as_mut()
                .expect("the session is open"),
        )
    }

    /// Waits until the newest prompt is answered.
    pub async fn answered(&self) -> Result<()> {
        while !self.with(|ledger| ledger.is_answered()) {
            self.wait().await?;
        }
        Ok(())
    }

    /// Why no more will come, if so.
    pub fn broken(&self) -> Option<String> {
        self.0.broken.borrow().clone()
    }

    pub fn close(&self) {
        self.0.closed.set(true);
    }

    async fn wait(&self) -> Result<()> {
        if let Some(why) = self.0.broken.borrow().as_ref() {
            bail!("a stream ended: {why}");
        }
        self.0.news.notified().await;
        Ok(())
    }
}
