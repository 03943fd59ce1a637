//! Closing: the session rests until somebody loads or resumes it.

use std::sync::Arc;

use super::scene::Scene;
use crate::command::CommandKind;
use crate::store::{
    AttachOutcome, AttachParams, EnqueueOutcome, EnqueueRequest, ForkOutcome, ForkRequest,
    SeenPosition, Store,
};

fn close(scene: &Scene) -> EnqueueRequest {
    scene.request(scene.command(CommandKind::Close, Some("\"close\"")))
}

async fn closed(store: &Arc<dyn Store>) -> Scene {
    let scene = Scene::created(store).await;
    scene.talk("one").await;
    let outcome = store.enqueue(&close(&scene)).await.unwrap();
    assert!(
        matches!(outcome, EnqueueOutcome::Accepted { .. }),
        "{outcome:?}"
    );
    scene
}

pub async fn a_closed_session_takes_only_what_ends_things(store: &Arc<dyn Store>) {
    let scene = closed(store).await;
    for done in [false, true] {
        if done {
            scene.finish(&scene.claim().await.token).await;
        }
        for kind in [
            CommandKind::Prompt,
            CommandKind::SetMode,
            CommandKind::Extension,
        ] {
            let request = scene.request(scene.command(kind, Some("2")));
            let outcome = store.enqueue(&request).await.unwrap();
            assert_eq!(outcome, EnqueueOutcome::Closed, "{kind:?}");
        }
        for kind in [
            CommandKind::Cancel,
            CommandKind::CancelRequest,
            CommandKind::Answer,
            CommandKind::Close,
        ] {
            let request = scene.request(scene.command(kind, None));
            let outcome = store.enqueue(&request).await.unwrap();
            assert!(
                matches!(outcome, EnqueueOutcome::Accepted { .. }),
                "{kind:?}: {outcome:?}"
            );
        }
    }
    scene.lists_only(&scene).await;
}

pub async fn a_closed_session_is_forked_unless_it_is_to_be_open(store: &Arc<dyn Store>) {
    let scene = closed(store).await;
    let asked = |only_open| ForkRequest {
        only_open,
        ..scene.fork(&scene.heir())
    };
    let refused = asked(true);
    assert_eq!(scene.try_fork(&refused).await, ForkOutcome::Closed);
    let done = asked(false);
    for fork in [&done, &done] {
        let outcome = scene.try_fork(fork).await;
        assert!(matches!(outcome, ForkOutcome::Done { .. }), "{outcome:?}");
    }
    // Once more when it rests.
    scene.finish(&scene.claim().await.token).await;
    assert_eq!(scene.try_fork(&refused).await, ForkOutcome::Closed);
}

pub async fn what_was_asked_before_it_closed_is_joined(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let prompt = scene.prompt("1");
    store.enqueue(&prompt).await.unwrap();
    store.enqueue(&close(&scene)).await.unwrap();
    for request in [&prompt, &close(&scene)] {
        let outcome = store.enqueue(request).await.unwrap();
        assert!(
            matches!(outcome, EnqueueOutcome::Joined { .. }),
            "{outcome:?}"
        );
    }
    let mut other = scene.prompt("1");
    other.key.fingerprint = "another".into();
    assert_eq!(
        store.enqueue(&other).await.unwrap(),
        EnqueueOutcome::Conflict
    );
}

pub async fn a_refused_close_closes_nothing(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let foreign = EnqueueRequest {
        principal: "somebody else".into(),
        ..close(&scene)
    };
    assert_eq!(
        store.enqueue(&foreign).await.unwrap(),
        EnqueueOutcome::NotFound
    );
    let mut unwatched = close(&scene);
    unwatched.command.connection = scene.another_connection();
    let outcome = store.enqueue(&unwatched).await.unwrap();
    assert_eq!(outcome, EnqueueOutcome::Unwatched { head: 0 });
    scene.talk("still open").await;
}

pub async fn loading_opens_a_closed_session(store: &Arc<dyn Store>) {
    let scene = closed(store).await;
    let elsewhere = AttachParams {
        cwd: "/elsewhere".into(),
        ..scene.attach(&scene.creator, "2")
    };
    store.attach(&elsewhere).await.unwrap();
    let outcome = store.enqueue(&scene.prompt("3")).await.unwrap();
    assert_eq!(outcome, EnqueueOutcome::Closed);
    let outcome = store.attach(&scene.attach(&scene.creator, "2")).await;
    assert!(matches!(outcome.unwrap(), AttachOutcome::Done(_)));
    scene.talk("two").await;
    assert_eq!(scene.words().await, ["one", "two"]);
}

pub async fn a_fork_of_a_closed_session_is_open(store: &Arc<dyn Store>) {
    let scene = closed(store).await;
    let child = scene.forked().await;
    child.talk("two").await;
    assert_eq!(child.words().await, ["one", "two"]);
    let outcome = store.enqueue(&scene.prompt("3")).await.unwrap();
    assert_eq!(outcome, EnqueueOutcome::Closed);
}

pub async fn a_closed_session_is_not_opened_by_who_needs_an_open_one(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let attach = AttachParams {
        only_open: true,
        ..scene.attach(&scene.creator, "1")
    };
    let attached = store.attach(&attach).await.unwrap();
    assert!(matches!(attached, AttachOutcome::Done(_)), "{attached:?}");
    let close = scene.request(scene.command(CommandKind::Close, None));
    store.enqueue(&close).await.unwrap();
    let again = AttachParams {
        request: "2".into(),
        ..attach
    };
    assert_eq!(store.attach(&again).await.unwrap(), AttachOutcome::Closed);
    assert_eq!(
        store.enqueue(&scene.prompt("3")).await.unwrap(),
        EnqueueOutcome::Closed
    );
    // An observer opens nothing.
    let reads = AttachParams {
        observe: true,
        ..again
    };
    let attached = store.attach(&reads).await.unwrap();
    assert!(matches!(attached, AttachOutcome::Done(_)), "{attached:?}");
}

pub async fn a_closed_session_is_watched_until_everything_was_heard(store: &Arc<dyn Store>) {
    let scene = closed(store).await;
    let (creator, upto) = (&scene.creator, scene.head().await);
    let unwatch_as = async |watch, upto, directive| {
        let seen = SeenPosition { upto, directive };
        let left = store.unwatch(&scene.id, creator, watch, seen).await;
        left.unwrap()
    };
    let unwatch = async |upto, directive| unwatch_as(3, upto, directive).await;
    // Its close waits.
    assert!(!unwatch(upto, 0).await);
    scene.finish(&scene.claim().await.token).await;
    let stranger = scene.another_connection();
    let seen = SeenPosition { upto, directive: 2 };
    assert!(!store.unwatch(&scene.id, &stranger, 3, seen).await.unwrap());
    assert!(!scene.attachment(&stranger).await.closed);
    assert!(!unwatch(upto - 1, 0).await, "there is more");
    // The observer has yet to be answered.
    let reads = AttachParams {
        observe: true,
        ..scene.attach(creator, "1")
    };
    store.attach(&reads).await.unwrap();
    assert!(!unwatch(upto, 0).await);
    for _ in 0..2 {
        assert!(unwatch(upto, 1).await);
    }
    let attachment = scene.attachment(creator).await;
    assert!(attachment.closed && attachment.left == 3);
    // Another one may have been told for something that has not come yet.
    assert!(!unwatch_as(4, upto, 1).await);
    // A client that wants it again has to load or resume it.
    let again = AttachParams {
        watched: false,
        ..scene.attach(creator, "2")
    };
    let attached = store.attach(&again).await.unwrap();
    assert_eq!(attached, AttachOutcome::Unwatched { head: upto });
    let attached = store.attach(&scene.attach(creator, "2")).await.unwrap();
    assert!(matches!(attached, AttachOutcome::Done(_)), "{attached:?}");
    assert!(!unwatch(upto, 2).await, "it is open");
    assert!(!scene.attachment(creator).await.closed);
}
