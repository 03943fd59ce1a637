//! Reads a connection's stream that is cut again and again, and sees to it that every event comes once.

use std::collections::{HashMap, HashSet};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};

use crate::support::http::{new_session, prompt};
use crate::support::sse::counted;
use crate::support::{Client, Event, Stream};

const AT_ONCE: usize = 16;

pub struct Reader {
    /// Wherever it may come back.
    clients: Vec<Client>,
    stream: Stream,
    chance: StdRng,
    /// Events until the next cut, and at most from one to the next.
    left: usize,
    far: usize,
    /// Every cursor with what came under it.
    seen: Vec<(String, String)>,
}

impl Reader {
    pub async fn open(clients: Vec<Client>, seed: u64) -> Self {
        let stream = clients[0].connection_stream(None).await;
        Self {
            clients,
            stream,
            chance: StdRng::seed_from_u64(seed),
            left: 20,
            far: 150,
            seen: Vec::new(),
        }
    }

    pub fn seen(&self) -> &[(String, String)] {
        &self.seen
    }

    pub fn longest(&self) -> usize {
        let lengths = self.seen.iter().map(|(cursor, _)| cursor.len());
        lengths.max().unwrap_or(0)
    }

    pub async fn next(&mut self) -> Event {
        if self.left == 0 {
            self.left = self.chance.random_range(1..self.far);
            let client = self.chance.random_range(0..self.clients.len());
            let cursor = self.stream.last_id.clone();
            self.stream = self.clients[client].connection_stream(Some(&cursor)).await;
        }
        self.left -= 1;
        let event = self.stream.next().await.expect("the stream goes on");
        assert_eq!(event.event, "", "{event:?}");
        assert!(event.id.len() <= 1024, "{} bytes", event.id.len());
        self.seen.push((event.id.clone(), event.data.clone()));
        event
    }

    /// What comes before the answer to this request.
    pub async fn answer(&mut self, id: &str) -> Vec<Event> {
        let mut before = Vec::new();
        loop {
            let event = self.next().await;
            let message = event.message();
            if message["id"] == id {
                assert!(message["error"].is_null(), "{message}");
                return before;
            }
            before.push(event);
        }
    }

    pub async fn create(&mut self, client: &Client, count: usize) -> Vec<String> {
        // To come back takes the longer the more there are.
        self.far = self.far.max(count);
        let requests = (0..count).map(|number| new_session(json!(format!("new {number}"))));
        let posting = post_all(client, requests.collect());
        let mut sessions = HashMap::new();
        while sessions.len() < count {
            let message = self.next().await.message();
            let Some(id) = message["id"].as_str() else {
                continue;
            };
            let session = message["result"]["sessionId"].as_str();
            let session = session.unwrap_or_else(|| panic!("no session: {message}"));
            let again = sessions.insert(id.to_owned(), session.to_owned());
            assert_eq!(again, None, "{id} was answered twice");
        }
        posting.await.expect("all were taken");
        sessions.into_values().collect()
    }

    /// Every session has a turn, and all of it comes once, in order.
    pub async fn prompt_all(&mut self, client: &Client, sessions: &[String], name: &str) {
        let requests = sessions.iter().map(|session| {
            let id = json!(format!("{name} {session}"));
            prompt(id, session, "/count 3")
        });
        let posting = post_all(client, requests.collect());
        let mut chunks: HashMap<String, Vec<String>> = HashMap::new();
        let mut answered = HashSet::new();
        while answered.len() < sessions.len() {
            let event = self.next().await;
            let message = event.message();
            if let (Some(session), Some(chunk)) =
                (message["params"]["sessionId"].as_str(), event.chunk())
            {
                chunks.entry(session.to_owned()).or_default().push(chunk);
            }
            if let Some(id) = message["id"].as_str() {
                assert!(answered.insert(id.to_owned()), "{id} was answered twice");
            }
        }
        posting.await.expect("all were taken");
        for session in sessions {
            assert!(answered.contains(&format!("{name} {session}")));
            assert_eq!(chunks[session], counted(3, 1), "{session}");
        }
    }
}

fn post_all(client: &Client, requests: Vec<Value>) -> tokio::task::JoinHandle<()> {
    let client = client.clone();
    tokio::spawn(async move {
        for some in requests.chunks(AT_ONCE) {
            let posts = some.iter().map(|request| client.post(request.clone()));
            futures_util::future::join_all(posts).await;
        }
    })
}
