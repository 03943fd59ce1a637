//! What was taken back is known to everybody, until it does not matter any more.

use std::sync::Arc;

use super::scene::{Ear, Scene};
use crate::clock::unix_millis;
use crate::id::random_text;
use crate::revocation::{Revocation, Subject};
use crate::store::{Signal, Store, Topic};

fn principal() -> Revocation {
    Revocation::at_once(Subject::Principal(format!("some one {}", random_text(8))))
}

/// Of these subjects only, as other cases may use the same store.
async fn listed(store: &Arc<dyn Store>, of: &[&Revocation]) -> Vec<Revocation> {
    let mut all = store.revocations().await.unwrap();
    all.retain(|known| of.iter().any(|one| one.subject == known.subject));
    all.sort_by_key(|known| of.iter().position(|one| one.subject == known.subject));
    all
}

pub async fn what_is_revoked_is_listed(store: &Arc<dyn Store>) {
    let scene = Scene::planned(store);
    let family = Subject::Family {
        family: random_text(8),
        below: 3,
    };
    let all = [
        Revocation::at_once(Subject::Session(scene.id.clone())),
        Revocation::at_once(Subject::Connection(scene.creator.clone())),
        principal(),
        Revocation {
            from: unix_millis() / 1000 + 120,
            ..Revocation::at_once(family)
        },
    ];
    for revocation in &all {
        store.revoke(revocation).await.unwrap();
    }
    assert_eq!(listed(store, &all.each_ref()).await, all);
}

pub async fn every_listener_hears_of_it(store: &Arc<dyn Store>) {
    let mut ears = [
        Ear::on(store, &[Topic::Revocations]).await,
        Ear::on(store, &[Topic::Revocations]).await,
    ];
    let revocation = principal();
    store.revoke(&revocation).await.unwrap();
    for ear in &mut ears {
        ear.until(|signal| matches!(signal, Signal::Revoked(heard) if *heard == revocation))
            .await;
    }
}

pub async fn revoking_again_changes_nothing(store: &Arc<dyn Store>) {
    let revocation = principal();
    for _ in 0..3 {
        store.revoke(&revocation).await.unwrap();
    }
    assert_eq!(listed(store, &[&revocation]).await, [revocation]);
}

pub async fn the_later_revocation_stays(store: &Arc<dyn Store>) {
    let first = principal();
    let later = Revocation {
        before: first.before + 10,
        until: first.until + 10,
        ..first.clone()
    };
    for revocation in [&first, &later, &first] {
        store.revoke(revocation).await.unwrap();
    }
    assert_eq!(listed(store, &[&first]).await, [later]);
}

pub async fn generations_of_a_family_are_revoked_one_by_one(store: &Arc<dyn Store>) {
    let family = random_text(8);
    let below = |below| {
        let family = family.clone();
        Revocation::at_once(Subject::Family { family, below })
    };
    let (one, two) = (below(1), below(2));
    store.revoke(&one).await.unwrap();
    store.revoke(&two).await.unwrap();
    assert_eq!(listed(store, &[&one, &two]).await, [one, two]);
}

pub async fn what_has_ended_is_forgotten(store: &Arc<dyn Store>) {
    let ended = Revocation {
        until: 1_700_000_000,
        ..principal()
    };
    let lasting = principal();
    store.revoke(&ended).await.unwrap();
    store.revoke(&lasting).await.unwrap();
    // Forgotten for good, and no sooner than the others.
    for _ in 0..2 {
        let listed = listed(store, &[&ended, &lasting]).await;
        assert_eq!(listed, std::slice::from_ref(&lasting));
    }
}

pub async fn many_are_listed_as_well(store: &Arc<dyn Store>) {
    let many: Vec<_> = (0..2500).map(|_| principal()).collect();
    for chunk in many.chunks(100) {
        let revoked = chunk.iter().map(|revocation| store.revoke(revocation));
        for outcome in futures_util::future::join_all(revoked).await {
            outcome.unwrap();
        }
    }
    let all = store.revocations().await.unwrap();
    let found: std::collections::HashSet<_> = all.iter().map(|known| &known.subject).collect();
    assert!(many.iter().all(|one| found.contains(&one.subject)));
}
