//! Whole walks through the store, as gateways and workers take them.

use std::sync::Arc;

use bytes::Bytes;

use super::scene::{LONG, OVER, Scene, begin, end, enqueued, update};
use crate::route::DeliveryPath;
use crate::store::{AppendOutcome, AppendRequest, Store};

pub async fn a_prompt_goes_in_and_its_answer_comes_out_once(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let creator = &scene.creator;
    scene.finish(&scene.claim().await.token).await;
    let prompt = scene.prompt("1");
    let accepted = enqueued(store.enqueue(&prompt).await.unwrap());
    assert_eq!(accepted, ("accepted", 2, 0, DeliveryPath::Connection));

    let claim = scene.claim().await;
    let queued = &claim.inbox[0];
    let start = vec![begin(queued.id, creator, queued.via), update("thinking")];
    scene
        .write(&scene.append(&claim.token, claim.head + 1, start))
        .await;
    let last = AppendRequest {
        acks: vec![queued.id],
        state: Some(Bytes::from_static(b"remember")),
        release: true,
        ..scene.append(&claim.token, 3, vec![end(creator, queued.via)])
    };
    let done = AppendOutcome::Done {
        head: 3,
        released: true,
    };
    assert_eq!(scene.write(&last).await, done);
    assert_eq!(scene.write(&last).await, done);

    let joined = enqueued(store.enqueue(&prompt).await.unwrap());
    assert_eq!(joined, ("joined", 2, 0, DeliveryPath::Connection));
    assert!(
        scene.try_claim(&scene.claimant(LONG)).await.is_none(),
        "a repetition is no new work"
    );
    let frames = store.read(&scene.log(), 1, 10).await.unwrap();
    assert_eq!(
        frames
            .iter()
            .map(|frame| (frame.first, frame.last()))
            .collect::<Vec<_>>(),
        [(1, 2), (3, 3)]
    );
}

pub async fn a_turn_survives_the_worker_that_ran_it(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let creator = &scene.creator;
    let vanished = scene.claimant(OVER);
    scene.try_claim(&vanished).await.unwrap();
    let start = vec![begin(1, creator, DeliveryPath::Connection), update("half")];
    scene.write(&scene.append(&vanished.token, 1, start)).await;

    let claim = scene.claim().await;
    let running = claim.running.expect("the turn goes on");
    assert_eq!(
        (running.command, running.began, claim.head),
        (1.into(), 1, 2)
    );
    // The vanished one comes back with its last words, too late.
    let words = vec![update("other half"), end(creator, DeliveryPath::Connection)];
    let late = AppendRequest {
        acks: scene.named(&[1]).await,
        release: true,
        ..scene.append(&vanished.token, 3, words.clone())
    };
    assert_eq!(scene.write(&late).await, AppendOutcome::Fenced);
    let last = AppendRequest {
        acks: scene.named(&[1]).await,
        release: true,
        ..scene.append(&claim.token, 3, words)
    };
    assert_eq!(
        scene.write(&last).await,
        AppendOutcome::Done {
            head: 4,
            released: true
        }
    );
    assert_eq!(store.read(&scene.log(), 1, 10).await.unwrap().len(), 2);
}
