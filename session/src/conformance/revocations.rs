//! Revocations are known to everybody, until they do not matter any more.

use std::sync::Arc;

use super::scene::{Scene, SignalProbe};
use crate::clock::unix_millis;
use crate::id::random_text;
use crate::revocation::{Revocation, RevocationCause, RevocationSubject};
use crate::store::{Signal, Store, Topic};

fn principal() -> Revocation {
    Revocation::at_once(RevocationSubject::Principal(format!(
        "some one {}",
        random_text(8)
    )))
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
    let family = RevocationSubject::Family {
        family: random_text(8),
        below: 3,
    };
    let all = [
        Revocation::at_once(RevocationSubject::Session(scene.id.clone())),
        Revocation::at_once(RevocationSubject::Connection(scene.creator.clone())),
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
        SignalProbe::on(store, &[Topic::Revocations]).await,
        SignalProbe::on(store, &[Topic::Revocations]).await,
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
        Revocation::at_once(RevocationSubject::Family { family, below })
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

fn logout(principal: &str) -> Revocation {
    let family = RevocationSubject::Family {
        family: random_text(16),
        below: 1,
    };
    Revocation::at_once(family).asked_by(RevocationCause::Logout, principal)
}

/// All that is listed of a caller's own.
async fn own(store: &Arc<dyn Store>, principal: &str) -> Vec<Revocation> {
    let mut all = store.revocations().await.unwrap();
    all.retain(|known| {
        let asker = known.asker.as_ref();
        asker.is_some_and(|asker| asker.principal == principal)
    });
    all
}

pub async fn many_logouts_of_one_caller_become_one(store: &Arc<dyn Store>) {
    let [alice, bob] = [(); 2].map(|()| format!("caller {}", random_text(8)));
    let (hers, his) = (logout(&alice), logout(&bob));
    assert!(store.revoke(&hers).await.unwrap());
    assert!(store.revoke(&his).await.unwrap());
    for _ in 1..RevocationCause::Logout.budget() {
        assert!(store.revoke(&logout(&bob)).await.unwrap());
    }
    assert_eq!(
        own(store, &bob).await.len(),
        RevocationCause::Logout.budget()
    );
    let mut ear = SignalProbe::on(store, &[Topic::Revocations]).await;
    assert!(store.revoke(&logout(&bob)).await.unwrap());
    let all = own(store, &bob).await;
    let [one] = &all[..] else {
        panic!("{} are left", all.len());
    };
    assert_eq!(one.subject, RevocationSubject::Logins(bob.clone()));
    assert!(one.before >= his.before && one.until >= his.until);
    ear.until(|signal| matches!(signal, Signal::Revoked(heard) if heard == one))
        .await;
    // It says all that a later logout of an earlier login could.
    let late = Revocation {
        before: one.before,
        until: one.until,
        ..logout(&bob)
    };
    assert!(store.revoke(&late).await.unwrap());
    assert_eq!(own(store, &bob).await.len(), 1);
    let later = Revocation {
        before: one.before + 1,
        ..logout(&bob)
    };
    assert!(store.revoke(&later).await.unwrap());
    assert_eq!(own(store, &bob).await.len(), 2);
    assert_eq!(own(store, &alice).await, [hers]);
}

pub async fn beyond_its_budget_no_token_is_renewed(store: &Arc<dyn Store>) {
    let [alice, bob] = [(); 2].map(|()| format!("caller {}", random_text(8)));
    let renewal = |principal: &str| {
        let subject = RevocationSubject::Family {
            family: random_text(8),
            below: 1,
        };
        Revocation::at_once(subject).asked_by(RevocationCause::Renewal, principal)
    };
    let many: Vec<_> = (0..RevocationCause::Renewal.budget())
        .map(|_| renewal(&bob))
        .collect();
    for chunk in many.chunks(100) {
        let revoked = chunk.iter().map(|revocation| store.revoke(revocation));
        for outcome in futures_util::future::join_all(revoked).await {
            assert!(outcome.unwrap());
        }
    }
    assert!(!store.revoke(&renewal(&bob)).await.unwrap());
    // The same again is the same.
    assert!(store.revoke(&many[0]).await.unwrap());
    assert!(store.revoke(&renewal(&alice)).await.unwrap());
}
