//! What processes say of themselves is there for all of them, and ends with them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::scene::Scene;
use crate::id::random_text;
use crate::store::Store;

const LONG: Duration = Duration::from_secs(600);

async fn found(store: &Arc<dyn Store>, process: &str) -> Option<Bytes> {
    let all = store.reports().await.unwrap();
    let own = all.into_iter().find(|(name, _)| name == process);
    own.map(|(_, report)| report)
}

pub async fn the_last_report_of_a_process_counts_as_long_as_it_lasts(store: &Arc<dyn Store>) {
    let (one, brief) = (random_text(12), random_text(12));
    for text in ["first", "second\nline {\"a\": 1}"] {
        let report = Bytes::from_static(text.as_bytes());
        assert_eq!(store.report(&one, &report, LONG).await.unwrap(), None);
        assert_eq!(found(store, &one).await, Some(report));
    }
    let report = Bytes::from_static(b"x");
    let lasts = Duration::from_millis(1);
    store.report(&brief, &report, lasts).await.unwrap();
    while found(store, &brief).await.is_some() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(found(store, &one).await.is_some());
}

pub async fn a_process_hears_what_it_is_asked_with_its_next_report(store: &Arc<dyn Store>) {
    let (one, other) = (random_text(12), random_text(12));
    assert!(!store.order(&one, "drain", LONG).await.unwrap());
    let report = Bytes::from_static(b"r");
    for process in [&one, &other] {
        store.report(process, &report, LONG).await.unwrap();
    }
    assert!(store.order(&one, "drain", LONG).await.unwrap());
    for _ in 0..2 {
        let order = store.report(&one, &report, LONG).await.unwrap();
        assert_eq!(order.as_deref(), Some("drain"));
        assert_eq!(store.report(&other, &report, LONG).await.unwrap(), None);
    }
    let brief = Duration::from_millis(1);
    assert!(store.order(&one, "drain", brief).await.unwrap());
    while store.report(&one, &report, LONG).await.unwrap().is_some() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

pub async fn who_holds_a_session_is_told_to_its_owner(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let (session, owner) = (&scene.id, &scene.principal);
    assert_eq!(store.worker_of(session, owner).await.unwrap(), None);
    let claimant = scene.claimant(LONG);
    let claim = scene.try_claim(&claimant).await.unwrap();
    let held = store.worker_of(session, owner).await.unwrap();
    assert_eq!(held, Some(claimant.worker.clone()));
    let foreign = store.worker_of(session, "somebody else").await.unwrap();
    assert_eq!(foreign, None);
    scene.finish(&claim.token).await;
    store.release(session, &claim.token).await.unwrap();
    assert_eq!(store.worker_of(session, owner).await.unwrap(), None);
}
