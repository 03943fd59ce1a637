//! The primary dies, the sentinels name another: the store goes on there.

use std::sync::Arc;

use anyhow::Context as _;
use baton_session::conformance::scene::{Scene, SignalProbe, updates};
use baton_session::store::redis::RedisStore;
use baton_session::store::{AppendOutcome, Signal, Store, Topic};

use crate::support::{RedisServer, again, bounded, until};

/// A primary, its replica and three sentinels who agree on that.
pub struct Group {
    pub primary: RedisServer,
    pub replica: RedisServer,
    /// If there is a second one.
    pub other: Option<RedisServer>,
    sentinels: Vec<RedisServer>,
}

impl Group {
    pub async fn start() -> anyhow::Result<Self> {
        let primary = RedisServer::start().await?;
        let replica = primary.start_replica().await?;
        Self::watched(primary, replica, None).await
    }

    pub async fn with_two_replicas() -> anyhow::Result<Self> {
        let primary = RedisServer::start().await?;
        let replica = primary.start_replica().await?;
        let other = primary.start_replica().await?;
        Self::watched(primary, replica, Some(other)).await
    }

    async fn watched(
        primary: RedisServer,
        replica: RedisServer,
        other: Option<RedisServer>,
    ) -> anyhow::Result<Self> {
        let replicas = 1 + usize::from(other.is_some());
        let mut sentinels = Vec::new();
        for _ in 0..3 {
            sentinels.push(RedisServer::start_sentinel(&primary).await?);
        }
        let group = Self {
            primary,
            replica,
            other,
            sentinels,
        };
        for sentinel in &group.sentinels {
            until("the sentinels know each other", async || {
                let info: String = sentinel.command(&["INFO", "sentinel"]).await.ok()?;
                let all = format!("slaves={replicas},sentinels=3");
                let settled = info.contains("status=ok") && info.contains(&all);
                settled.then_some(())
            })
            .await?;
        }
        Ok(group)
    }

    pub fn url(&self) -> String {
        let hosts: Vec<String> = self
            .sentinels
            .iter()
            .map(|sentinel| format!("127.0.0.1:{}", sentinel.port))
            .collect();
        format!("redis+sentinel://{}/main", hosts.join(","))
    }

    /// As an operator asks for it: nothing is broken.
    pub async fn fail_over(&self) -> anyhow::Result<()> {
        let words = ["SENTINEL", "FAILOVER", "main"];
        self.sentinels[0].command(&words).await
    }

    /// The replica that has become the primary, once the old one knows.
    pub async fn promoted(&self) -> anyhow::Result<&RedisServer> {
        until("the old primary has learned of its successor", async || {
            let link = self.primary.info("master_link_status").await.ok()?;
            (link == "up").then_some(())
        })
        .await?;
        let port = self.primary.info("master_port").await?;
        let replicas = [Some(&self.replica), self.other.as_ref()];
        let promoted = replicas.into_iter().flatten();
        let mut promoted = promoted.filter(|server| server.port.to_string() == port);
        promoted.next().context("it is one of them")
    }

    /// The replica has become the primary.
    pub async fn has_failed_over(&self) -> anyhow::Result<()> {
        until("the replica is promoted", async || {
            (self.replica.info("role").await.ok()? == "master").then_some(())
        })
        .await
    }
}

#[tokio::test]
async fn a_session_and_its_listeners_go_on_at_the_new_primary() -> anyhow::Result<()> {
    let mut group = Group::start().await?;
    let store: Arc<dyn Store> = Arc::new(RedisStore::connect(&group.url(), "test").await?);
    bounded(async {
        let scene = Scene::created(&store).await;
        let token = scene.claim().await.token;
        // Room for all: the only signals that are lost are those of the failover.
        let topics = [Topic::Log(scene.log()), scene.ready()];
        let mut ear = SignalProbe::with_room(&store, &topics, 1024).await;
        // Data that is on the replica now will be there later.
        group.primary.copied_to(&group.replica).await?;
        let (mut head, mut alive) = (0, true);
        while head < 200 {
            if head == 100 && std::mem::take(&mut alive) {
                group.primary.kill();
            }
            let append = scene.append(&token, head + 1, updates(1));
            head = match again(|| async { store.append(&append).await }).await {
                AppendOutcome::Done { head, .. } => head,
                // Not everything was on the replica yet: write again from there.
                AppendOutcome::Gap { head } => head,
                AppendOutcome::Fenced => panic!("the claim was on the replica"),
            };
        }
        assert_eq!(group.replica.info("role").await?, "master");
        ear.until(|signal| matches!(signal, Signal::Lost)).await;
        scene
            .write(&scene.append(&token, head + 1, updates(1)))
            .await;
        ear.until(|signal| matches!(signal, Signal::Frame(_, frame) if frame.last() == head + 1))
            .await;
        // Not only the topic that was looked at.
        let other = scene.sibling().await;
        ear.until(|signal| matches!(signal, Signal::Ready(id) if *id == other.id))
            .await;
        let frames = store.read(&scene.log(), 1, 1000).await?;
        assert!(frames.iter().map(|frame| frame.last()).eq(1..=head + 1));
        Ok(())
    })
    .await
}

/// The old primary is there and answers: only the sentinels tell that it is the primary no more.
#[tokio::test]
async fn a_failover_without_a_crash_is_followed() -> anyhow::Result<()> {
    let group = Group::start().await?;
    let store: Arc<dyn Store> = Arc::new(RedisStore::connect(&group.url(), "test").await?);
    bounded(async {
        let scene = Scene::created(&store).await;
        let token = scene.claim().await.token;
        let mut ear = SignalProbe::on(&store, &[Topic::Log(scene.log())]).await;
        group.primary.copied_to(&group.replica).await?;
        group.fail_over().await?;
        group.has_failed_over().await?;
        ear.until(|signal| matches!(signal, Signal::Lost)).await;
        let append = scene.append(&token, 1, updates(1));
        let written = again(|| async { store.append(&append).await }).await;
        assert!(
            matches!(written, AppendOutcome::Done { head: 1, .. }),
            "{written:?}"
        );
        ear.until(|signal| matches!(signal, Signal::Frame(_, frame) if frame.last() == 1))
            .await;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_name_the_sentinels_do_not_know_is_said() -> anyhow::Result<()> {
    let group = Group::start().await?;
    let url = group.url().replace("/main", "/other");
    let error = RedisStore::connect(&url, "test").await.err();
    let text = error.expect("there is no such primary").to_string();
    assert!(text.contains("no primary named other"), "{text}");
    Ok(())
}
