//! The cost of `--durability replicated`: how long an append takes that replicas have to confirm.
//!
//!     cargo run --release -p baton-session --example durability -- redis://127.0.0.1:6379
//!
//! The Redis needs a replica. Leaves its keys behind, under `measure-…`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_session::conformance::scene::{Scene, begin};
use baton_session::id::random_text;
use baton_session::route::DeliveryPath;
use baton_session::store::Store;
use baton_session::store::redis::{Durability, RedisOptions, RedisStore};

const APPENDS: u64 = 2_000;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::args().nth(1);
    let url = url.ok_or_else(|| anyhow::anyhow!("name the URL of a Redis"))?;
    // In turns, so that both see the same machine.
    for round in 1..=3 {
        for writers in [1, 64] {
            for durability in [Durability::Fast, Durability::Replicated] {
                let namespace = format!("measure-{}", random_text(6));
                let options = RedisOptions {
                    durability,
                    ..RedisOptions::new(&url, &namespace)
                };
                let store: Arc<dyn Store> = Arc::new(RedisStore::connect_with(&options).await?);
                let took = measure(&store, writers).await?;
                println!("round {round}, {writers:2} writers, {durability:?}: {took}");
            }
        }
    }
    Ok(())
}

async fn measure(store: &Arc<dyn Store>, writers: u64) -> anyhow::Result<String> {
    let began = Instant::now();
    let tasks: Vec<_> = (0..writers)
        .map(|_| tokio::spawn(write(store.clone(), APPENDS / writers.min(8))))
        .collect();
    let mut took = Vec::new();
    for task in tasks {
        took.extend(task.await?);
    }
    let rate = took.len() as f64 / began.elapsed().as_secs_f64();
    took.sort();
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    let (half, most) = (at(0.5), at(0.99));
    Ok(format!("p50 {half:.3} ms, p99 {most:.3} ms, {rate:.0}/s"))
}

/// Appends that begin a turn: the kind that is waited for.
async fn write(store: Arc<dyn Store>, count: u64) -> Vec<Duration> {
    let scene = Scene::created(&store).await;
    let token = scene.claim().await.token;
    let mut took = Vec::new();
    for first in 1..=count {
        let events = vec![begin(1, &scene.creator, DeliveryPath::Connection)];
        let append = scene.append(&token, first, events);
        let began = Instant::now();
        scene.write(&append).await;
        took.push(began.elapsed());
    }
    took
}
