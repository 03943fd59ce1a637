//! Lists on Redis, where every partition has its own part of them.

use std::collections::HashSet;
use std::sync::Arc;

use baton_session::conformance::scene::{EVERYTHING_THAT_RESTS, LONG, Scene};
use baton_session::id::{Partition, SessionId};
use baton_session::store::{
    AdoptRequest, ListPosition, ListRequest, SessionRecord, SessionSetup, Store, TidyOutcome,
};

use crate::cluster::Cluster;
use crate::support::{RedisServer, bounded};

/// A session that comes from elsewhere, so that the test may say when it was last changed.
async fn settle(
    store: &Arc<dyn Store>,
    like: &Scene,
    partition: Partition,
    updated: u64,
) -> ListPosition {
    let id = SessionId::mint(partition);
    let record = SessionRecord {
        agent: like.agent.clone(),
        cwd: "/somewhere".into(),
        params: "{}".into(),
        setup: SessionSetup::default(),
        state: vec![b'x'; 100].into(),
        view: Default::default(),
        shown: None,
        title: format!("last changed {updated}"),
        usage: Default::default(),
        bound: Default::default(),
        head: 0,
        updated,
        began: None,
    };
    let adoption = AdoptRequest {
        id: id.clone(),
        principal: like.principal.clone(),
        record,
        shares: None,
    };
    let claimant = like.claimant(LONG);
    assert!(store.adopt(&adoption, &claimant).await.expect("an answer"));
    let published = store.publish(&id, &claimant.token).await;
    assert!(published.expect("an answer"));
    ListPosition {
        updated,
        session: id,
    }
}

/// All of a list in pages of this size.
async fn pages(store: &Arc<dyn Store>, listing: &ListRequest, limit: usize) -> Vec<ListPosition> {
    let mut listing = ListRequest {
        limit,
        ..listing.clone()
    };
    let mut found = Vec::new();
    loop {
        let page = store.list(&listing).await.expect("an answer");
        for summary in &page {
            assert_eq!(
                summary.title,
                format!("last changed {}", summary.place.updated)
            );
        }
        found.extend(page.into_iter().map(|summary| summary.place));
        // A short page is the last one.
        if found.len() % limit != 0 || listing.after.as_ref() == found.last() {
            return found;
        }
        listing.after = found.last().cloned();
    }
}

async fn pages_hold_each_session_once(store: Arc<dyn Store>) {
    let scene = Scene::planned(&store);
    let mut all = Vec::new();
    let partitions = store.partitions();
    for number in 0..60 {
        // Many at the same time, in one partition and in all.
        let even = Partition(number % partitions);
        all.push(settle(&store, &scene, even, 1000 + u64::from(number / 20)).await);
        all.push(settle(&store, &scene, Partition(3), 1001).await);
    }
    all.sort_by(|one, other| other.cmp(one));
    for limit in [1, 2, 7, 50, 119, 120, 121, usize::MAX] {
        let found = pages(&store, &scene.listing(), limit).await;
        assert_eq!(found, all, "{limit} at a time");
    }
}

#[tokio::test]
async fn pages_of_any_size_hold_each_session_once() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    bounded(pages_hold_each_session_once(server.store().await?)).await;
    Ok(())
}

#[tokio::test]
async fn so_they_do_on_a_cluster() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    bounded(pages_hold_each_session_once(cluster.store().await?)).await;
    Ok(())
}

#[tokio::test]
async fn a_list_wakes_nobody_from_its_rest() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let store = server.store().await?;
    bounded(async {
        let scene = Scene::created(&store).await;
        let mut all = vec![scene.id.clone()];
        for _ in 0..30 {
            all.push(scene.another().await.id);
        }
        for id in &all {
            let claim = store.claim(id, &scene.claimant(LONG)).await?.expect("work");
            let named = baton_session::store::AppendRequest {
                session: id.clone(),
                title: Some(format!("title of {id}")),
                usage: Some("{\"used\":1}".into()),
                acks: claim.inbox.iter().map(|queued| queued.id).collect(),
                release: true,
                ..scene.append(&claim.token, 1, Vec::new())
            };
            scene.write(&named).await;
        }
        let before = scene.list(&scene.listing()).await;
        for partition in (0..store.partitions()).map(Partition) {
            while store.tidy(partition, &EVERYTHING_THAT_RESTS).await? != TidyOutcome::default() {}
        }
        let resting: Vec<String> = server.command(&["KEYS", "*:z:*"]).await?;
        assert_eq!(resting.len(), all.len());
        assert_eq!(scene.list(&scene.listing()).await, before);
        for summary in &before {
            assert_eq!(summary.title, format!("title of {}", summary.place.session));
            assert_eq!(summary.usage, "{\"used\":1}");
        }
        let after: Vec<String> = server.command(&["KEYS", "*:z:*"]).await?;
        assert_eq!(after.len(), all.len());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_list_misses_nothing_while_sessions_are_created() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let store = server.store().await?;
    bounded(async {
        let scene = Arc::new(Scene::created(&store).await);
        let mut there = HashSet::from([scene.id.clone()]);
        for _ in 0..80 {
            there.insert(scene.another().await.id);
        }
        let creator = tokio::spawn({
            let scene = scene.clone();
            async move {
                for _ in 0..200 {
                    scene.another().await;
                }
            }
        });
        while !creator.is_finished() {
            let mut listing = ListRequest {
                limit: 9,
                ..scene.listing()
            };
            let mut found = Vec::new();
            loop {
                let page = store.list(&listing).await?;
                let Some(last) = page.last() else { break };
                listing.after = Some(last.place.clone());
                found.extend(page.into_iter().map(|summary| summary.place.session));
            }
            let distinct: HashSet<SessionId> = found.iter().cloned().collect();
            assert_eq!(distinct.len(), found.len(), "none twice");
            assert!(there.is_subset(&distinct), "none missing");
        }
        creator.await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_session_of_an_earlier_version_is_listed_after_its_next_turn() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let store = server.store().await?;
    bounded(async {
        let scene = Scene::created(&store).await;
        scene.talk("one").await;
        let lists: Vec<String> = server.command(&["KEYS", "*:ls:*"]).await?;
        for list in &lists {
            let _: u64 = server.command(&["DEL", list]).await?;
        }
        assert_eq!(scene.listed().await, []);
        let record = store.record(&scene.id, &scene.principal).await?;
        assert!(record.expect("it is there").updated > 0);
        scene.talk("two").await;
        scene.lists_only(&scene).await;
        Ok(())
    })
    .await
}
