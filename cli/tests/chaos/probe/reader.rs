//! Reads one running turn, through whichever gateway answers, and notes how long it heard nothing.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::ledger::{Ledger, Rules};
use crate::support::http::{cancel, prompt};
use crate::support::{Client, Stream};

pub struct Reader {
    pub session: String,
    pub stream: Stream,
    client: Client,
    fronts: Vec<String>,
    /// The gateway that it reads from, of these.
    at: usize,
    seen: u64,
    /// The stream was reset, and nothing has come since.
    shaken: bool,
}

/// Of a chunk of `/count`.
fn number_of(text: &str) -> u64 {
    let number = text.split(' ').nth(1);
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

impl Reader {
    /// A new session in which a turn runs.
    pub async fn start(fronts: &[String], words: &str) -> Self {
        let client = Client::initialize(&fronts[0]).await;
        let session = client.new_session().await;
        let stream = client.session_stream(&session, None).await;
        client.post(prompt(json!(1), &session, words)).await;
        let mut reader = Self {
            session,
            stream,
            client,
            fronts: fronts.to_vec(),
            at: 0,
            seen: 0,
            shaken: false,
        };
        reader.chunk(&Ledger::new("probe", Rules::default())).await;
        reader
    }

    /// Opens the stream where it stands, at the next gateway that answers.
    pub async fn move_on(&mut self) {
        let http = reqwest::Client::new();
        loop {
            self.at = (self.at + 1) % self.fronts.len();
            let get = http
                .get(&self.fronts[self.at])
                .header("accept", "text/event-stream")
                .header("acp-connection-id", &self.client.token)
                .header("acp-session-id", &self.session)
                .header("last-event-id", &self.stream.last_id);
            if let Ok(response) = get.send().await
                && response.status().is_success()
            {
                let last_id = std::mem::take(&mut self.stream.last_id);
                self.stream = Stream::unchecked(response);
                self.stream.last_id = last_id;
                return;
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    pub async fn chunk(&mut self, ledger: &Ledger) {
        loop {
            let Some(event) = self.stream.next().await else {
                self.move_on().await;
                continue;
            };
            self.shaken |= event.event == "reset";
            let Some(text) = event.chunk() else { continue };
            self.seen += 1;
            // A failover may cost words that were seen, and says so; then they are said again.
            if std::mem::take(&mut self.shaken) {
                self.seen = number_of(&text);
            }
            if !text.starts_with(&format!("chunk {} of ", self.seen)) {
                let text = format!("{text} instead of {}", self.seen);
                ledger.violation("I1", "probe", &self.session, &text);
            }
            return;
        }
    }

    /// Until something has come after `over`.
    pub async fn longest_silence(
        mut self,
        over: CancellationToken,
        ledger: &Ledger,
    ) -> (Duration, Self) {
        let mut longest = Duration::ZERO;
        let mut heard = Instant::now();
        loop {
            let last = over.is_cancelled();
            self.chunk(ledger).await;
            longest = longest.max(heard.elapsed());
            heard = Instant::now();
            if last {
                return (longest, self);
            }
        }
    }

    pub async fn cancel(mut self) {
        let client = self.client.at(&self.fronts[self.at]);
        client.post(cancel(&self.session)).await;
        self.stream.response(&json!(1)).await;
    }
}
