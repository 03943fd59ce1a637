//! How long it takes, measured by clients when nothing else is wrong: until another worker goes on
//! with a turn, and until a stream is back at another gateway.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::fleet::Fleet;
use crate::ledger::Ledger;
use crate::schedule::LEASE;
use crate::support::cluster::url;
use crate::support::http::prompt;
use crate::support::{Client, Event, Stream, within};

/// Sessions per round; the struck worker holds about a third of them.
const SESSIONS: usize = 12;
const RESUMED: usize = 64;

#[derive(Default)]
pub struct Times {
    pub after_kill: Vec<Duration>,
    pub after_term: Vec<Duration>,
    pub resume: Vec<Duration>,
}

pub async fn run(fleet: &Fleet, ledger: &Ledger, rounds: usize) -> Times {
    let mut times = Times::default();
    if fleet.workers().is_empty() {
        // Nobody else could take over.
        return times;
    }
    for _ in 0..rounds {
        times.after_kill.extend(takeover(fleet, ledger, true).await);
        times
            .after_term
            .extend(takeover(fleet, ledger, false).await);
    }
    times.resume = resume(fleet, ledger).await;
    times
}

fn gateway(fleet: &Fleet, number: usize) -> String {
    let front = fleet.members[number].front.as_ref();
    url(front.expect("the first members are gateways").0)
}

/// A turn that is under way, and its stream.
struct Running {
    client: Client,
    session: String,
    stream: Stream,
    seen: u64,
}

impl Running {
    async fn start(url: &str, text: &str) -> Self {
        let client = Client::initialize(url).await;
        let session = client.new_session().await;
        let stream = client.session_stream(&session, None).await;
        client.post(prompt(json!(1), &session, text)).await;
        let mut running = Self {
            client,
            session,
            stream,
            seen: 0,
        };
        running.chunk(&Ledger::new("probe", false)).await;
        running
    }

    /// The next chunk's claim: the second half of its cursor names it.
    async fn chunk(&mut self, ledger: &Ledger) -> String {
        loop {
            let event = self.stream.next().await.expect("the stream goes on");
            let Some(text) = event.chunk() else { continue };
            self.seen += 1;
            if !text.starts_with(&format!("chunk {} of ", self.seen)) {
                let due = self.seen;
                ledger.violation(
                    "I1",
                    "probe",
                    &self.session,
                    &format!("{text} instead of {due}"),
                );
            }
            return claim(&event);
        }
    }

    async fn cancel(self) {
        let params = json!({ "sessionId": self.session });
        let cancel = json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": params });
        self.client.post(cancel).await;
        let mut stream = self.stream;
        stream.response(&json!(1)).await;
    }
}

fn claim(event: &Event) -> String {
    event.id.split('.').nth(1).unwrap_or_default().to_owned()
}

/// From the end of a worker to the first chunk of another, for each session it held.
async fn takeover(fleet: &Fleet, ledger: &Ledger, kill: bool) -> Vec<Duration> {
    let url = gateway(fleet, 0);
    let starts = (0..SESSIONS).map(|_| Running::start(&url, "/count 100000 delay=20"));
    let turns = join_all(starts).await;
    let worker_of = |turn: &Running| {
        let servers = fleet.servers.as_ref();
        servers.map_or(String::new(), |servers| servers.worker_of(&turn.session))
    };
    let struck = worker_of(&turns[0]);
    let (ours, others): (Vec<_>, Vec<_>) = turns
        .into_iter()
        .partition(|turn| worker_of(turn) == struck);
    let mut workers = fleet.workers().iter();
    let worker = workers.find(|worker| worker.log().contains(&struck));
    let worker = worker.expect("a worker logs its id");
    let began = Instant::now();
    if kill {
        worker.kill();
    } else {
        worker.ask_to_stop();
    }
    let waits = ours.into_iter().map(|mut turn| async move {
        let before = turn.chunk(ledger).await;
        let other = async { while turn.chunk(ledger).await == before {} };
        within("another worker", other).await;
        let took = began.elapsed();
        turn.cancel().await;
        took
    });
    let (times, _) = tokio::join!(
        join_all(waits),
        join_all(others.into_iter().map(Running::cancel))
    );
    if !kill {
        worker.terminate().await;
    }
    worker.start();
    if kill
        && let Some(slow) = times
            .iter()
            .find(|time| **time > LEASE + Duration::from_secs(3))
    {
        // A sweep comes every second; more than that and a busy machine is something else.
        println!("I10: a takeover took {} ms", slow.as_millis());
    }
    times
}

/// From the GET with a cursor to the first event at the other gateway, while all turns run.
async fn resume(fleet: &Fleet, ledger: &Ledger) -> Vec<Duration> {
    let (one, other) = (gateway(fleet, 0), gateway(fleet, 1));
    let starts = (0..RESUMED).map(|_| Running::start(&one, "/count 100000 delay=50"));
    let mut turns = join_all(starts).await;
    let mut times = Vec::new();
    for turn in &mut turns {
        let cursor = turn.stream.last_id.clone();
        let client = turn.client.at(&other);
        // A client that comes back has no connection open there.
        let began = Instant::now();
        turn.stream = client.session_stream(&turn.session, Some(&cursor)).await;
        let first = timeout(Duration::from_secs(30), turn.stream.block()).await;
        times.push(began.elapsed());
        let start = first.ok().flatten().map(|event| event.id);
        ledger.started("probe", &turn.session, &cursor, &start.unwrap_or_default());
        turn.chunk(ledger).await;
    }
    join_all(turns.into_iter().map(Running::cancel)).await;
    times
}
