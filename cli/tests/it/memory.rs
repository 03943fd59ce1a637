//! What a process holds does not depend on how much there is to hold: histories are read, replayed, made smaller
//! and taken over a page at a time.

use futures_util::future::join_all;
use serde_json::json;

use crate::slow::{given_up, unread};
use crate::support::cluster::session_key;
use crate::support::http::{cancel, load, prompt};
use crate::support::process::Process;
use crate::support::{Client, Cluster, Served, until, within};

const PROMPTS: u64 = 20;
const LARGE: usize = 6 << 20;
/// So much may be added by a page, which here is one message, in all its forms on the way. In kilobytes.
const MOST: u64 = 64 << 10;
/// What a process that has worked has beyond one that has not: its caches, and its heaps' loose ends. In kilobytes.
const KEPT_AT_REST: u64 = 32 << 10;

/// A session with large prompts. Nobody gets to see them before it is loaded.
async fn large_session(url: &str) -> String {
    let client = Client::initialize(url).await;
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    for number in 1..=PROMPTS {
        // So that none has much in common with the one before.
        let letter = if number % 2 == 0 { "x" } else { "y" };
        let text = format!("/think {}", letter.repeat(LARGE));
        client.post(prompt(json!(number), &session, &text)).await;
        stream.response(&json!(number)).await;
    }
    session
}

/// How much more memory the process has had meanwhile than it had before, at most.
struct Growth<'a> {
    process: &'a Process,
    what: &'static str,
    before: u64,
}

impl<'a> Growth<'a> {
    fn of(process: &'a Process, what: &'static str) -> Self {
        process.forget_peak();
        Self {
            process,
            what,
            before: process.memory(),
        }
    }

    fn check(self) {
        let (before, peak) = (self.before, self.process.peak());
        println!("{}: {before} kB, at most {peak} kB", self.what);
        let grown = peak.saturating_sub(before);
        assert!(grown < MOST, "{}: {grown} kB more", self.what);
    }
}

/// Loads the session, and does not read what comes.
async fn load_unread(url: &str, session: &str, gateway: &Process, what: &'static str) {
    let client = Client::initialize(url).await;
    let growth = Growth::of(gateway, what);
    let _stream = unread(&client, session).await;
    client.post(load(json!(1), session)).await;
    given_up(url, "session").await;
    growth.check();
}

/// A worker that has done nothing yet.
async fn fresh_worker(cluster: &Cluster, number: usize) -> Process {
    let worker = cluster.worker(number);
    until("the worker is ready", async || {
        worker
            .output()
            .contains("worker takes sessions")
            .then_some(())
    })
    .await;
    worker
}

#[tokio::test]
async fn a_history_of_large_messages_is_never_held_as_a_whole() {
    let mut cluster = Cluster::start_with(&["--stall-ms", "4000"]).await;
    let session = large_session(&cluster.gateway_url(1)).await;
    for worker in &mut cluster.workers {
        worker.kill();
    }
    let url = cluster.gateway_url(0);
    load_unread(&url, &session, &cluster.gateways[0], "a load").await;

    let worker = fresh_worker(&cluster, 2).await;
    let growth = Growth::of(&worker, "compaction");
    let log = session_key("e", &session);
    let history = session_key("h", &session);
    until("the session is made smaller", async || {
        let left = cluster.redis.asked_by("admin", &["xlen", &log]);
        (left == "0").then_some(())
    })
    .await;
    growth.check();
    let blocks = cluster.redis.asked_by("admin", &["llen", &history]);
    assert!(blocks.parse::<u64>().expect("a number") >= PROMPTS);

    cluster.restart_gateway(0).await;
    load_unread(&url, &session, &cluster.gateways[0], "a load of blocks").await;
}

#[tokio::test]
async fn one_process_holds_no_history_either() {
    let mut served = Served::start().await;
    let session = large_session(&served.url()).await;
    served.kill_and_restart().await;
    let client = Client::initialize(&served.url()).await;
    let growth = Growth::of(&served.process, "a load of files");
    let mut stream = client.get(&[("acp-session-id", &session)]).await;
    client.post(load(json!(1), &session)).await;
    let mut left = PROMPTS as usize * LARGE;
    while left > 0 {
        let read = within("more of the history", stream.chunk()).await;
        let read = read.expect("it can be read").expect("it goes on");
        left = left.saturating_sub(read.len());
    }
    growth.check();
}

#[tokio::test]
async fn a_turn_of_100_000_events_is_taken_over_without_holding_it() {
    const EVENTS: u64 = 100_000;
    let mut cluster = Cluster::start().await;
    cluster.workers[1].kill();
    let client = Client::initialize(&cluster.gateway_url(0)).await;
    let session = client.new_session().await;
    let text = format!("/count {EVENTS} size=1000\n/sleep 600000");
    client.post(prompt(json!(1), &session, &text)).await;
    // The answer to session/new, the begin of the turn and the prompt come first.
    let all = EVENTS + 3;
    let head = || {
        let words = ["hget", &session_key("s", &session), "seq"];
        cluster.redis.asked_by("admin", &words).parse().unwrap_or(0)
    };
    until("everything is said", async || (head() >= all).then_some(())).await;
    let worker = fresh_worker(&cluster, 2).await;
    let growth = Growth::of(&worker, "a take-over");
    cluster.workers[0].kill();
    until("the turn is taken over", async || {
        let log = worker.output();
        log.contains("resuming an interrupted turn").then_some(())
    })
    .await;
    client.post(cancel(&session)).await;
    // Nothing of it was said twice: only the answer follows.
    until("the turn ends", async || (head() > all).then_some(())).await;
    growth.check();
    assert_eq!(head(), all + 1);
}

/// Many at a time, so that every thread has had large messages.
#[tokio::test]
async fn what_large_messages_took_is_given_back_at_rest() {
    const AT_ONCE: usize = 4;
    let cluster = Cluster::start().await;
    let processes = || cluster.gateways[..1].iter().chain(&cluster.workers);
    let before: Vec<u64> = processes().map(Process::memory).collect();
    let url = cluster.gateway_url(0);
    join_all((0..AT_ONCE).map(|_| large_session(&url))).await;
    let peaks: Vec<u64> = processes().map(Process::peak).collect();
    until("the memory is given back", async || {
        let now: Vec<u64> = processes().map(Process::memory).collect();
        println!("before {before:?}, peaks {peaks:?}, now {now:?} kB");
        let mut pairs = before.iter().zip(&now);
        pairs
            .all(|(before, now)| now.saturating_sub(*before) < KEPT_AT_REST)
            .then_some(())
    })
    .await;
}
