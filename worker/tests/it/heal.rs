//! The store fails over to a replica that lagged: what it lost is written again, as it was.

use std::sync::Arc;
use std::time::Duration;

use baton_session::event::Event;
use baton_session::store::{EnqueueOutcome, MemoryStore, Store};
use baton_worker::agent::scripted::ScriptedAgent;

use crate::support::{
    Worker, chunks, counted, frames, is_answered, prompt, prompted, replica, until,
};

#[tokio::test]
async fn a_turn_survives_a_log_that_lost_its_tail() {
    let memory = MemoryStore::default();
    let store: Arc<dyn Store> = Arc::new(memory.clone());
    let text = "/mode ask\n/count 100 delay=2\n/title found again\n/count 100 delay=2";
    let scene = prompted(&memory, &ScriptedAgent, text).await;
    let _worker = Worker::start(&store, Arc::new(ScriptedAgent));
    // Before the turn said anything that it remembers, and again and again.
    for head in [4, 40, 120, 150] {
        until("the turn goes on", async || scene.head().await >= head).await;
        let replica = replica(&memory, &scene);
        until("more is written", async || scene.head().await >= head + 20).await;
        let before = frames(&scene).await;
        memory.promote(&replica).expect("the store works");
        let lost = before.last().expect("frames").last();
        until("it is written again", async || scene.head().await > lost).await;
        let after = frames(&scene).await;
        assert_eq!(before[..], after[..before.len()], "the very same frames");
    }
    until("the answer", async || is_answered(&frames(&scene).await)).await;
    let log = frames(&scene).await;
    assert!(log.is_sorted_by(|one, next| one.last() + 1 == next.first));
    let twice: Vec<String> = counted(100).into_iter().chain(counted(100)).collect();
    assert_eq!(chunks(&log), twice);
    // The fields beside the log came back, too.
    until("the session is given up", async || {
        let inbox = store.inbox(&scene.id, &[]).await.expect("the store works");
        inbox.is_empty()
    })
    .await;
    let view = scene.attachment(&scene.creator).await.view;
    assert!(
        String::from_utf8_lossy(&view).contains(r#""currentModeId":"ask""#),
        "{view:?}"
    );
}

#[tokio::test]
async fn what_was_not_kept_is_said_again_from_what_the_log_has() {
    let memory = MemoryStore::default();
    let store: Arc<dyn Store> = Arc::new(memory.clone());
    // Heavier than what is kept.
    let scene = prompted(&memory, &ScriptedAgent, "/count 60 delay=2 size=60000").await;
    let _worker = Worker::start(&store, Arc::new(ScriptedAgent));
    until("the turn goes on", async || scene.head().await >= 10).await;
    let replica = replica(&memory, &scene);
    until("more is written", async || scene.head().await >= 40).await;
    memory.promote(&replica).expect("the store works");
    until("the answer", async || is_answered(&frames(&scene).await)).await;
    let log = frames(&scene).await;
    let said: Vec<String> = chunks(&log)
        .iter()
        .map(|chunk| chunk.trim_end_matches('.').to_owned())
        .collect();
    assert_eq!(said, counted(60));
}

/// The worker has read a prompt that the store lost, and its client sends it again.
#[tokio::test]
async fn a_prompt_that_was_lost_and_is_repeated_is_answered_once() {
    let memory = MemoryStore::default();
    let store: Arc<dyn Store> = Arc::new(memory.clone());
    let scene = prompted(&memory, &ScriptedAgent, "/count 100 delay=5").await;
    let _worker = Worker::start(&store, Arc::new(ScriptedAgent));
    until("the turn goes on", async || scene.head().await > 5).await;
    let before = replica(&memory, &scene);
    prompt(&scene, 2, "/count 2").await;
    // It has read it by then, or there is nothing to see.
    tokio::time::sleep(Duration::from_millis(100)).await;
    memory.promote(&before).expect("the store works");
    prompt(&scene, 2, "/count 2").await;
    until("nothing waits", async || {
        let inbox = store.inbox(&scene.id, &[]).await.expect("the store works");
        inbox.is_empty()
    })
    .await;
    let log = frames(&scene).await;
    let events = log.iter().flat_map(|frame| &frame.events);
    let answers = events.filter(|event| matches!(event, Event::Response { turn: true, .. }));
    assert_eq!(answers.count(), 2);
}

/// As above, but the repetition comes when the worker has given the session up.
#[tokio::test]
async fn a_prompt_that_was_lost_and_is_repeated_after_its_answer_is_not_run_again() {
    let memory = MemoryStore::default();
    let store: Arc<dyn Store> = Arc::new(memory.clone());
    let scene = prompted(&memory, &ScriptedAgent, "/count 100 delay=5").await;
    let worker = Worker::start(&store, Arc::new(ScriptedAgent));
    until("the turn goes on", async || scene.head().await > 5).await;
    let before = replica(&memory, &scene);
    prompt(&scene, 2, "/count 2").await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    memory.promote(&before).expect("the store works");
    let answers = async || {
        let log = frames(&scene).await;
        let events = log.iter().flat_map(|frame| &frame.events);
        let answers = events.filter(|event| matches!(event, Event::Response { turn: true, .. }));
        answers.count()
    };
    until("both are answered", async || answers().await == 2).await;
    // The next holder does not know which commands this one has read.
    drop(worker);
    let again = prompt(&scene, 2, "/count 2").await;
    assert!(matches!(again, EnqueueOutcome::Joined { .. }), "{again:?}");
}
