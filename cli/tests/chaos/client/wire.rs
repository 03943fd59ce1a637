//! A connection over HTTP: POSTs, streams and bodies.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rand::RngExt as _;
use rand::rngs::StdRng;
use reqwest::{RequestBuilder, Response, StatusCode};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::{World, anywhere, initialize, never};
use crate::ledger::id_of;
use crate::support::Stream;
use crate::support::http::{JSON, ONE_SHOT};

/// Instead of a cursor: the request is done.
const ANSWERED: &str = "answered";

pub struct Wire {
    pub name: String,
    pub world: Arc<World>,
    http: reqwest::Client,
    token: String,
    agent: &'static str,
    patient: bool,
    rng: Mutex<StdRng>,
}

/// What is read, by whom, from where on and how far.
struct Place<'a> {
    reader: &'a str,
    stream: &'a str,
    after: &'a str,
    until: Option<&'a str>,
}

impl Wire {
    pub async fn open(world: Arc<World>, name: &str, agent: &'static str) -> Arc<Self> {
        let mut rng = world.rng(name);
        let mut wire = Self {
            name: name.to_owned(),
            patient: World::is_patient(&mut rng),
            http: reqwest::Client::new(),
            token: String::new(),
            agent,
            rng: Mutex::new(rng),
            world,
        };
        let body = initialize().to_string();
        loop {
            let request = wire.http.post(wire.anywhere()).header(JSON.0, JSON.1);
            if let Some(response) = wire.attempt(request.body(body.clone())).await
                && let Some(token) = response.headers().get("acp-connection-id")
                && let Ok(token) = token.to_str()
            {
                wire.token = token.to_owned();
                return Arc::new(wire);
            }
            wire.pause().await;
        }
    }

    fn rng(&self) -> MutexGuard<'_, StdRng> {
        self.rng.lock().expect("held for moments only")
    }

    /// A number between, as many milliseconds.
    pub fn millis(&self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.rng().random_range(from..to))
    }

    fn anywhere(&self) -> String {
        anywhere(&self.world, self.agent, &mut self.rng())
    }

    async fn pause(&self) {
        self.world.ledger.count(|counts| counts.retries += 1);
        sleep(self.millis(20, 250)).await;
    }

    /// One try. A client's patience ends sometimes before, sometimes after the gateway's.
    async fn attempt(&self, request: RequestBuilder) -> Option<Response> {
        let patience = self.millis(1000, 8000);
        let request = request.header("acp-connection-id", &self.token);
        let response = timeout(patience, request.send()).await.ok()?.ok()?;
        let status = response.status();
        if status.is_success() {
            return Some(response);
        }
        if status != StatusCode::SERVICE_UNAVAILABLE {
            let text = format!("refused with {status}: {:?}", response.text().await);
            self.world.ledger.violation("I4", &self.name, "-", &text);
        }
        None
    }

    /// Until it is accepted.
    pub async fn post(&self, message: &Value) {
        let body = message.to_string();
        loop {
            let request = self.http.post(self.anywhere()).header(JSON.0, JSON.1);
            let response = self.attempt(request.body(body.clone())).await;
            if response.is_some_and(|response| response.status() == StatusCode::ACCEPTED) {
                return self.world.ledger.accepted(&self.name, &id_of(message));
            }
            self.pause().await;
        }
    }

    /// Reads a stream for as long as the task lives, from the beginning, and comes back to it.
    pub async fn follow(self: Arc<Self>, session: Option<String>, heard: UnboundedSender<Value>) {
        let stream = session.as_deref().unwrap_or("connection");
        let mut last = "0".to_owned();
        loop {
            let mut request = self
                .http
                .get(self.anywhere())
                .header(ONE_SHOT.0, ONE_SHOT.1);
            request = request.header("last-event-id", &last);
            if let Some(session) = &session {
                request = request.header("acp-session-id", session);
            }
            if let Some(response) = self.attempt(request).await {
                let place = Place {
                    reader: &self.name,
                    stream,
                    after: &last,
                    until: None,
                };
                last = self.read(response, place, &heard).await;
                self.world.ledger.count(|counts| counts.cuts += 1);
            }
            self.pause().await;
        }
    }

    /// A request whose events come in the body; made again until its answer is there.
    pub async fn body(self: Arc<Self>, message: Value, heard: UnboundedSender<Value>) {
        self.body_of(&self.name, message, heard).await;
    }

    /// Once more, though it was answered: everything comes as it did, for somebody who has seen none of it.
    pub async fn body_again(&self, reader: &str, message: Value) {
        let (hears, _heard) = unbounded_channel();
        self.body_of(reader, message, hears).await;
    }

    async fn body_of(&self, reader: &str, message: Value, heard: UnboundedSender<Value>) {
        let id = id_of(&message);
        let stream = format!("body of {id}");
        let mut last = "0".to_owned();
        loop {
            let mut request = self.http.post(self.anywhere()).header(JSON.0, JSON.1);
            request = request.header(ONE_SHOT.0, ONE_SHOT.1);
            if last != "0" {
                request = request.header("last-event-id", &last);
            }
            if let Some(response) = self.attempt(request.body(message.to_string())).await {
                self.world.ledger.accepted(reader, &id);
                let place = Place {
                    reader,
                    stream: &stream,
                    after: &last,
                    until: Some(&id),
                };
                last = self.read(response, place, &heard).await;
                if last == ANSWERED {
                    return;
                }
                self.world.ledger.count(|counts| counts.cuts += 1);
            }
            self.pause().await;
        }
    }

    /// Until the stream ends, is silent for too long, or the client feels like leaving. Returns the
    /// last id, or `ANSWERED` if `until` was.
    async fn read(
        &self,
        response: Response,
        place: Place<'_>,
        heard: &UnboundedSender<Value>,
    ) -> String {
        let Place {
            reader,
            stream: name,
            after,
            until,
        } = place;
        let ledger = &self.world.ledger;
        let mut stream = Stream::unchecked(response);
        stream.last_id = after.to_owned();
        let leaves = Instant::now() + self.millis(500, 12_000);
        loop {
            let silence = Instant::now() + self.millis(2000, 9000);
            let until_then = if self.patient {
                never()
            } else {
                leaves.min(silence)
            };
            let block = timeout_at(until_then, stream.block()).await;
            let Ok(Some(event)) = block else {
                return stream.last_id;
            };
            if event.event == "reset" {
                ledger.reset(reader, name, after);
            } else if !event.data.is_empty() {
                let message = ledger.saw(reader, name, &event.id, &event.data);
                let Some(message) = message else { continue };
                let answer = message.get("method").is_none();
                let done = answer && until == Some(id_of(&message).as_str());
                let _ = heard.send(message);
                if done {
                    return ANSWERED.into();
                }
            } else if !event.id.is_empty() && until.is_none() {
                ledger.started(reader, name, after, &event.id);
            }
        }
    }
}
