//! Many turns that wait for their model.

use std::fs;
use std::sync::Arc;

use baton_session::conformance::scene::Scene;
use baton_session::store::{MemoryStore, Store};

use super::model::{Model, STALL};
use super::{agent, prompt};
use crate::support::{Worker, until};

const TURNS: usize = 500;
/// Of memory in an unoptimised build, for a turn, its session in the store, and both ends of its
/// call of the model.
const MOST_PER_TURN: u64 = 200 << 10;
/// The answer to `session/new`, begin, the user's words, a title, two words of the model.
const SAID: u64 = 6;

fn memory() -> u64 {
    let status = fs::read_to_string("/proc/self/statm").expect("this is Linux");
    let pages: u64 = status
        .split(' ')
        .nth(1)
        .and_then(|it| it.parse().ok())
        .expect("a number");
    pages * 4096
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task")
        .expect("this is Linux")
        .count()
}

async fn waiting(store: &Arc<dyn Store>) -> Scene {
    let scene = Scene {
        agent: "llm".into(),
        ..Scene::planned(store)
    };
    scene.create().await;
    prompt(&scene).await;
    scene
}

async fn all_wait(scenes: &[Scene]) {
    for scene in scenes {
        until("it waits", async || scene.head().await >= SAID).await;
    }
}

#[tokio::test]
async fn turns_that_wait_take_little_memory_and_no_threads() {
    let model = Model::start(|_| (&["Let ", "me ", STALL], None)).await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let _worker = Worker::start_in(&store, agent(&model), None, 2 * TURNS);
    // All that is made once.
    let first = waiting(&store).await;
    all_wait(&[first]).await;
    let before = (memory(), threads());
    let mut scenes = Vec::new();
    for _ in 0..TURNS {
        scenes.push(waiting(&store).await);
    }
    all_wait(&scenes).await;
    let after = (memory(), threads());
    let each = after.0.saturating_sub(before.0) / TURNS as u64;
    println!("{each} bytes per waiting turn, {} threads", after.1);
    assert!(each < MOST_PER_TURN, "{each} bytes per waiting turn");
    assert_eq!(after.1, before.1, "threads");
}
