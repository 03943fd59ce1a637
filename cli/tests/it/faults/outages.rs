//! A4: a store that is away for longer than a lease ends no turn whose worker and agent live.

use std::time::Duration;

use serde_json::Value;

use super::site::Site;
use crate::stdio::{Visit, actor, served};
use crate::support::Redis;

/// Away for longer than this, Redis outlasts the patience of the steps that renew leases, too.
const LONG: Duration = Duration::from_secs(5);
/// Here those steps get through as soon as it is back, and so do others'.
const SHORT: Duration = Duration::from_secs(3);
const TURNS: usize = 6;
/// Longer than the store is away.
const COUNTED: usize = 500;

/// Turns that are under way, each with words of its own.
struct Turns {
    turns: Vec<(Visit, Value)>,
    words: usize,
}

impl Turns {
    async fn begin(url: &str) -> Self {
        Self::count(url, COUNTED).await
    }

    async fn count(url: &str, words: usize) -> Self {
        let mut turns = Vec::new();
        for number in 0..TURNS {
            let mut visit = Visit::begin(url).await;
            let text = format!("count {words} 20\nsay turn-{number}");
            let id = visit.ask(&text).await;
            turns.push((visit, id));
        }
        for (visit, _) in &mut turns {
            assert_eq!(visit.next_chunk().await, "1 ");
        }
        Self { turns, words }
    }

    async fn all_end_well(self) {
        let counted: String = (2..=self.words)
            .map(|number| format!("{number} "))
            .collect();
        for (number, (mut visit, id)) in self.turns.into_iter().enumerate() {
            let (said, answer) = visit.end_of(&id).await;
            assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
            assert_eq!(said, format!("{counted}turn-{number}"));
        }
    }
}

/// What is the matter is that it lasts.
async fn longer_than(lease: Duration) {
    tokio::time::sleep(lease.mul_f64(1.3)).await;
}

fn in_ms(lease: Duration) -> String {
    lease.as_millis().to_string()
}

async fn start(workers: usize, lease: Duration) -> (Redis, Site, Turns) {
    let redis = Redis::start().await;
    let mut site = Site::new();
    let url = format!("{}/actor", site.add_gateway(&redis.store()).await);
    for _ in 0..workers {
        let arguments = ["--lease-ms", &in_ms(lease), "--agent", &actor("")];
        site.add_worker(&redis.store(), &arguments).await;
    }
    site.client(&url).await;
    let turns = Turns::begin(&url).await;
    (redis, site, turns)
}

async fn killed_and_started_again(workers: usize, lease: Duration) {
    let (mut redis, _site, turns) = start(workers, lease).await;
    redis.process.kill();
    longer_than(lease).await;
    redis.restart().await;
    turns.all_end_well().await;
}

async fn stopped_and_continued(workers: usize, lease: Duration) {
    let (redis, _site, turns) = start(workers, lease).await;
    redis.process.signal("STOP");
    longer_than(lease).await;
    redis.process.signal("CONT");
    turns.all_end_well().await;
}

#[tokio::test]
async fn a4_turns_of_three_workers_outlive_a_redis_that_is_killed_and_comes_back() {
    killed_and_started_again(3, SHORT).await;
}

#[tokio::test]
async fn a4_turns_of_three_workers_outlive_a_redis_that_is_killed_and_comes_back_late() {
    killed_and_started_again(3, LONG).await;
}

#[tokio::test]
async fn a4_turns_of_one_worker_outlive_a_redis_that_is_killed_and_comes_back_late() {
    killed_and_started_again(1, LONG).await;
}

#[tokio::test]
async fn a4_turns_of_three_workers_outlive_a_redis_that_stands_still() {
    stopped_and_continued(3, SHORT).await;
}

#[tokio::test]
async fn a4_turns_of_three_workers_outlive_a_redis_that_stands_still_for_long() {
    stopped_and_continued(3, LONG).await;
}

#[tokio::test]
async fn a4_turns_of_one_worker_outlive_a_redis_that_stands_still_for_long() {
    stopped_and_continued(1, LONG).await;
}

/// What is done is written before the session is given up, however late that is: the next worker would find a turn whose
/// agent is gone.
#[tokio::test]
async fn turns_that_end_while_redis_is_away_are_not_handed_over_unwritten() {
    let mut redis = Redis::start().await;
    let mut site = Site::new();
    let url = format!("{}/actor", site.add_gateway(&redis.store()).await);
    site.add_worker(&redis.store(), &["--agent", &actor("")])
        .await;
    site.client(&url).await;
    let turns = Turns::count(&url, 60).await;
    redis.process.kill();
    // Longer than the turns take, and shorter than a step is tried.
    tokio::time::sleep(Duration::from_secs(3)).await;
    site.workers[0].signal("TERM");
    tokio::time::sleep(Duration::from_millis(500)).await;
    redis.restart().await;
    site.add_worker(&redis.store(), &["--agent", &actor("")])
        .await;
    turns.all_end_well().await;
}

#[tokio::test]
async fn a4_turns_outlive_a_server_that_stands_still() {
    let baton = served("", &["--lease-ms", &in_ms(SHORT)]).await;
    let turns = Turns::begin(&baton.url()).await;
    baton.process.signal("STOP");
    longer_than(SHORT).await;
    baton.process.signal("CONT");
    turns.all_end_well().await;
}
