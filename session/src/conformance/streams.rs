//! Streams: who holds them, and what an open one means for a command.

use std::sync::Arc;

use super::scene::{Scene, enqueued};
use crate::command::CommandKind;
use crate::id::ConnectionId;
use crate::route::DeliveryPath;
use crate::store::{EnqueueOutcome, EnqueueRequest, LastWritten, Store, StreamId, StreamTouch};

/// The way a new prompt of the connection is answered.
async fn way(scene: &Scene, connection: &ConnectionId, request: &str) -> DeliveryPath {
    let prompt = EnqueueRequest {
        watched: true,
        ..scene.prompt_by(connection, request)
    };
    match scene.store.enqueue(&prompt).await.unwrap() {
        EnqueueOutcome::Accepted { via, .. } => via,
        other => panic!("not accepted: {other:?}"),
    }
}

async fn written(scene: &Scene, stream: &StreamId, holder: &str) -> Option<String> {
    let opened = scene
        .store
        .open_stream(stream, &scene.principal, holder)
        .await
        .unwrap();
    opened.expect("it can be opened").written.cursor
}

pub async fn commands_follow_the_open_stream(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let creator = &scene.creator;
    assert_eq!(way(&scene, creator, "1").await, DeliveryPath::Connection);
    scene.open_stream(creator, "a").await;
    assert_eq!(way(&scene, creator, "2").await, DeliveryPath::Session);
    store
        .touch_streams(&[scene.touch(creator, "a", None)])
        .await
        .unwrap();
    assert_eq!(way(&scene, creator, "3").await, DeliveryPath::Session);
    store
        .close_stream(&scene.touch(creator, "a", None))
        .await
        .unwrap();
    assert_eq!(way(&scene, creator, "4").await, DeliveryPath::Connection);
    let ways: Vec<DeliveryPath> = store
        .inbox(&scene.id, &scene.named(&[1]).await)
        .await
        .unwrap()
        .iter()
        .map(|queued| queued.via)
        .collect();
    assert_eq!(
        ways,
        [
            DeliveryPath::Connection,
            DeliveryPath::Session,
            DeliveryPath::Session,
            DeliveryPath::Connection
        ]
    );
}

pub async fn a_stream_matters_only_to_its_own_connection(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let other = scene.another_connection();
    scene.open_stream(&other, "a").await;
    assert_eq!(
        way(&scene, &scene.creator, "1").await,
        DeliveryPath::Connection
    );
    assert_eq!(way(&scene, &other, "1").await, DeliveryPath::Session);
}

pub async fn an_old_holder_changes_nothing(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let creator = &scene.creator;
    let session = scene.stream(creator);
    let connection = StreamId {
        connection: creator.clone(),
        session: None,
    };
    for stream in [&session, &connection] {
        let touch = |holder: &str, written: &str| StreamTouch {
            stream: stream.clone(),
            holder: holder.to_owned(),
            written: Some(written.to_owned()),
            delivered: None,
        };
        written(&scene, stream, "old").await;
        written(&scene, stream, "new").await;
        store
            .touch_streams(&[touch("new", "5.0"), touch("old", "9.9")])
            .await
            .unwrap();
        store.close_stream(&touch("old", "9.9")).await.unwrap();
        store.touch_streams(&[touch("new", "6.0")]).await.unwrap();
        assert_eq!(
            written(&scene, stream, "newest").await.as_deref(),
            Some("6.0")
        );
    }
    assert_eq!(way(&scene, creator, "1").await, DeliveryPath::Session);
}

pub async fn what_was_written_is_known_to_the_next_holder(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let creator = scene.creator.clone();
    let session = scene.stream(&creator);
    let connection = StreamId {
        connection: creator,
        session: None,
    };
    for stream in [session, connection] {
        let touch = |written: Option<&str>| StreamTouch {
            stream: stream.clone(),
            holder: "a".into(),
            written: written.map(str::to_owned),
            delivered: None,
        };
        assert_eq!(written(&scene, &stream, "a").await, None);
        store
            .touch_streams(&[touch(Some("3.0000beef"))])
            .await
            .unwrap();
        store.touch_streams(&[touch(None)]).await.unwrap();
        assert_eq!(
            written(&scene, &stream, "a").await.as_deref(),
            Some("3.0000beef")
        );
        store
            .close_stream(&touch(Some("4.0000beef")))
            .await
            .unwrap();
        // Closed: there is nobody left to record for.
        store
            .touch_streams(&[touch(Some("5.0000beef"))])
            .await
            .unwrap();
        assert_eq!(
            written(&scene, &stream, "b").await.as_deref(),
            Some("4.0000beef")
        );
    }
}

/// Who opens a stream anew goes on where the holder before has ended, and that one ends only now.
pub async fn the_last_word_of_an_earlier_holder_counts(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let session = scene.stream(&scene.creator);
    let connection = StreamId {
        connection: scene.creator.clone(),
        session: None,
    };
    for stream in [session, connection] {
        let touch = |holder: &str, written: Option<&str>| StreamTouch {
            stream: stream.clone(),
            holder: holder.into(),
            written: written.map(str::to_owned),
            delivered: None,
        };
        let last = async |holder: &str| store.last_written(&stream, holder).await.unwrap();
        let said = |cursor: &str, is_final: bool| {
            Some(LastWritten {
                cursor: Some(cursor.to_owned()),
                is_final,
            })
        };
        written(&scene, &stream, "a").await;
        let first = [touch("a", Some("3.0"))];
        store.touch_streams(&first).await.unwrap();
        assert_eq!(last("a").await, said("3.0", true));
        written(&scene, &stream, "b").await;
        assert_eq!(last("b").await, said("3.0", false));
        assert_eq!(last("a").await, None);
        // One that comes and goes says nothing about the one before.
        written(&scene, &stream, "c").await;
        store.close_stream(&touch("b", None)).await.unwrap();
        assert_eq!(last("c").await, said("3.0", false));
        store.close_stream(&touch("a", Some("4.0"))).await.unwrap();
        assert_eq!(last("c").await, said("4.0", true));
        store.close_stream(&touch("c", None)).await.unwrap();
        assert_eq!(last("c").await, None);
        // Closed: nobody is waited for.
        written(&scene, &stream, "d").await;
        assert_eq!(last("d").await, said("4.0", true));
    }
}

pub async fn a_stream_opens_with_what_the_session_knows(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let stream = scene.stream(&scene.creator);
    let opened = store
        .open_stream(&stream, &scene.principal, "a")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        opened.attachment,
        Some(scene.attachment(&scene.creator).await)
    );
    let own = StreamId {
        session: None,
        ..stream
    };
    let opened = store
        .open_stream(&own, &scene.principal, "a")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(opened.attachment, None);
}

pub async fn an_unknown_or_foreign_session_has_no_stream(store: &Arc<dyn Store>) {
    let (scene, unknown) = (Scene::created(store).await, Scene::planned(store));
    let creator = &scene.creator;
    let open = |scene: &Scene, principal: &str| {
        let (stream, principal) = (scene.stream(creator), principal.to_owned());
        async move { store.open_stream(&stream, &principal, "a").await.unwrap() }
    };
    assert_eq!(open(&unknown, &unknown.principal).await, None);
    assert_eq!(open(&scene, &unknown.principal).await, None);
    assert_eq!(way(&scene, creator, "1").await, DeliveryPath::Connection);
    let foreign = store
        .attachment(&scene.id, creator, &unknown.principal)
        .await
        .unwrap();
    assert_eq!(foreign, None);
    let missing = store
        .attachment(&unknown.id, creator, &unknown.principal)
        .await
        .unwrap();
    assert_eq!(missing, None);
    store
        .touch_streams(&[unknown.touch(creator, "a", Some("1.0"))])
        .await
        .unwrap();
    store
        .close_stream(&unknown.touch(creator, "a", None))
        .await
        .unwrap();
}

pub async fn a_connection_stream_must_watch_before_it_is_answered(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let other = scene.another_connection();
    let prompt = scene.prompt_by(&other, "1");
    assert_eq!(
        store.enqueue(&prompt).await.unwrap(),
        EnqueueOutcome::Unwatched { head: 0 }
    );
    assert_eq!(
        store.enqueue(&prompt).await.unwrap(),
        EnqueueOutcome::Unwatched { head: 0 }
    );
    let watched = EnqueueRequest {
        watched: true,
        ..prompt
    };
    let accepted = enqueued(store.enqueue(&watched).await.unwrap());
    assert_eq!(accepted, ("accepted", 2, 0, DeliveryPath::Connection));
    // Once is enough.
    let next = store.enqueue(&scene.prompt_by(&other, "2")).await.unwrap();
    assert!(
        matches!(
            next,
            EnqueueOutcome::Accepted {
                via: DeliveryPath::Connection,
                ..
            }
        ),
        "{next:?}"
    );
}

pub async fn a_session_stream_needs_no_watching(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let other = scene.another_connection();
    scene.open_stream(&other, "a").await;
    let outcome = store.enqueue(&scene.prompt_by(&other, "1")).await.unwrap();
    assert!(
        matches!(
            outcome,
            EnqueueOutcome::Accepted {
                via: DeliveryPath::Session,
                ..
            }
        ),
        "{outcome:?}"
    );
    store
        .close_stream(&scene.touch(&other, "a", None))
        .await
        .unwrap();
    let outcome = store.enqueue(&scene.prompt_by(&other, "2")).await.unwrap();
    assert_eq!(outcome, EnqueueOutcome::Unwatched { head: 0 });
}

pub async fn what_expects_no_answer_needs_no_stream(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let other = scene.another_connection();
    for kind in [CommandKind::Cancel, CommandKind::Answer] {
        let mut command = scene.command(kind, None);
        command.connection = other.clone();
        let outcome = store.enqueue(&scene.request(command)).await.unwrap();
        assert!(
            matches!(
                outcome,
                EnqueueOutcome::Accepted {
                    via: DeliveryPath::Connection,
                    ..
                }
            ),
            "{outcome:?}"
        );
    }
    let outcome = store.enqueue(&scene.prompt_by(&other, "1")).await.unwrap();
    assert_eq!(outcome, EnqueueOutcome::Unwatched { head: 0 });
}

pub async fn a_one_shot_changes_nothing_about_its_connection(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let other = scene.another_connection();
    let before = scene.attachment(&other).await;
    let one_shot = EnqueueRequest {
        one_shot: true,
        watched: true,
        ..scene.prompt_by(&other, "1")
    };
    let outcome = store.enqueue(&one_shot).await.unwrap();
    assert!(
        matches!(
            outcome,
            EnqueueOutcome::Accepted {
                via: DeliveryPath::OneShot,
                ..
            }
        ),
        "{outcome:?}"
    );
    let after = scene.attachment(&other).await;
    assert_eq!(
        (after.route, after.directives),
        (before.route, before.directives)
    );
    let outcome = store.enqueue(&scene.prompt_by(&other, "2")).await.unwrap();
    assert_eq!(outcome, EnqueueOutcome::Unwatched { head: 0 });
    // Nor does an open stream change where a one-shot is answered.
    scene.open_stream(&other, "a").await;
    let next = EnqueueRequest {
        one_shot: true,
        ..scene.prompt_by(&other, "3")
    };
    let outcome = store.enqueue(&next).await.unwrap();
    assert!(
        matches!(
            outcome,
            EnqueueOutcome::Accepted {
                via: DeliveryPath::OneShot,
                ..
            }
        ),
        "{outcome:?}"
    );
}
