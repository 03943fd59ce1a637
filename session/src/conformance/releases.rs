//! Giving a session up, with the last append or without one.

use std::sync::Arc;

use super::scene::{LONG, Scene, SignalProbe, updates};
use crate::store::{AppendOutcome, AppendRequest, ClaimToken, Signal, Store};

pub async fn an_append_gives_up_only_what_has_no_work(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    store.enqueue(&scene.prompt("1")).await.unwrap();
    let token = scene.claim().await.token;
    let first = AppendRequest {
        acks: scene.named(&[1]).await,
        release: true,
        ..scene.append(&token, 1, updates(1))
    };
    assert_eq!(
        scene.write(&first).await,
        AppendOutcome::Done {
            head: 1,
            released: false
        }
    );
    assert!(
        scene.try_claim(&scene.claimant(LONG)).await.is_none(),
        "it is still held"
    );
    let last = AppendRequest {
        acks: scene.named(&[2]).await,
        release: true,
        ..scene.append(&token, 2, updates(1))
    };
    assert_eq!(
        scene.write(&last).await,
        AppendOutcome::Done {
            head: 2,
            released: true
        }
    );
    let more = scene.append(&token, 3, updates(1));
    assert_eq!(
        scene.write(&more).await,
        AppendOutcome::Fenced,
        "it is given up"
    );
}

pub async fn a_releasing_append_can_be_repeated(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let token = scene.claim().await.token;
    let last = AppendRequest {
        acks: scene.named(&[1]).await,
        release: true,
        ..scene.append(&token, 1, updates(2))
    };
    let released = |head| AppendOutcome::Done {
        head,
        released: true,
    };
    assert_eq!(scene.write(&last).await, released(2));
    assert_eq!(scene.write(&last).await, released(2));
    // Also when somebody else has gone on meanwhile.
    store.enqueue(&scene.prompt("1")).await.unwrap();
    let next = scene.claim().await;
    scene.write(&scene.append(&next.token, 3, updates(1))).await;
    assert_eq!(scene.write(&last).await, released(3));
    assert_eq!(scene.head().await, 3);
    let done = AppendOutcome::Done {
        head: 4,
        released: false,
    };
    assert_eq!(
        scene.write(&scene.append(&next.token, 4, updates(1))).await,
        done
    );
}

pub async fn a_releasing_append_without_events_can_be_repeated(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let token = scene.claim().await.token;
    let last = AppendRequest {
        acks: scene.named(&[1]).await,
        release: true,
        ..scene.append(&token, 1, Vec::new())
    };
    let released = AppendOutcome::Done {
        head: 0,
        released: true,
    };
    assert_eq!(scene.write(&last).await, released);
    assert_eq!(scene.write(&last).await, released);
}

pub async fn a_released_session_goes_on_elsewhere_at_once(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let token = scene.claim().await.token;
    let written = scene.append(&token, 1, updates(1));
    scene.write(&written).await;
    let mut ear = SignalProbe::on(store, &[scene.ready()]).await;
    store.release(&scene.id, &token).await.unwrap();
    let signal = ear.next().await;
    assert!(
        matches!(&signal, Signal::Ready(id) if *id == scene.id),
        "{signal:?}"
    );
    // The last append's reply may still be on its way, but nothing new is written.
    assert_eq!(
        scene.write(&written).await,
        AppendOutcome::Done {
            head: 1,
            released: true
        }
    );
    assert_eq!(
        scene.write(&scene.append(&token, 2, updates(1))).await,
        AppendOutcome::Fenced
    );
    assert_eq!(
        scene.try_claim_any(&scene.claimant(LONG)).await,
        Some(scene.id.clone())
    );
    store.release(&scene.id, &token).await.unwrap();
    assert!(
        scene.try_claim(&scene.claimant(LONG)).await.is_none(),
        "it was not ours to release"
    );
}

pub async fn only_the_holder_releases(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    scene.claim().await;
    store
        .release(&scene.id, &ClaimToken::random())
        .await
        .unwrap();
    assert!(scene.try_claim(&scene.claimant(LONG)).await.is_none());
    store
        .release(&Scene::planned(store).id, &ClaimToken::random())
        .await
        .unwrap();
}

pub async fn releasing_without_work_wakes_nobody(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let token = scene.claim().await.token;
    scene
        .write(&AppendRequest {
            acks: scene.named(&[1]).await,
            ..scene.append(&token, 1, Vec::new())
        })
        .await;
    let mut ear = SignalProbe::on(store, &[scene.ready()]).await;
    store.release(&scene.id, &token).await.unwrap();
    let next = scene.sibling().await;
    let signal = ear.next().await;
    assert!(
        matches!(&signal, Signal::Ready(id) if *id == next.id),
        "{signal:?}"
    );
    assert!(scene.try_claim(&scene.claimant(LONG)).await.is_none());
}
