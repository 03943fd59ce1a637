//! Usage: how much a principal has.

use std::sync::Arc;

use super::scene::{OVER, Scene};
use crate::command::CommandKind;
use crate::store::{
    ALIVE, AgentCard, EnqueueOutcome, EnqueueRequest, InboxAdmission, PrincipalUsage, Store,
};

/// More than any case makes.
const MANY: u64 = 1000;

/// A session of an agent that is known.
async fn created(store: &Arc<dyn Store>) -> Scene {
    let scene = Scene::planned(store);
    let card = AgentCard {
        name: scene.agent.clone(),
        version: "1".into(),
        initialize: serde_json::json!({}),
    };
    let worker = scene.claimant(OVER).worker;
    store.register(&card, &worker, ALIVE).await.unwrap();
    scene.create().await;
    scene
}

async fn counts(scene: &Scene) -> (u64, u64) {
    let usage = scene.store.usage(&scene.principal, MANY).await.unwrap();
    (usage.sessions, usage.turns)
}

pub async fn sessions_count_as_long_as_they_are_there(store: &Arc<dyn Store>) {
    let one = created(store).await;
    let others = [one.another().await, one.another().await];
    assert_eq!(counts(&one).await.0, 3);
    assert!(others[0].delete().await);
    assert_eq!(counts(&one).await.0, 2);
    let stranger = store.usage("nobody", MANY).await.unwrap();
    assert_eq!(stranger, PrincipalUsage::default());
    let most = store.usage(&one.principal, 1).await.unwrap().sessions;
    assert!((1..=2).contains(&most));
}

pub async fn a_turn_counts_from_its_prompt_to_its_end(store: &Arc<dyn Store>) {
    let one = created(store).await;
    let other = one.another().await;
    // Both wait for the answer to their first command.
    assert_eq!(counts(&one).await, (2, 2));
    one.finish(&one.claim().await.token).await;
    assert_eq!(counts(&one).await, (2, 1));
    let token = other.claim().await.token;
    assert_eq!(counts(&one).await, (2, 1));
    other.finish(&token).await;
    assert_eq!(counts(&one).await, (2, 0));
    // However much waits in a session, it works on one thing at a time.
    store.enqueue(&one.prompt("1")).await.unwrap();
    store.enqueue(&one.prompt("2")).await.unwrap();
    assert_eq!(counts(&one).await, (2, 1));
    // Nobody goes on with it, and yet it is not over.
    one.try_claim(&one.claimant(OVER)).await.unwrap();
    store.enqueue(&one.prompt("3")).await.unwrap();
    assert_eq!(counts(&one).await, (2, 1));
    assert!(one.delete().await);
    assert_eq!(counts(&one).await, (1, 0));
}

pub async fn a_caller_at_its_limit_adds_only_to_what_works(store: &Arc<dyn Store>) {
    let scene = created(store).await;
    let asks = |request: &str, takes| EnqueueRequest {
        takes,
        ..scene.prompt(request)
    };
    let accepted = |outcome: &EnqueueOutcome| matches!(outcome, EnqueueOutcome::Accepted { .. });
    let waits = store
        .enqueue(&asks("1", InboxAdmission::MoreWork))
        .await
        .unwrap();
    assert!(accepted(&waits), "{waits:?}");
    let token = scene.claim().await.token;
    let held = store
        .enqueue(&asks("2", InboxAdmission::MoreWork))
        .await
        .unwrap();
    assert!(accepted(&held), "{held:?}");
    scene.finish(&token).await;
    let rests = store
        .enqueue(&asks("3", InboxAdmission::MoreWork))
        .await
        .unwrap();
    assert_eq!(rests, EnqueueOutcome::Barred);
    // Admitted work stays admitted.
    let again = store
        .enqueue(&asks("2", InboxAdmission::MoreWork))
        .await
        .unwrap();
    assert!(matches!(again, EnqueueOutcome::Joined { .. }), "{again:?}");
    assert_eq!(counts(&scene).await, (1, 0));
}

pub async fn only_repetitions_are_taken_of_a_caller_that_hurries(store: &Arc<dyn Store>) {
    let scene = created(store).await;
    let asks = |request: &str| EnqueueRequest {
        takes: InboxAdmission::Repetitions,
        ..scene.prompt(request)
    };
    assert_eq!(
        store.enqueue(&asks("1")).await.unwrap(),
        EnqueueOutcome::Barred
    );
    store.enqueue(&scene.prompt("1")).await.unwrap();
    let again = store.enqueue(&asks("1")).await.unwrap();
    assert!(matches!(again, EnqueueOutcome::Joined { .. }), "{again:?}");
    let mut other = asks("1");
    other.command = scene.command(CommandKind::Prompt, Some("other"));
    other.key.fingerprint = "0".into();
    assert_eq!(
        store.enqueue(&other).await.unwrap(),
        EnqueueOutcome::Conflict
    );
    assert_eq!(store.inbox(&scene.id, &[]).await.unwrap().len(), 2);
}

pub async fn a_session_that_only_rests_at_its_worker_is_no_turn(store: &Arc<dyn Store>) {
    let one = created(store).await;
    let claim = one.claim().await;
    let mut done = one.append(&claim.token, 1, Vec::new());
    done.acks = claim.inbox.iter().map(|queued| queued.id).collect();
    one.write(&done).await;
    assert_eq!(counts(&one).await, (1, 0));
    store.enqueue(&one.prompt("1")).await.unwrap();
    assert_eq!(counts(&one).await, (1, 1));
}
