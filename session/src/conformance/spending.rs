//! A single-use name is accepted for one caller, whichever replica it asks.

use std::sync::Arc;
use std::time::Duration;

use crate::id::random_text;
use crate::store::Store;

const LONG: Duration = Duration::from_secs(600);

fn name() -> String {
    format!("some name: {}", random_text(12))
}

pub async fn a_name_is_spent_once(store: &Arc<dyn Store>) {
    let (one, other) = (name(), name());
    assert!(store.spend(&one, LONG).await.unwrap());
    for _ in 0..3 {
        assert!(!store.spend(&one, LONG).await.unwrap());
    }
    assert!(store.spend(&other, LONG).await.unwrap());
    assert!(!store.spend(&one, Duration::ZERO).await.unwrap());
}

pub async fn of_many_who_spend_at_once_one_is_first(store: &Arc<dyn Store>) {
    for _ in 0..8 {
        let name = name();
        let tries = (0..32).map(|_| {
            let (store, name) = (store.clone(), name.clone());
            tokio::spawn(async move { store.spend(&name, LONG).await.unwrap() })
        });
        let mut first = 0;
        for outcome in futures_util::future::join_all(tries).await {
            first += usize::from(outcome.unwrap());
        }
        assert_eq!(first, 1);
    }
}

pub async fn what_was_spent_is_forgotten_when_its_time_is_over(store: &Arc<dyn Store>) {
    let (brief, lasting) = (name(), name());
    assert!(store.spend(&lasting, LONG).await.unwrap());
    assert!(store.spend(&brief, Duration::from_millis(1)).await.unwrap());
    while !store.spend(&brief, LONG).await.unwrap() {
        tokio::task::yield_now().await;
    }
    for name in [&brief, &lasting] {
        assert!(!store.spend(name, LONG).await.unwrap());
    }
}
