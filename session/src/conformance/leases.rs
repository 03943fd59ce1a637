//! Leases: how long a claim holds, and what happens when its holder vanishes.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::scene::{Ear, LONG, OVER, Scene, begin, end, updates};
use crate::route::Via;
use crate::store::{Append, Appended, Claim, Running, Signal, Store, Topic};

/// Tries until the lease of the last holder has run out.
async fn take_over(scene: &Scene) -> Claim {
    let claimant = scene.claimant(LONG);
    let taken = async {
        loop {
            match scene.try_claim(&claimant).await {
                Some(claim) => return claim,
                None => sleep(Duration::from_millis(10)).await,
            }
        }
    };
    timeout(Duration::from_secs(20), taken)
        .await
        .expect("the lease ends")
}

pub async fn a_lease_that_ran_out_is_taken_over(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let old = scene.claimant(Duration::from_millis(150));
    scene.try_claim(&old).await.unwrap();
    scene.write(&scene.append(&old.token, 1, updates(2))).await;
    let new = take_over(&scene).await;
    assert_eq!((new.head, new.inbox.len()), (2, 1));
    assert_eq!(
        scene.write(&scene.append(&old.token, 3, updates(1))).await,
        Appended::Fenced
    );
    // What the old holder wrote is there, but it is not the one to be told so.
    assert_eq!(
        scene.write(&scene.append(&old.token, 1, updates(2))).await,
        Appended::Fenced
    );
    let done = Appended::Done {
        head: 3,
        released: false,
    };
    assert_eq!(
        scene.write(&scene.append(&new.token, 3, updates(1))).await,
        done
    );
}

pub async fn a_running_turn_is_handed_over(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    store.enqueue(&scene.prompt("1")).await.unwrap();
    let old = scene.claimant(OVER);
    scene.try_claim(&old).await.unwrap();
    let mut events = updates(1);
    events.push(begin(2, &scene.creator, Via::Connection));
    events.extend(updates(1));
    scene
        .write(&Append {
            acks: vec![1],
            ..scene.append(&old.token, 1, events)
        })
        .await;
    let next = scene.claimant(OVER);
    let running = Some(Running {
        command: 2,
        began: 2,
    });
    assert_eq!(scene.try_claim(&next).await.unwrap().running, running);
    // And again, should that one vanish too.
    assert_eq!(scene.claim().await.running, running);
}

pub async fn only_holders_that_vanished_in_a_row_are_counted(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    store.enqueue(&scene.prompt("1")).await.unwrap();
    let first = scene.claimant(OVER);
    assert_eq!(scene.try_claim(&first).await.unwrap().stalls, 0);
    let second = scene.claimant(OVER);
    assert_eq!(scene.try_claim(&second).await.unwrap().stalls, 1);
    // The same claim again is no new one.
    assert_eq!(scene.try_claim(&second).await.unwrap().stalls, 1);
    let third = scene.claimant(OVER);
    assert_eq!(scene.try_claim(&third).await.unwrap().stalls, 2);
    // It goes on: that is no work which kills whoever takes it.
    scene
        .write(&scene.append(&third.token, 1, updates(1)))
        .await;
    let fourth = scene.claimant(LONG);
    assert_eq!(scene.try_claim(&fourth).await.unwrap().stalls, 1);
    // Nor is what was handed over.
    store.release(&scene.id, &fourth.token).await.unwrap();
    let fifth = scene.claim().await;
    assert_eq!(fifth.stalls, 1);
    scene
        .write(&scene.append(&fifth.token, 2, updates(1)))
        .await;
    store.release(&scene.id, &fifth.token).await.unwrap();
    assert_eq!(scene.claim().await.stalls, 0);
}

pub async fn a_finished_turn_is_not_handed_over(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let old = scene.claimant(OVER);
    scene.try_claim(&old).await.unwrap();
    let turn = vec![begin(1, &scene.creator, Via::Connection)];
    scene.write(&scene.append(&old.token, 1, turn)).await;
    scene
        .write(&scene.append(&old.token, 2, vec![end(&scene.creator, Via::Connection)]))
        .await;
    assert_eq!(scene.claim().await.running, None);
}

pub async fn any_finds_what_ran_out_and_what_waits(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    scene.try_claim(&scene.claimant(OVER)).await.unwrap();
    let waiting = scene.sibling().await;
    let mut found = Vec::new();
    for _ in 0..3 {
        found.extend(scene.try_claim_any(&scene.claimant(LONG)).await);
    }
    // Within the same millisecond, either may come first.
    found.sort();
    let mut expected = [scene.id, waiting.id];
    expected.sort();
    assert_eq!(found, expected);
}

pub async fn a_lease_that_ran_out_is_found_without_any_command(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let old = scene.claimant(OVER);
    scene.try_claim(&old).await.unwrap();
    scene
        .write(&Append {
            acks: vec![1],
            ..scene.append(&old.token, 1, Vec::new())
        })
        .await;
    assert_eq!(
        scene.try_claim_any(&scene.claimant(LONG)).await,
        Some(scene.id.clone())
    );
}

pub async fn nobody_else_came_so_the_holder_goes_on(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let late = scene.claimant(OVER);
    scene.try_claim(&late).await.unwrap();
    let done = Appended::Done {
        head: 1,
        released: false,
    };
    assert_eq!(
        scene.write(&scene.append(&late.token, 1, updates(1))).await,
        done
    );
    let lost = store
        .renew(&[(scene.id.clone(), late.token.clone())], LONG)
        .await
        .unwrap();
    assert!(lost.is_empty());
    assert!(scene.try_claim(&scene.claimant(LONG)).await.is_none());
    assert_eq!(scene.try_claim_any(&scene.claimant(LONG)).await, None);
}

pub async fn renewing_reports_what_was_lost(store: &Arc<dyn Store>) {
    let kept = Scene::created(store).await;
    let lost = Scene::created(store).await;
    let released = Scene::created(store).await;
    let unknown = Scene::planned(store);
    let token = kept.claim().await.token;
    let old = lost.claimant(OVER);
    lost.try_claim(&old).await.unwrap();
    lost.claim().await;
    let given_up = released.claim().await.token;
    released.finish(&given_up).await;
    let claims = [
        (lost.id.clone(), old.token.clone()),
        (kept.id.clone(), token.clone()),
        (released.id.clone(), given_up),
        (unknown.id.clone(), old.token),
    ];
    let mut reported = store.renew(&claims, LONG).await.unwrap();
    let mut expected = vec![lost.id, released.id, unknown.id];
    reported.sort();
    expected.sort();
    assert_eq!(reported, expected);
    assert!(store.renew(&[], LONG).await.unwrap().is_empty());
}

pub async fn a_renewed_lease_hides_nobody_who_waits(store: &Arc<dyn Store>) {
    let held = Scene::created(store).await;
    let holder = held.claimant(OVER);
    held.try_claim(&holder).await.unwrap();
    // The lease is over when the command comes, so the session queues for a worker; then its holder
    // turns up after all.
    store.enqueue(&held.prompt("1")).await.unwrap();
    store
        .renew(&[(held.id.clone(), holder.token)], LONG)
        .await
        .unwrap();
    sleep(Duration::from_millis(5)).await;
    let waiting = held.sibling().await;
    let mut found = Vec::new();
    for _ in 0..2 {
        found.extend(held.try_claim_any(&held.claimant(LONG)).await);
    }
    assert_eq!(found, [waiting.id]);
}

pub async fn a_late_renewal_tells_the_holder_what_it_missed(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let late = scene.claimant(OVER);
    scene.try_claim(&late).await.unwrap();
    store.enqueue(&scene.prompt("1")).await.unwrap();
    let mut ear = Ear::on(
        store,
        &[Topic::Inbox(scene.id.partition(), late.worker.clone())],
    )
    .await;
    store
        .renew(&[(scene.id.clone(), late.token)], LONG)
        .await
        .unwrap();
    let signal = ear.next().await;
    assert!(
        matches!(&signal, Signal::Inbox(id) if *id == scene.id),
        "{signal:?}"
    );
}
