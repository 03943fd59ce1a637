//! Storage: how many bytes are kept for a principal.

use std::sync::Arc;

use super::scene::{CWD, EVERYTHING_THAT_RESTS, LONG, OVER, Scene, begin, said, update};
use crate::route::DeliveryPath;
use crate::store::{
    ALIVE, AdoptRequest, AgentCard, AppendOutcome, AppendRequest, ForkOutcome, SessionRecord, Store,
};

const LARGE: usize = 10_000;

/// A session of an agent that is known, with nothing to do.
async fn idle(store: &Arc<dyn Store>) -> Scene {
    let scene = Scene::planned(store);
    let card = AgentCard {
        name: scene.agent.clone(),
        version: "1".into(),
        initialize: serde_json::json!({}),
    };
    let worker = scene.claimant(OVER).worker;
    store.register(&card, &worker, ALIVE).await.unwrap();
    scene.create().await;
    scene.finish(&scene.claim().await.token).await;
    scene
}

async fn stored(scene: &Scene) -> usize {
    let usage = scene.store.usage(&scene.principal, 1000).await.unwrap();
    usage.stored as usize
}

fn large() -> String {
    "x".repeat(LARGE)
}

/// Somebody listens to it, so that it is not forgotten with others.
async fn stays(scene: &Scene) {
    scene.open_stream(&scene.creator, "reader").await;
}

/// It is deleted, and nothing is left of it.
async fn removed(scene: &Scene) {
    assert!(scene.delete().await);
    scene.forget().await;
}

pub async fn what_a_session_keeps_is_counted_and_given_back(store: &Arc<dyn Store>) {
    let first = idle(store).await;
    let small = stored(&first).await;
    assert!((1..LARGE).contains(&small), "{small} bytes");
    // Words, what the agent knows and what it shows.
    first.talk(&large()).await;
    let one = stored(&first).await;
    assert!(
        (small + 3 * LARGE..small + 4 * LARGE).contains(&one),
        "{one} bytes"
    );
    // The words add up; what the agent knows is replaced.
    first.talk(&large()).await;
    let two = stored(&first).await;
    assert!((one + LARGE..one + 2 * LARGE).contains(&two), "{two} bytes");
    let other = first.another().await;
    other.finish(&other.claim().await.token).await;
    other.talk(&large()).await;
    assert!(stored(&first).await > two + 3 * LARGE);
    stays(&first).await;
    removed(&other).await;
    // It may have become smaller meanwhile.
    let left = stored(&first).await;
    assert!((2 * LARGE..=two).contains(&left), "{left} bytes");
    removed(&first).await;
    assert_eq!(stored(&first).await, 0);
    for _ in 0..3 {
        let next = first.another().await;
        next.finish(&next.claim().await.token).await;
        next.talk(&large()).await;
        assert_eq!(stored(&next).await, one);
        removed(&next).await;
        assert_eq!(stored(&next).await, 0);
    }
    let stranger = store.usage("nobody", 1000).await.unwrap();
    assert_eq!(stranger.stored, 0);
}

pub async fn a_step_that_is_repeated_counts_once(store: &Arc<dyn Store>) {
    let scene = idle(store).await;
    let small = stored(&scene).await;
    scene.create().await;
    store.enqueue(&scene.prompt("1")).await.unwrap();
    let claim = scene.claim().await;
    let words = scene.append(&claim.token, 1, vec![update(&large())]);
    let over = AppendRequest {
        acks: claim.inbox.iter().map(|queued| queued.id).collect(),
        title: Some("t".repeat(1000)),
        release: true,
        ..scene.append(&claim.token, 2, vec![update(&large())])
    };
    let mut counted = Vec::new();
    for _ in 0..3 {
        scene.write(&words).await;
        let outcome = scene.write(&over).await;
        assert!(matches!(outcome, AppendOutcome::Done { .. }), "{outcome:?}");
        store.release(&scene.id, &claim.token).await.unwrap();
        counted.push(stored(&scene).await);
    }
    let whole = small + 2 * LARGE + 1000;
    assert!((whole..whole + 1000).contains(&counted[0]), "{counted:?}");
    assert_eq!(counted, [counted[0]; 3]);
    assert!(scene.delete().await);
    assert!(!scene.delete().await);
    for _ in 0..2 {
        scene.forget().await;
        assert_eq!(stored(&scene).await, 0);
    }
}

pub async fn what_rests_counts_as_what_is_left_of_it(store: &Arc<dyn Store>) {
    let scene = idle(store).await;
    for _ in 0..5 {
        scene.talk(&large()).await;
    }
    let before = stored(&scene).await;
    for _ in 0..2 {
        scene.tidy(&EVERYTHING_THAT_RESTS).await;
        let after = stored(&scene).await;
        assert!((1..=before).contains(&after), "{after} of {before} bytes");
    }
    // It goes on, and is counted on.
    let rests = stored(&scene).await;
    scene.talk(&large()).await;
    let more = stored(&scene).await;
    assert!(
        (rests + LARGE..rests + 2 * LARGE).contains(&more),
        "{more} bytes"
    );
    scene.tidy(&EVERYTHING_THAT_RESTS).await;
    removed(&scene).await;
    assert_eq!(stored(&scene).await, 0);
}

pub async fn what_waits_and_a_running_turn_count(store: &Arc<dyn Store>) {
    let scene = idle(store).await;
    let small = stored(&scene).await;
    let mut prompt = scene.prompt("1");
    prompt.command.message = large().into();
    store.enqueue(&prompt).await.unwrap();
    let waits = stored(&scene).await;
    assert!(
        (small + LARGE..small + 2 * LARGE).contains(&waits),
        "{waits} bytes"
    );
    let claim = scene.claim().await;
    let begun = vec![begin(
        claim.inbox[0].id,
        &scene.creator,
        DeliveryPath::Connection,
    )];
    scene.write(&scene.append(&claim.token, 1, begun)).await;
    for number in 2..=4 {
        let words = vec![update(&large())];
        scene
            .write(&scene.append(&claim.token, number, words))
            .await;
    }
    let runs = stored(&scene).await;
    assert!(runs >= 4 * LARGE, "{runs} bytes");
    scene.finish(&claim.token).await;
    let over = stored(&scene).await;
    assert!((3 * LARGE..4 * LARGE).contains(&over), "{over} bytes");
    removed(&scene).await;
    assert_eq!(stored(&scene).await, 0);
}

pub async fn a_fork_counts_without_what_it_shares(store: &Arc<dyn Store>) {
    let parent = idle(store).await;
    parent.talk(&large()).await;
    parent.talk("small").await;
    let alone = stored(&parent).await;
    let heir = parent.heir();
    for _ in 0..2 {
        let forked = parent.try_fork(&parent.fork(&heir)).await;
        assert!(matches!(forked, ForkOutcome::Done { .. }), "{forked:?}");
    }
    let both = stored(&parent).await;
    assert!((alone + 1..alone + LARGE).contains(&both), "{both} bytes");
    heir.talk(&large()).await;
    assert!(stored(&parent).await >= both + LARGE);
    stays(&parent).await;
    removed(&heir).await;
    let left = stored(&parent).await;
    assert!((1..=alone).contains(&left), "{left} of {alone} bytes");
    removed(&parent).await;
    assert_eq!(stored(&parent).await, 0);
}

pub async fn what_forks_share_counts_until_nobody_needs_it(store: &Arc<dyn Store>) {
    let parent = idle(store).await;
    parent.talk(&large()).await;
    parent.talk("small").await;
    let child = parent.forked().await;
    child.talk(&large()).await;
    child.talk("small").await;
    let grandchild = child.forked().await;
    let all = stored(&parent).await;
    stays(&child).await;
    stays(&grandchild).await;
    for gone in [&parent, &child] {
        removed(gone).await;
        let left = stored(&parent).await;
        assert!((2 * LARGE..=all).contains(&left), "{left} of {all} bytes");
    }
    removed(&grandchild).await;
    assert_eq!(stored(&parent).await, 0);
}

pub async fn a_session_from_elsewhere_counts_once_it_is_there(store: &Arc<dyn Store>) {
    let scene = Scene::planned(store);
    let adoption = AdoptRequest {
        id: scene.id.clone(),
        principal: scene.principal.clone(),
        record: SessionRecord {
            agent: scene.agent.clone(),
            cwd: CWD.into(),
            state: large().into(),
            view: large().into(),
            updated: 1_700_000_000_000,
            ..SessionRecord::default()
        },
        shares: None,
    };
    let claimant = scene.claimant(LONG);
    for _ in 0..2 {
        assert!(store.adopt(&adoption, &claimant).await.unwrap());
    }
    let events = vec![said(&scene.id, &large())];
    scene.write(&scene.append(&claimant.token, 1, events)).await;
    let mut counted = Vec::new();
    for _ in 0..2 {
        assert!(store.publish(&scene.id, &claimant.token).await.unwrap());
        counted.push(stored(&scene).await);
    }
    assert!((3 * LARGE..4 * LARGE).contains(&counted[0]), "{counted:?}");
    assert_eq!(counted[0], counted[1]);
    removed(&scene).await;
    assert_eq!(stored(&scene).await, 0);
}

pub async fn what_nobody_uses_is_given_back(store: &Arc<dyn Store>) {
    let scene = idle(store).await;
    scene.talk(&large()).await;
    let child = scene.forked().await;
    child.talk(&large()).await;
    scene.tidy(&EVERYTHING_THAT_RESTS).await;
    scene.forget().await;
    assert_eq!(stored(&scene).await, 0);
}
