//! A Redis that was restored from a backup is marked so, alone or as a Cluster.

use baton_session::revocation::RevocationSubject;
use baton_session::store::redis::RedisStore;
use baton_session::store::{CredentialStore as _, LogStore as _};

use crate::cluster::Cluster;
use crate::support::{RedisServer, bounded};

async fn is_marked(url: &str) -> anyhow::Result<()> {
    let store = RedisStore::connect(url, "restored").await?;
    assert_eq!(store.restored(), None);
    store.mark_restored().await?;
    let mut drawn = Vec::new();
    let mut floors = Vec::new();
    // Once more is no harm.
    for _ in 0..2 {
        let store = RedisStore::connect(url, "restored").await?;
        drawn.push(store.restored().expect("it was drawn"));
        let all = store.revocations().await?;
        let past = all
            .iter()
            .find(|one| one.subject == RevocationSubject::Everybody);
        floors.push(past.expect("all is refused").before);
        store.mark_restored().await?;
    }
    assert_ne!(drawn[0], drawn[1]);
    assert!(floors[0] <= floors[1]);
    let beside = RedisStore::connect(url, "another").await?;
    assert_eq!(beside.restored(), None);
    assert_eq!(beside.revocations().await?, []);
    Ok(())
}

#[tokio::test]
async fn a_redis_is_marked_as_restored() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    bounded(is_marked(&format!("redis://127.0.0.1:{}", server.port))).await
}

#[tokio::test]
async fn a_cluster_is_marked_as_restored() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    bounded(is_marked(&cluster.url())).await
}
