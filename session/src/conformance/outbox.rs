//! Events that belong to a connection and to no session.

use std::sync::Arc;

use bytes::Bytes;

use super::scene::Scene;
use crate::command::IdempotencyKey;
use crate::event::Event;
use crate::id::{ConnectionId, LogId, SessionId};
use crate::store::{
    OUTBOX_BYTES, OUTBOX_WINDOW_BYTES, OUTBOX_WINDOW_ENTRIES, OUTBOX_WINDOW_POSITIONS,
    OutboxProgress, PostOutcome, REMEMBERED_KEYS, Store, StreamId, StreamTouch,
};

fn message(text: &str) -> Event {
    Event::Message {
        message: Bytes::from(text.to_owned()),
    }
}

fn key(connection: &ConnectionId, request: u64, text: &str) -> IdempotencyKey {
    IdempotencyKey::of(connection, Some(&request.to_string()), text.as_bytes())
}

pub async fn posts_are_numbered_from_one(store: &Arc<dyn Store>) {
    let scene = Scene::planned(store);
    let to = &scene.creator;
    let posts = [
        message("first"),
        Event::Watch {
            session: scene.id.clone(),
            after: 3,
        },
        Event::Closed,
    ];
    for (request, event) in (1..).zip(&posts) {
        let posted = store
            .post(to, event.clone(), &key(to, request, "x"))
            .await
            .unwrap();
        assert!(matches!(posted, PostOutcome::New { .. }));
    }
    let log = LogId::Outbox(to.clone());
    let frames = store.read(&log, 1, 10).await.unwrap();
    let read: Vec<_> = frames.iter().flat_map(|frame| frame.numbered()).collect();
    assert_eq!(read, (1..).zip(&posts).collect::<Vec<_>>());
    assert_eq!(store.heads(std::slice::from_ref(&log)).await.unwrap(), [3]);
    assert_eq!(store.read(&log, 3, 10).await.unwrap().len(), 1);
}

pub async fn a_repeated_post_returns_the_first(store: &Arc<dyn Store>) {
    let scene = Scene::planned(store);
    let to = &scene.creator;
    let first = message("first");
    store
        .post(to, first.clone(), &key(to, 1, "same"))
        .await
        .unwrap();
    store
        .post(to, message("second"), &key(to, 2, "other"))
        .await
        .unwrap();
    let again = store
        .post(to, message("made anew"), &key(to, 1, "same"))
        .await
        .unwrap();
    assert_eq!(again, PostOutcome::Known(first));
    assert_eq!(
        store.heads(&[LogId::Outbox(to.clone())]).await.unwrap(),
        [2]
    );
}

pub async fn a_post_key_used_for_something_else_is_a_conflict(store: &Arc<dyn Store>) {
    let scene = Scene::planned(store);
    let to = &scene.creator;
    store
        .post(to, message("first"), &key(to, 1, "this"))
        .await
        .unwrap();
    let other = store
        .post(to, message("second"), &key(to, 1, "that"))
        .await
        .unwrap();
    assert_eq!(other, PostOutcome::Conflict);
    assert_eq!(
        store.heads(&[LogId::Outbox(to.clone())]).await.unwrap(),
        [1]
    );
}

pub async fn outboxes_do_not_mix(store: &Arc<dyn Store>) {
    let (one, two) = (Scene::planned(store).creator, Scene::planned(store).creator);
    let shared = IdempotencyKey {
        key: "k".into(),
        fingerprint: "ab".into(),
    };
    for to in [&one, &two] {
        let posted = store.post(to, message(to.as_str()), &shared).await.unwrap();
        assert!(matches!(posted, PostOutcome::New { .. }));
    }
    let read = store
        .read(&LogId::Outbox(two.clone()), 1, 10)
        .await
        .unwrap();
    assert_eq!(read[0].events, [message(two.as_str())]);
}

pub async fn old_post_keys_are_forgotten(store: &Arc<dyn Store>) {
    let scene = Scene::planned(store);
    let to = &scene.creator;
    for request in 1..=REMEMBERED_KEYS + 1 {
        store
            .post(to, message("x"), &key(to, request, "x"))
            .await
            .unwrap();
    }
    let known = store
        .post(to, message("y"), &key(to, 2, "x"))
        .await
        .unwrap();
    assert_eq!(known, PostOutcome::Known(message("x")));
    let anew = store
        .post(to, message("y"), &key(to, 1, "x"))
        .await
        .unwrap();
    assert!(matches!(anew, PostOutcome::New { .. }));
}

pub async fn no_two_posts_look_the_same(store: &Arc<dyn Store>) {
    let to = &Scene::planned(store).creator;
    fill(store, to, 2, 1).await;
    let frames = store.read(&outbox(to), 1, 10).await.unwrap();
    assert_ne!(frames[0].nonce, frames[1].nonce);
}

pub async fn what_was_delivered_leaves_the_outbox(store: &Arc<dyn Store>) {
    let to = &Scene::planned(store).creator;
    let size = OUTBOX_WINDOW_BYTES / 8;
    fill(store, to, 40, size).await;
    reads(store, to).await;
    delivered(store, to, 40, 40).await;
    let left = store.read(&outbox(to), 1, 100).await.unwrap();
    let weight: usize = left.iter().map(|frame| frame.size()).sum();
    assert!(
        weight as u64 <= OUTBOX_WINDOW_BYTES,
        "{weight} bytes are left"
    );
    assert!(
        weight as u64 + 2 * size > OUTBOX_WINDOW_BYTES,
        "{weight} bytes are left"
    );
    assert_eq!(left.last().unwrap().last(), 40);
    // Again, with the same outcome; and numbers go on.
    delivered(store, to, 40, 40).await;
    assert_eq!(store.read(&outbox(to), 1, 100).await.unwrap(), left);
    fill(store, to, 1, 1).await;
    assert_eq!(store.heads(&[outbox(to)]).await.unwrap(), [41]);
    // Many small ones do not stay, either.
    let entries = OUTBOX_WINDOW_ENTRIES + 20;
    fill(store, to, entries, 1).await;
    delivered(store, to, 41 + entries, 41 + entries).await;
    let left = store.read(&outbox(to), 1, 1000).await.unwrap();
    assert_eq!(left.len() as u64, OUTBOX_WINDOW_ENTRIES);
}

pub async fn what_was_not_delivered_stays_in_the_outbox(store: &Arc<dyn Store>) {
    let to = &Scene::planned(store).creator;
    fill(store, to, 30, OUTBOX_WINDOW_BYTES / 8).await;
    let first = async || store.read(&outbox(to), 1, 1).await.unwrap()[0].first;
    // Nobody holds the stream, or somebody else does.
    delivered(store, to, 30, 30).await;
    assert_eq!(first().await, 1);
    reads(store, to).await;
    // Delivered, but a moment ago.
    delivered(store, to, 20, 0).await;
    assert_eq!(first().await, 1);
    // A cursor names the last one that was delivered: it can be checked.
    delivered(store, to, 20, 12).await;
    assert_eq!(first().await, 12);
    delivered(store, to, 1000, 1000).await;
    assert_eq!(store.heads(&[outbox(to)]).await.unwrap(), [30]);
    let left = store.read(&outbox(to), 1, 100).await.unwrap();
    assert_eq!(left.last().unwrap().last(), 30);
}

pub async fn sessions_are_watched_whatever_leaves_the_outbox(store: &Arc<dyn Store>) {
    let (one, two) = (Scene::planned(store), Scene::planned(store));
    let to = &one.creator;
    reads(store, to).await;
    assert_eq!(store.watches(to).await.unwrap(), []);
    for session in [&one.id, &two.id, &one.id] {
        post(store, to, watch(session), &unnamed(to)).await;
    }
    fill(store, to, 20, OUTBOX_WINDOW_BYTES / 8).await;
    assert_eq!(
        store.watches(to).await.unwrap(),
        [],
        "they are in the outbox"
    );
    delivered(store, to, 23, 23).await;
    let watches = [
        (1, one.id.clone()),
        (2, two.id.clone()),
        // Told again: cursors may name either.
        (3, one.id.clone()),
    ];
    assert_eq!(store.watches(to).await.unwrap(), watches);
    assert_eq!(store.watches(&two.creator).await.unwrap(), []);
}

pub async fn a_session_that_a_stream_has_left_is_not_watched(store: &Arc<dyn Store>) {
    let (one, two) = (Scene::planned(store), Scene::planned(store));
    let to = &one.creator;
    let push_out = async |from: u64| {
        fill(store, to, 20, OUTBOX_WINDOW_BYTES / 8).await;
        delivered(store, to, from + 20, from + 20).await;
    };
    reads(store, to).await;
    // Left while the entry is in the outbox, and after that.
    for session in [&one.id, &two.id] {
        post(store, to, watch(session), &unnamed(to)).await;
    }
    store.forget_watch(to, &one.id, 1).await.unwrap();
    push_out(2).await;
    assert_eq!(
        store.watches(to).await.unwrap(),
        [(2, two.id.clone())],
        "the first was left"
    );
    store.forget_watch(to, &two.id, 2).await.unwrap();
    store.forget_watch(to, &two.id, 2).await.unwrap();
    assert_eq!(store.watches(to).await.unwrap(), []);
    // Opened again, each is watched again.
    for session in [&one.id, &two.id] {
        post(store, to, watch(session), &unnamed(to)).await;
    }
    push_out(24).await;
    let watches = [(23, one.id.clone()), (24, two.id.clone())];
    assert_eq!(store.watches(to).await.unwrap(), watches);
    // An earlier entry that was left does not take a later one along.
    post(store, to, watch(&one.id), &unnamed(to)).await;
    push_out(45).await;
    store.forget_watch(to, &one.id, 23).await.unwrap();
    let watches = [(24, two.id.clone()), (45, one.id.clone())];
    assert_eq!(store.watches(to).await.unwrap(), watches);
}

pub async fn a_post_that_has_left_the_outbox_is_still_known(store: &Arc<dyn Store>) {
    let scene = Scene::planned(store);
    let to = &scene.creator;
    reads(store, to).await;
    post(store, to, watch(&scene.id), &key(to, 1, "new")).await;
    post(store, to, message("listed"), &key(to, 2, "list")).await;
    fill(store, to, 20, OUTBOX_WINDOW_BYTES / 8).await;
    delivered(store, to, 22, 22).await;
    let posted = post(store, to, message("x"), &key(to, 1, "new")).await;
    assert_eq!(posted, PostOutcome::Known(watch(&scene.id)));
    let posted = post(store, to, message("x"), &key(to, 2, "list")).await;
    assert_eq!(posted, PostOutcome::Delivered);
    let posted = post(store, to, message("x"), &key(to, 2, "other")).await;
    assert_eq!(posted, PostOutcome::Conflict);
    assert_eq!(store.heads(&[outbox(to)]).await.unwrap(), [22]);
}

pub async fn an_outbox_that_nobody_reads_takes_no_more(store: &Arc<dyn Store>) {
    let to = &Scene::planned(store).creator;
    let (size, fits) = (OUTBOX_BYTES / 10, 9);
    assert!(store.has_outbox_room(to).await.unwrap());
    fill(store, to, fits, size).await;
    assert!(!store.has_outbox_room(to).await.unwrap());
    let large = message(&"x".repeat(size as usize));
    for _ in 0..2 {
        let posted = post(store, to, large.clone(), &key(to, 1, "x")).await;
        assert_eq!(posted, PostOutcome::Full);
    }
    assert_eq!(store.heads(&[outbox(to)]).await.unwrap(), [fits]);
    // Delivered entries make room, even if that was a moment ago.
    reads(store, to).await;
    delivered(store, to, fits, 0).await;
    assert!(store.has_outbox_room(to).await.unwrap());
    let posted = post(store, to, large.clone(), &key(to, 1, "x")).await;
    assert!(matches!(posted, PostOutcome::New { .. }));
    // A client that reads never notices that there is a limit.
    for number in fits + 1..fits + 30 {
        delivered(store, to, number, 0).await;
        fill(store, to, 1, size).await;
    }
    let left = store.read(&outbox(to), 1, 100).await.unwrap();
    let weight: usize = left.iter().map(|frame| frame.size()).sum();
    assert!(weight as u64 <= OUTBOX_BYTES, "{weight} bytes are left");
}

pub async fn a_post_says_which_entry_it_is(store: &Arc<dyn Store>) {
    let to = &Scene::planned(store).creator;
    fill(store, to, 2, 1).await;
    for key in [unnamed(to), key(to, 1, "x")] {
        let posted = post(store, to, positions(10), &key).await;
        let PostOutcome::New { number, nonce } = posted else {
            panic!("{posted:?}");
        };
        let frames = store.read(&outbox(to), number, 10).await.unwrap();
        assert_eq!((frames.len(), frames[0].nonce), (1, nonce));
        assert_eq!(frames[0].events, [positions(10)]);
    }
}

pub async fn positions_are_counted_for_themselves(store: &Arc<dyn Store>) {
    let to = &Scene::planned(store).creator;
    let size = OUTBOX_BYTES / 10;
    for _ in 0..9 {
        let posted = post(store, to, positions(size), &unnamed(to)).await;
        assert!(matches!(posted, PostOutcome::New { .. }));
    }
    // Nobody is refused because of them.
    assert!(store.has_outbox_room(to).await.unwrap());
    fill(store, to, 9, size).await;
    assert!(!store.has_outbox_room(to).await.unwrap());
    let posted = post(store, to, positions(size), &unnamed(to)).await;
    assert_eq!(posted, PostOutcome::Full);
    // Delivered entries make room for both.
    reads(store, to).await;
    delivered(store, to, 18, 0).await;
    let posted = post(store, to, positions(size), &unnamed(to)).await;
    assert!(matches!(posted, PostOutcome::New { number: 19, .. }));
    assert!(store.has_outbox_room(to).await.unwrap());
}

pub async fn few_positions_push_nothing_out_of_the_outbox(store: &Arc<dyn Store>) {
    let to = &Scene::planned(store).creator;
    reads(store, to).await;
    fill(store, to, 3, 1).await;
    for _ in 0..3 {
        post(
            store,
            to,
            positions(OUTBOX_WINDOW_POSITIONS / 4),
            &unnamed(to),
        )
        .await;
    }
    delivered(store, to, 6, 6).await;
    assert_eq!(store.read(&outbox(to), 1, 10).await.unwrap().len(), 6);
    for _ in 0..2 {
        post(
            store,
            to,
            positions(OUTBOX_WINDOW_POSITIONS / 4),
            &unnamed(to),
        )
        .await;
    }
    delivered(store, to, 8, 8).await;
    let left = store.read(&outbox(to), 1, 10).await.unwrap();
    assert_eq!(left[0].first, 6, "as many as fit");
}

fn positions(size: u64) -> Event {
    Event::Positions {
        text: "x".repeat(size as usize).into(),
    }
}

fn outbox(of: &ConnectionId) -> LogId {
    LogId::Outbox(of.clone())
}

fn watch(session: &SessionId) -> Event {
    Event::Watch {
        session: session.clone(),
        after: 0,
    }
}

fn unnamed(of: &ConnectionId) -> IdempotencyKey {
    IdempotencyKey::of(of, None, b"")
}

async fn post(
    store: &Arc<dyn Store>,
    to: &ConnectionId,
    event: Event,
    key: &IdempotencyKey,
) -> PostOutcome {
    store.post(to, event, key).await.unwrap()
}

async fn fill(store: &Arc<dyn Store>, to: &ConnectionId, entries: u64, size: u64) {
    let event = message(&"x".repeat(size as usize));
    for _ in 0..entries {
        let posted = post(store, to, event.clone(), &unnamed(to)).await;
        assert!(matches!(posted, PostOutcome::New { .. }));
    }
}

fn stream(of: &ConnectionId) -> StreamId {
    StreamId {
        connection: of.clone(),
        session: None,
    }
}

/// Somebody holds the connection's stream.
async fn reads(store: &Arc<dyn Store>, connection: &ConnectionId) {
    let opened = store.open_stream(&stream(connection), "", "holder").await;
    assert!(opened.unwrap().is_some());
}

async fn delivered(store: &Arc<dyn Store>, to: &ConnectionId, upto: u64, settled: u64) {
    let touch = StreamTouch {
        stream: stream(to),
        holder: "holder".into(),
        written: Some(upto.to_string()),
        delivered: Some(OutboxProgress { upto, settled }),
    };
    store.touch_streams(&[touch]).await.unwrap();
}

pub async fn a_client_is_described_by_its_connection(store: &Arc<dyn Store>) {
    let scene = Scene::planned(store);
    let (to, other) = (&scene.creator, scene.another_connection());
    assert_eq!(store.client_description(to).await.unwrap(), None);
    for text in ["{}", r#"{"clientInfo":{"name":"an editor – ä"}}"#] {
        let described = Bytes::from(text);
        store.describe_client(to, &described).await.unwrap();
        let read = store.client_description(to).await.unwrap();
        assert_eq!(read, Some(described));
    }
    // Posts and descriptions do not touch each other.
    let posted = store.post(to, message("a"), &key(to, 1, "x")).await;
    assert!(matches!(
        posted.unwrap(),
        PostOutcome::New { number: 1, .. }
    ));
    assert!(store.client_description(to).await.unwrap().is_some());
    assert_eq!(store.client_description(&other).await.unwrap(), None);
}
