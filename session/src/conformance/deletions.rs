//! Deletion: at once nobody finds the session, and in the end nothing is left of it.

use std::sync::Arc;

use super::scene::{LONG, Scene, SignalProbe, begin, end, update, updates};
use crate::command::CommandKind;
use crate::route::DeliveryPath;
use crate::store::{
    AppendOutcome, AppendRequest, AttachOutcome, EnqueueOutcome, ForkOutcome, Signal, Store, Topic,
};

/// With a turn behind it, and nobody who works on it.
async fn idle(store: &Arc<dyn Store>) -> Scene {
    let scene = Scene::created(store).await;
    scene.talk("one").await;
    scene
}

/// Idle, with these identifiers bound to it.
async fn bound(store: &Arc<dyn Store>, identifiers: &'static str) -> Scene {
    let scene = idle(store).await;
    store.enqueue(&scene.prompt("bind")).await.unwrap();
    let claim = scene.claim().await;
    let binding = AppendRequest {
        acks: vec![claim.inbox[0].id],
        bound: Some(identifiers.into()),
        release: true,
        ..scene.append(&claim.token, claim.head + 1, updates(1))
    };
    scene.write(&binding).await;
    scene
}

async fn kinds(scene: &Scene) -> Vec<CommandKind> {
    let waiting = scene.store.inbox(&scene.id, &[]).await.unwrap();
    waiting.iter().map(|queued| queued.command.kind).collect()
}

/// Nobody can do anything with it any more.
async fn is_lost(scene: &Scene) {
    let Scene { store, .. } = scene;
    let (id, creator, principal) = (&scene.id, &scene.creator, &scene.principal);
    let known = scene.request(scene.first());
    for request in [known, scene.prompt("9")] {
        assert_eq!(
            store.enqueue(&request).await.unwrap(),
            EnqueueOutcome::NotFound
        );
    }
    let load = scene.attach(creator, "9");
    assert_eq!(store.attach(&load).await.unwrap(), AttachOutcome::NotFound);
    let found = store.attachment(id, creator, principal).await.unwrap();
    assert!(found.is_none_or(|found| found.deleted), "for streams only");
    let stream = scene.stream(creator);
    let opened = store.open_stream(&stream, principal, "a").await.unwrap();
    assert_eq!(opened, None);
    let child = scene.heir();
    let fork = scene.try_fork(&scene.fork(&child)).await;
    assert_eq!(fork, ForkOutcome::NotFound);
    assert_eq!(store.record(id, principal).await.unwrap(), None);
    assert_eq!(scene.listed().await, []);
    assert!(!scene.delete().await, "it was there");
}

pub async fn nobody_finds_what_was_deleted(store: &Arc<dyn Store>) {
    let scene = idle(store).await;
    assert!(scene.delete().await);
    is_lost(&scene).await;
    // A log that is being read can be read to its end.
    assert_eq!(scene.words().await, ["one"]);
    assert_eq!(scene.head().await, 3);
}

pub async fn streams_of_a_deleted_session_learn_of_it(store: &Arc<dyn Store>) {
    let scene = idle(store).await;
    let before = scene.attachment(&scene.creator).await;
    assert!(!before.deleted);
    let mut ear = SignalProbe::on(store, &[Topic::Log(scene.log())]).await;
    assert!(scene.delete().await);
    let signal = ear.next().await;
    assert!(
        matches!(&signal, Signal::Attached(id, _) if *id == scene.id),
        "{signal:?}"
    );
    let after = scene.attachment(&scene.creator).await;
    assert!(after.deleted);
    assert_eq!((after.head, after.route), (before.head, before.route));
    let (id, creator) = (&scene.id, &scene.creator);
    let stranger = store.attachment(id, creator, "somebody else").await;
    assert_eq!(stranger.unwrap(), None);
    scene.forget().await;
    let forgotten = store.attachment(id, creator, &scene.principal).await;
    assert_eq!(forgotten.unwrap(), None);
}

pub async fn what_is_not_ones_own_cannot_be_deleted(store: &Arc<dyn Store>) {
    let (scene, stranger) = (idle(store).await, Scene::planned(store));
    assert!(!stranger.delete().await);
    let end = scene.last_command();
    let deleted = store.delete(&scene.id, &stranger.principal, &end).await;
    assert!(!deleted.unwrap());
    scene.lists_only(&scene).await;
}

pub async fn a_deleted_session_without_work_wakes_nobody(store: &Arc<dyn Store>) {
    for scene in [idle(store).await, bound(store, "{}").await] {
        let mut ear = SignalProbe::on(store, &[scene.ready()]).await;
        assert!(scene.delete().await);
        assert_eq!(kinds(&scene).await, []);
        assert!(scene.try_claim(&scene.claimant(LONG)).await.is_none());
        let next = scene.sibling().await;
        let signal = ear.next().await;
        assert!(
            matches!(&signal, Signal::Ready(id) if *id == next.id),
            "{signal:?}"
        );
    }
}

pub async fn the_holder_of_a_deleted_session_has_the_last_word(store: &Arc<dyn Store>) {
    let scene = idle(store).await;
    store.enqueue(&scene.prompt("2")).await.unwrap();
    let claimant = scene.claimant(LONG);
    let claim = scene.try_claim(&claimant).await.unwrap();
    let number = claim.inbox[0].id;
    let begun = vec![begin(number, &scene.creator, DeliveryPath::Connection)];
    scene.write(&scene.append(&claim.token, 4, begun)).await;
    let inbox = Topic::Inbox(scene.id.partition(), claimant.worker.clone());
    let mut ear = SignalProbe::on(store, &[inbox, Topic::Log(scene.log())]).await;
    assert!(scene.delete().await);
    ear.until(|signal| matches!(signal, Signal::Inbox(id) if *id == scene.id))
        .await;
    let waiting = store.inbox(&scene.id, &[number]).await.unwrap();
    assert_eq!(waiting.len(), 1);
    assert_eq!(waiting[0].command, scene.last_command());
    assert_eq!(
        store
            .renew(&[(scene.id.clone(), claim.token.clone())], LONG)
            .await
            .unwrap(),
        []
    );
    // Housekeeping waits for the last word.
    scene.forget().await;
    let words = vec![update("bye"), end(&scene.creator, DeliveryPath::Connection)];
    let last = AppendRequest {
        acks: vec![number, waiting[0].id],
        release: true,
        ..scene.append(&claim.token, 5, words)
    };
    let done = AppendOutcome::Done {
        head: 6,
        released: true,
    };
    assert_eq!(scene.write(&last).await, done);
    ear.until(|signal| matches!(signal, Signal::Frame(_, frame) if frame.last() == 6))
        .await;
    assert_eq!(scene.head().await, 6);
    assert_eq!(scene.events(5).await.len(), 2);
    is_lost(&scene).await;
    scene.forget().await;
    assert_eq!((scene.head().await, scene.events(1).await.len()), (0, 0));
}

pub async fn a_deleted_session_that_waits_is_brought_to_an_end(store: &Arc<dyn Store>) {
    let scene = idle(store).await;
    store.enqueue(&scene.prompt("2")).await.unwrap();
    assert!(scene.delete().await);
    assert_eq!(
        kinds(&scene).await,
        [CommandKind::Prompt, CommandKind::Delete]
    );
    scene.forget().await;
    let claimant = scene.claimant(LONG);
    let claimed = scene.try_claim_any(&claimant).await;
    assert_eq!(claimed, Some(scene.id.clone()));
    scene.finish(&claimant.token).await;
    scene.forget().await;
    assert_eq!(scene.head().await, 0);
}

pub async fn what_is_bound_to_a_deleted_session_can_be_released(store: &Arc<dyn Store>) {
    let scene = bound(store, "{\"sandbox\":\"7\"}").await;
    let mut ear = SignalProbe::on(store, &[scene.ready()]).await;
    assert!(scene.delete().await);
    let signal = ear.next().await;
    assert!(
        matches!(&signal, Signal::Ready(id) if *id == scene.id),
        "{signal:?}"
    );
    let claim = scene.claim().await;
    assert_eq!(claim.bound, "{\"sandbox\":\"7\"}");
    assert_eq!(claim.inbox.len(), 1);
    assert_eq!(claim.inbox[0].command, scene.last_command());
    scene.finish(&claim.token).await;
    scene.forget().await;
    assert_eq!(scene.head().await, 0);
}

pub async fn what_is_bound_to_an_expired_session_can_be_released(store: &Arc<dyn Store>) {
    let scene = bound(store, "{\"sandbox\":\"7\"}").await;
    let mut ear = SignalProbe::on(store, &[scene.ready()]).await;
    scene.forget().await;
    ear.until(|signal| matches!(signal, Signal::Ready(id) if *id == scene.id))
        .await;
    is_lost(&scene).await;
    let claim = scene.claim().await;
    assert_eq!((claim.head, claim.inbox.len()), (4, 1));
    let end = &claim.inbox[0].command;
    assert_eq!((end.kind, &end.request), (CommandKind::Delete, &None));
    assert_eq!(end.connection, scene.creator);
    scene.finish(&claim.token).await;
    scene.forget().await;
    assert_eq!((scene.head().await, scene.events(1).await.len()), (0, 0));
}
