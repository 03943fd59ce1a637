//! What belongs to a connection and to no session.

use std::sync::Arc;

use bytes::Bytes;

use super::scene::Scene;
use crate::command::Idempotency;
use crate::event::Event;
use crate::id::{ConnectionId, LogId};
use crate::store::{Posted, REMEMBERED_KEYS, Store};

fn message(text: &str) -> Event {
    Event::Message {
        message: Bytes::from(text.to_owned()),
    }
}

fn key(connection: &ConnectionId, request: u64, text: &str) -> Idempotency {
    Idempotency::of(connection, Some(&request.to_string()), text.as_bytes())
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
        assert_eq!(posted, Posted::New);
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
    assert_eq!(again, Posted::Known(first));
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
    assert_eq!(other, Posted::Conflict);
    assert_eq!(
        store.heads(&[LogId::Outbox(to.clone())]).await.unwrap(),
        [1]
    );
}

pub async fn outboxes_do_not_mix(store: &Arc<dyn Store>) {
    let (one, two) = (Scene::planned(store).creator, Scene::planned(store).creator);
    let shared = Idempotency {
        key: "k".into(),
        fingerprint: "ab".into(),
    };
    for to in [&one, &two] {
        let posted = store.post(to, message(to.as_str()), &shared).await.unwrap();
        assert_eq!(posted, Posted::New);
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
    assert_eq!(known, Posted::Known(message("x")));
    let anew = store
        .post(to, message("y"), &key(to, 1, "x"))
        .await
        .unwrap();
    assert_eq!(anew, Posted::New);
}
