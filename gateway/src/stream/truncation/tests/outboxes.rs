//! Connection streams whose outbox has lost its end, or let go of its beginning.

use baton_session::event::Event;
use baton_session::route::DeliveryPath;
use baton_session::store::{OUTBOX_WINDOW_BYTES, OutboxProgress, StreamTouch};

use super::*;

impl Stage {
    async fn tell(&self, text: &str) {
        let message = text.to_owned().into();
        self.post(Event::Message { message }).await;
    }

    /// Everything so far was delivered long ago.
    async fn settle(&self) {
        let stream = StreamId {
            connection: self.scene.creator.clone(),
            session: None,
        };
        let log = LogId::Outbox(self.scene.creator.clone());
        let (store, holder) = (&self.scene.store, "holder".to_owned());
        let upto = store.heads(&[log]).await.expect("the store works")[0];
        let opened = store.open_stream(&stream, "", &holder).await;
        opened.expect("the store works");
        let delivered = Some(OutboxProgress {
            upto,
            settled: upto,
        });
        let touch = StreamTouch {
            stream,
            holder,
            written: None,
            delivered,
        };
        store
            .touch_streams(&[touch])
            .await
            .expect("the store works");
    }
}

/// The cursor of the event that says `text`.
fn cursor(told: &str, text: &str) -> String {
    let at = told.find(text).expect("it was told");
    let (_, from) = told[..at].rsplit_once("id: ").expect("it has a cursor");
    from.lines().next().expect("a line").to_owned()
}

async fn read_until(told: &mut StreamText, text: &str) -> String {
    while !told.1.contains(text) {
        let frame = told.0.frame().await.expect("it goes on").expect("a body");
        let data = frame.into_data().expect("no trailers");
        told.1.push_str(std::str::from_utf8(&data).expect("text"));
    }
    assert!(!told.1.contains(RESET), "{}", told.1);
    cursor(&told.1, text)
}

#[tokio::test(start_paused = true)]
async fn a_cursor_behind_what_is_kept_gets_a_reset_and_the_session_goes_on() {
    let stage = stage(DeliveryPath::Connection).await;
    let mut told = stage.connection_stream().await;
    stage.tell("\"first\"").await;
    let early = read_until(&mut told, "first").await;
    let filling = "x".repeat(OUTBOX_WINDOW_BYTES as usize / 4);
    for _ in 0..8 {
        stage.tell(&format!("\"{filling}\"")).await;
    }
    stage.tell("\"late\"").await;
    let late = read_until(&mut told, "late").await;
    drop(told);
    stage.settle().await;
    // From the beginning, and from where it was long ago.
    for cursor in [None, Some(&*early)] {
        let mut told = stage.resumed(cursor).await;
        told.until(RESET, "first").await;
    }
    // A little behind, and the session is watched by an entry that is gone.
    stage.tell("\"after\"").await;
    let mut told = stage.resumed(Some(&late)).await;
    told.until("after", RESET).await;
    stage.say(2, &["word"]).await;
    told.until("word", RESET).await;
    // Also by those who had to start over.
    let mut told = stage.resumed(Some(&early)).await;
    told.until(RESET, "word").await;
    stage.say(3, &["speech"]).await;
    told.until("speech", RESET).await;
}

#[tokio::test(start_paused = true)]
async fn entries_that_took_the_place_of_others_are_noticed() {
    for interrupted in [false, true] {
        let stage = stage(DeliveryPath::Connection).await;
        let mut told = stage.connection_stream().await;
        stage.tell("\"one\"").await;
        told.until("one", RESET).await;
        let replica = stage.memory.outbox_replica(&stage.scene.creator);
        let replica = replica.expect("the store works");
        stage.tell("\"lost\"").await;
        let lost = read_until(&mut told, "lost").await;
        told.1.clear();
        let promoted = stage.memory.promote_outbox(&replica);
        promoted.expect("the store works");
        if interrupted {
            stage.memory.interrupt();
        }
        // As many as before, and more.
        stage.tell("\"other\"").await;
        told.until(RESET, "never").await;
        stage.tell("\"next\"").await;
        told.until("next", "lost").await;
        // A client that comes back with the cursor of what was lost is told, too.
        let mut told = stage.resumed(Some(&lost)).await;
        told.until(RESET, "next").await;
    }
}

/// So many sessions are watched that cursors name an entry of the outbox.
async fn watch_many(stage: &Stage) -> Vec<Scene> {
    let mut scenes = Vec::new();
    for _ in 0..60 {
        let mut scene = Scene::planned(&stage.scene.store);
        scene.creator = stage.scene.creator.clone();
        scene.principal = stage.scene.principal.clone();
        let session = scene.id.clone();
        stage.post(Event::Watch { session, after: 0 }).await;
        scene.create().await;
        scenes.push(scene);
    }
    scenes
}

#[tokio::test(start_paused = true)]
async fn a_cursor_that_names_what_the_store_has_lost_gets_a_reset() {
    let stage = stage(DeliveryPath::Connection).await;
    let mut told = stage.connection_stream().await;
    stage.tell("\"one\"").await;
    read_until(&mut told, "one").await;
    let replica = stage.memory.outbox_replica(&stage.scene.creator);
    let replica = replica.expect("the store works");
    watch_many(&stage).await;
    stage.tell("\"two\"").await;
    let lost = read_until(&mut told, "two").await;
    assert!(lost.contains('@') && lost.len() <= 1024, "{lost}");
    drop(told);
    let mut told = stage.resumed(Some(&lost)).await;
    stage.tell("\"three\"").await;
    told.until("three", RESET).await;
    drop(told);
    let promoted = stage.memory.promote_outbox(&replica);
    promoted.expect("the store works");
    // As many entries as there were, and other ones where it looks for its positions.
    watch_many(&stage).await;
    for _ in 0..20 {
        stage.tell("\"other\"").await;
    }
    let mut told = stage.resumed(Some(&lost)).await;
    told.until(RESET, "other").await;
    // The last entry that it names may be there, while another one is not.
    let (entry, positions) = lost.split_once('~').expect("it names an entry");
    let log = LogId::Outbox(stage.scene.creator.clone());
    let frames = stage
        .scene
        .store
        .read(&log, 1, 1)
        .await
        .expect("the store works");
    let nonce = frames[0].nonce;
    assert!(!entry.is_empty());
    let mut told = stage.resumed(Some(&format!("1-{nonce}~{positions}"))).await;
    told.until(RESET, "other").await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_goes_on_with_other_entries_when_its_own_are_lost() {
    let stage = stage(DeliveryPath::Connection).await;
    let mut told = stage.connection_stream().await;
    watch_many(&stage).await;
    stage.tell("\"one\"").await;
    let one = read_until(&mut told, "one").await;
    assert!(one.contains('@'), "{one}");
    drop(told);
    // From a cursor without positions: they are written when the stream is opened.
    let replica = stage.memory.outbox_replica(&stage.scene.creator);
    let replica = replica.expect("the store works");
    let mut told = stage.resumed(Some("garbage")).await;
    let begun = start(&mut told).await;
    assert!(begun.contains('@'), "{begun}");
    let promoted = stage.memory.promote_outbox(&replica);
    promoted.expect("the store works");
    stage.memory.interrupt();
    stage.tell("\"two\"").await;
    let after = read_until(&mut told, "two").await;
    assert!(after.contains('@') && after.len() <= 1024, "{after}");
    let mut told = stage.resumed(Some(&after)).await;
    stage.tell("\"three\"").await;
    told.until("three", RESET).await;
    let mut told = stage.resumed(Some(&begun)).await;
    told.until(RESET, "three").await;
}

/// The cursor that a stream begins with, after a reset.
async fn start(told: &mut StreamText) -> String {
    let frame = told.0.frame().await.expect("it begins").expect("a body");
    let data = frame.into_data().expect("no trailers");
    let text = std::str::from_utf8(&data).expect("text");
    assert!(text.contains(RESET), "{text}");
    let (_, from) = text.split_once("id: ").expect("it has a cursor");
    from.lines().next().expect("a line").to_owned()
}
