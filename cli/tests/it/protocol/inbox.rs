//! What a peer has received, in the order it came.

use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;

use crate::support::within;

pub struct Inbox(watch::Sender<Received>);

#[derive(Default)]
struct Received {
    messages: Vec<Value>,
    /// The same, byte for byte.
    texts: Vec<String>,
    /// Why nothing more will come.
    fault: Option<String>,
}

impl Inbox {
    pub fn new() -> Arc<Self> {
        Arc::new(Self(watch::Sender::default()))
    }

    pub fn push(&self, text: String) {
        let message = serde_json::from_str(&text).expect("JSON");
        self.0.send_modify(|received| {
            received.messages.push(message);
            received.texts.push(text);
        });
    }

    /// How many messages contain these bytes.
    pub fn count(&self, bytes: &str) -> usize {
        let received = self.0.borrow();
        let containing = received.texts.iter().filter(|text| text.contains(bytes));
        containing.count()
    }

    pub fn len(&self) -> usize {
        self.0.borrow().messages.len()
    }

    pub fn fault(&self) -> Option<String> {
        self.0.borrow().fault.clone()
    }

    /// Waits until there is something to find among all that was received.
    pub async fn wait<T>(&self, what: &str, find: impl Fn(&[Value]) -> Option<T>) -> T {
        let mut watched = self.0.subscribe();
        within(what, async {
            loop {
                {
                    let received = watched.borrow_and_update();
                    if let Some(found) = find(&received.messages) {
                        return found;
                    }
                    if let Some(fault) = &received.fault {
                        panic!("{what} will not come: {fault}");
                    }
                }
                watched.changed().await.expect("the sender is ours");
            }
        })
        .await
    }

    /// The answer to a request, and its place.
    pub async fn answer(&self, from: usize, id: &Value) -> (usize, Value) {
        self.wait(&format!("the answer to {id}"), |messages| {
            let is_answer =
                |message: &Value| message["id"] == *id && message.get("method").is_none();
            let found = messages[from..].iter().position(is_answer)? + from;
            Some((found, messages[found].clone()))
        })
        .await
    }

    pub fn updates(&self, range: Range<usize>, session: &str) -> Vec<Value> {
        let received = self.0.borrow();
        let of_session = received.messages[range].iter().filter(|message| {
            message["method"] == "session/update" && message["params"]["sessionId"] == session
        });
        of_session
            .map(|message| message["params"]["update"].clone())
            .collect()
    }

    /// Waits for an update of the session; returns the first that fits.
    pub async fn update(&self, what: &str, session: &str, fits: impl Fn(&Value) -> bool) -> Value {
        self.wait(what, |messages| {
            let mut updates = messages
                .iter()
                .filter(|message| message["params"]["sessionId"] == session)
                .map(|message| &message["params"]["update"]);
            updates.find(|update| fits(update)).cloned()
        })
        .await
    }

    /// The questions of the agent so far.
    pub fn questions(&self, session: &str) -> Vec<Value> {
        questions(&self.0.borrow().messages, session)
    }

    /// Waits for the agent to ask for the `nth` time, counted from 0.
    pub async fn question(&self, session: &str, nth: usize) -> Value {
        self.wait("a question of the agent", |messages| {
            questions(messages, session).get(nth).cloned()
        })
        .await
    }

    /// Waits until the server says that a question needs no answer any more; returns the place.
    pub async fn called_off(&self, question: &Value) -> usize {
        self.wait("the question is called off", |messages| {
            messages.iter().position(|message| {
                message["method"] == "$/cancel_request"
                    && message["params"]["requestId"] == question["id"]
            })
        })
        .await
    }
}

fn questions(messages: &[Value], session: &str) -> Vec<Value> {
    let is_question = |message: &&Value| {
        message.get("id").is_some()
            && message.get("method").is_some()
            && message["params"]["sessionId"] == session
    };
    messages.iter().filter(is_question).cloned().collect()
}

/// Held by a task that fills an inbox. If it panics, such as over a message that breaks the protocol,
/// whoever waits learns it.
pub struct Reading(pub Arc<Inbox>);

impl Drop for Reading {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let fault = "the reader failed, see its panic above".to_owned();
            self.0
                .0
                .send_modify(|received| received.fault = Some(fault));
        }
    }
}
