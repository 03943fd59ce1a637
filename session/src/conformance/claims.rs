//! Which worker gets a waiting session.

use std::sync::Arc;

use futures_util::future::join_all;

use super::scene::{CWD, LONG, Scene};
use crate::store::{AppendRequest, Claimant, EnqueueOutcome, Store};

pub async fn a_claim_brings_all_that_a_worker_needs(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    store.enqueue(&scene.prompt("1")).await.unwrap();
    let claimant = scene.claimant(LONG);
    let claim = scene.try_claim(&claimant).await.unwrap();
    assert_eq!((&claim.session, &claim.token), (&scene.id, &claimant.token));
    assert_eq!((claim.head, claim.running), (0, None));
    assert_eq!(
        (claim.cwd.as_str(), &claim.params),
        (CWD, &scene.new_session().params)
    );
    assert!(claim.state.is_empty());
    assert_eq!(claim.inbox, store.inbox(&scene.id, &[]).await.unwrap());
    assert_eq!(claim.inbox.len(), 2);
}

pub async fn a_claim_is_exclusive(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let claimants: Vec<Claimant> = (0..8).map(|_| scene.claimant(LONG)).collect();
    let claims = join_all(claimants.iter().map(|claimant| scene.try_claim(claimant))).await;
    assert_eq!(claims.iter().flatten().count(), 1);
    assert!(scene.try_claim(&scene.claimant(LONG)).await.is_none());
    assert_eq!(scene.try_claim_any(&scene.claimant(LONG)).await, None);
}

pub async fn a_repeated_claim_succeeds_again(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let claimant = scene.claimant(LONG);
    let first = scene.try_claim(&claimant).await.unwrap();
    let again = scene
        .try_claim(&claimant)
        .await
        .expect("the reply was lost, not the claim");
    assert_eq!((again.token, again.inbox), (first.token, first.inbox));
    // Even when everything has been acknowledged in between.
    let acks = AppendRequest {
        acks: scene.named(&[1]).await,
        ..scene.append(&claimant.token, 1, Vec::new())
    };
    scene.write(&acks).await;
    assert!(scene.try_claim(&claimant).await.unwrap().inbox.is_empty());
}

pub async fn nothing_to_do_is_nothing_to_claim(store: &Arc<dyn Store>) {
    assert!(
        Scene::planned(store)
            .try_claim(&Scene::planned(store).claimant(LONG))
            .await
            .is_none()
    );
    let scene = Scene::created(store).await;
    scene.finish(&scene.claim().await.token).await;
    assert!(scene.try_claim(&scene.claimant(LONG)).await.is_none());
    assert_eq!(scene.try_claim_any(&scene.claimant(LONG)).await, None);
    // A command makes it worth claiming.
    store.enqueue(&scene.prompt("1")).await.unwrap();
    assert_eq!(scene.claim().await.inbox.len(), 1);
}

pub async fn another_agents_session_is_out_of_reach(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let stranger = Claimant {
        agent: "another agent".into(),
        ..scene.claimant(LONG)
    };
    assert!(scene.try_claim(&stranger).await.is_none());
    assert_eq!(scene.try_claim_any(&stranger).await, None);
    assert_eq!(
        scene.try_claim_any(&scene.claimant(LONG)).await,
        Some(scene.id.clone())
    );
}

pub async fn any_takes_the_longest_waiting(store: &Arc<dyn Store>) {
    let first = Scene::created(store).await;
    // The order is by milliseconds.
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    let second = first.sibling().await;
    // Another command doesn't send the first to the end of the queue.
    let outcome = store.enqueue(&first.prompt("1")).await.unwrap();
    assert!(matches!(outcome, EnqueueOutcome::Accepted { .. }));
    assert_eq!(
        first.try_claim_any(&first.claimant(LONG)).await,
        Some(first.id.clone())
    );
    assert_eq!(
        first.try_claim_any(&first.claimant(LONG)).await,
        Some(second.id.clone())
    );
    assert_eq!(first.try_claim_any(&first.claimant(LONG)).await, None);
}

pub async fn any_passes_over_what_was_claimed_by_name(store: &Arc<dyn Store>) {
    let first = Scene::created(store).await;
    let second = first.sibling().await;
    first.claim().await;
    assert_eq!(
        first.try_claim_any(&first.claimant(LONG)).await,
        Some(second.id.clone())
    );
}
