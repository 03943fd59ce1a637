//! Leases: how long a claim holds, and what happens when its holder vanishes.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::scene::{LONG, OVER, Scene, SignalProbe, begin, end, updates};
use crate::event::Event;
use crate::route::DeliveryPath;
use crate::store::{
    AppendOutcome, AppendRequest, Claim, Claimant, RunningTurn, Signal, Store, Topic,
    VanishedHolders,
};

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
        AppendOutcome::Fenced
    );
    // The old holder's frame is there, but its repeated append is refused.
    assert_eq!(
        scene.write(&scene.append(&old.token, 1, updates(2))).await,
        AppendOutcome::Fenced
    );
    let done = AppendOutcome::Done {
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
    events.push(begin(2, &scene.creator, DeliveryPath::Connection));
    events.extend(updates(1));
    scene
        .write(&AppendRequest {
            acks: scene.named(&[1]).await,
            ..scene.append(&old.token, 1, events)
        })
        .await;
    let next = scene.claimant(OVER);
    let running = Some(RunningTurn {
        command: 2.into(),
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
    assert_eq!(scene.try_claim(&first).await.unwrap().vanished.at_once, 0);
    let second = scene.claimant(OVER);
    assert_eq!(scene.try_claim(&second).await.unwrap().vanished.at_once, 1);
    // The same claim again is no new one.
    assert_eq!(scene.try_claim(&second).await.unwrap().vanished.at_once, 1);
    let third = scene.claimant(OVER);
    assert_eq!(scene.try_claim(&third).await.unwrap().vanished.at_once, 2);
    // It goes on: that is no work which kills whoever takes it.
    scene
        .write(&scene.append(&third.token, 1, updates(1)))
        .await;
    let fourth = scene.claimant(LONG);
    assert_eq!(scene.try_claim(&fourth).await.unwrap().vanished.at_once, 1);
    // Nor is what was handed over.
    store.release(&scene.id, &fourth.token).await.unwrap();
    assert_eq!(scene.claim().await.vanished, VanishedHolders::default());
}

pub async fn a_renewal_proves_that_a_holder_lived(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    for working in 0..4 {
        let claimant = scene.claimant(OVER);
        let vanished = scene.try_claim(&claimant).await.unwrap().vanished;
        assert_eq!((vanished.at_once, vanished.working), (0, working));
        let held = [(scene.id.clone(), claimant.token)];
        assert!(store.renew(&held, OVER).await.unwrap().is_empty());
    }
    // One that did not live so long is the first of its kind.
    scene.try_claim(&scene.claimant(OVER)).await.unwrap();
    assert_eq!(scene.claim().await.vanished.at_once, 1);
}

pub async fn waiting_for_an_answer_is_not_working(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let first = scene.claimant(OVER);
    scene.try_claim(&first).await.unwrap();
    let question = Event::Request {
        id: "question".into(),
        message: "{}".into(),
    };
    let asks = AppendRequest {
        pending: Some(vec![1]),
        ..scene.append(&first.token, 1, vec![question])
    };
    scene.write(&asks).await;
    for (lives, working) in [(true, 1), (true, 1), (false, 1), (false, 2), (false, 3)] {
        let claimant = scene.claimant(OVER);
        let claim = scene.try_claim(&claimant).await.unwrap();
        let expected = VanishedHolders {
            at_once: 0,
            working,
        };
        assert_eq!(claim.vanished, expected);
        if lives {
            let held = [(scene.id.clone(), claimant.token)];
            store.renew(&held, OVER).await.unwrap();
        }
    }
}

pub async fn only_who_may_takes_over(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let asks = |takes_over| Claimant {
        takes_over,
        ..scene.claimant(OVER)
    };
    // Anybody may claim a session without a holder.
    assert!(scene.try_claim(&asks(None)).await.is_some());
    assert!(scene.try_claim(&asks(None)).await.is_none());
    let due = store.due(scene.id.partition(), &scene.agent, 10).await;
    let due = due.unwrap();
    assert_eq!(due.sessions, std::slice::from_ref(&scene.id));
    assert!(scene.try_claim(&asks(Some(due.at))).await.is_some());
}

pub async fn a_finished_turn_is_not_handed_over(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let old = scene.claimant(OVER);
    scene.try_claim(&old).await.unwrap();
    let turn = vec![begin(1, &scene.creator, DeliveryPath::Connection)];
    scene.write(&scene.append(&old.token, 1, turn)).await;
    scene
        .write(&scene.append(
            &old.token,
            2,
            vec![end(&scene.creator, DeliveryPath::Connection)],
        ))
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
        .write(&AppendRequest {
            acks: scene.named(&[1]).await,
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
    let done = AppendOutcome::Done {
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
    let mut ear = SignalProbe::on(
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
