//! Redis is full: what would grow it is refused as a whole, what ends things gets through, and all goes on
//! once there is room.

use std::sync::Arc;

use baton_session::command::IdempotencyKey;
use baton_session::conformance::scene::{EVERYTHING_THAT_RESTS, LONG, Scene, end, updates};
use baton_session::event::Event;
use baton_session::revocation::{Revocation, RevocationSubject};
use baton_session::route::DeliveryPath;
use baton_session::store::{
    ALIVE, AdoptRequest, AgentCard, AppendOutcome, AppendRequest, Error, Result, StreamId, WorkerId,
};

use crate::support::{RedisServer, again, bounded, until};

/// All keys and what they hold.
async fn content(server: &RedisServer) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let mut keys: Vec<String> = server.command(&["KEYS", "*"]).await?;
    keys.sort();
    let mut content = Vec::new();
    for key in keys {
        let dump: Vec<u8> = server.command(&["DUMP", &key]).await?;
        content.push((key, dump));
    }
    Ok(content)
}

async fn limit(server: &RedisServer, bytes: u64) -> anyhow::Result<()> {
    server
        .command(&["CONFIG", "SET", "maxmemory", &bytes.to_string()])
        .await
}

fn is_full<T>(outcome: Result<T>) {
    match outcome {
        Err(Error::Unavailable(text)) => assert!(text.contains("out of memory"), "{text}"),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("nothing fits"),
    }
}

#[tokio::test]
async fn a_full_redis_refuses_whole_steps_and_goes_on_later() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let store = server.store().await?;
    bounded(async {
        let scene = Arc::new(Scene::created(&store).await);
        let token = scene.claim().await.token;
        scene.write(&scene.append(&token, 1, updates(1))).await;
        scene.open_stream(&scene.creator, "a").await;
        let before = content(&server).await?;
        // Nothing can be evicted, so any limit below what is used means full.
        limit(&server, 1).await?;

        let other = Scene::planned(&store);
        let key = IdempotencyKey::of(&other.creator, Some("0"), b"");
        let (new, first) = (other.new_session(), other.first());
        let (prompt, attach) = (scene.prompt("1"), scene.attach(&scene.creator, "2"));
        let append = scene.append(&token, 2, updates(1));
        let claimant = other.claimant(LONG);
        let (created, enqueued, attached, posted, appended, claimed) = tokio::join!(
            store.create(&new, &first, &key),
            store.enqueue(&prompt),
            store.attach(&attach),
            store.post(&other.creator, Event::Closed, &key),
            store.append(&append),
            store.claim(&other.id, &claimant),
        );
        is_full(created);
        is_full(enqueued);
        is_full(attached);
        is_full(posted);
        is_full(appended);
        assert!(claimed?.is_none(), "there is nothing to claim");
        assert_eq!(content(&server).await?, before);

        // Steps that only rewrite existing keys pass: leases, streams and workers stay alive.
        let held = [(scene.id.clone(), token.clone())];
        assert!(store.renew(&held, LONG).await?.is_empty());
        let touch = scene.touch(&scene.creator, "a", Some("1.1"));
        assert!(store.touch_streams(&[touch]).await?.is_empty());
        // A stream that its client opens again, at another gateway.
        scene.open_stream(&scene.creator, "b").await;
        let own = StreamId {
            connection: scene.creator.clone(),
            session: None,
        };
        let opened = store.open_stream(&own, &scene.principal, "b").await?;
        assert!(opened.is_some());
        let card = AgentCard {
            name: scene.agent.clone(),
            version: "1".into(),
            initialize: serde_json::Value::Null,
        };
        let worker = WorkerId("worker".into());
        store.register(&card, &worker, ALIVE).await?;

        // As a worker writes: again and again, until it is written.
        let waiting = tokio::spawn({
            let (scene, append) = (scene.clone(), append.clone());
            async move { again(|| scene.store.append(&append)).await }
        });
        let refused = async || -> Option<u64> {
            let stats: String = server.command(&["INFO", "errorstats"]).await.ok()?;
            let oom = stats.lines().find(|line| line.contains("OOM"))?;
            oom.trim().rsplit('=').next()?.parse().ok()
        };
        let count = refused().await.expect("steps were refused");
        until("the append is refused", async || {
            (refused().await? > count).then_some(())
        })
        .await?;
        limit(&server, 0).await?;
        assert_eq!(
            waiting.await?,
            AppendOutcome::Done {
                head: 2,
                released: false
            }
        );
        again(|| store.enqueue(&prompt)).await;
        assert_eq!(scene.head().await, 2);
        assert_eq!(store.inbox(&scene.id, &[]).await?.len(), 2);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_full_redis_lets_a_turn_end_and_a_session_be_released() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let store = server.store().await?;
    bounded(async {
        let (one, two) = (Scene::created(&store).await, Scene::created(&store).await);
        let (first, second) = (one.claim().await.token, two.claim().await.token);
        limit(&server, 1).await?;
        let answer = AppendRequest {
            acks: one.named(&[1]).await,
            release: true,
            ..one.append(&first, 1, vec![end(&one.creator, DeliveryPath::Connection)])
        };
        let done = AppendOutcome::Done {
            head: 1,
            released: true,
        };
        assert_eq!(one.write(&answer).await, done);
        store.release(&two.id, &second).await?;
        limit(&server, 0).await?;
        assert_eq!(one.head().await, 1);
        two.claim().await;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_full_redis_forks_nothing_and_lets_sessions_be_deleted() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let store = server.store().await?;
    bounded(async {
        let (parent, held) = (Scene::created(&store).await, Scene::created(&store).await);
        parent.talk("one").await;
        parent.tidy(&EVERYTHING_THAT_RESTS).await;
        let token = held.claim().await.token;
        let record = store.record(&parent.id, &parent.principal).await?;
        let stranger = Scene::planned(&store);
        let adoption = AdoptRequest {
            id: stranger.id.clone(),
            principal: stranger.principal.clone(),
            record: record.expect("it is there"),
            shares: None,
        };
        let before = content(&server).await?;
        limit(&server, 1).await?;
        let child = parent.heir();
        let (fork, claimant) = (
            parent.cut(&child, 2, "another view"),
            stranger.claimant(LONG),
        );
        let (forked, adopted) = tokio::join!(store.fork(&fork), store.adopt(&adoption, &claimant));
        is_full(forked);
        is_full(adopted);
        assert_eq!(content(&server).await?, before);
        assert!(parent.delete().await && held.delete().await);
        assert_eq!(store.inbox(&held.id, &[]).await?.len(), 2);
        held.finish(&token).await;
        parent.forget().await;
        held.forget().await;
        assert_eq!((parent.head().await, held.head().await), (0, 0));
        Ok(())
    })
    .await
}

/// Nobody keeps what was stolen by filling Redis.
#[tokio::test]
async fn a_full_redis_takes_revocations_and_forgets_those_that_ended() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let store = server.store().await?;
    bounded(async {
        let named = |name: &str| Revocation::at_once(RevocationSubject::Principal(name.into()));
        let ended = Revocation {
            until: 1_700_000_000,
            ..named("ended")
        };
        limit(&server, 1).await?;
        store.revoke(&named("lasting")).await?;
        store.revoke(&ended).await?;
        let kept = async || -> anyhow::Result<u64> {
            let keys: Vec<String> = server.command(&["KEYS", "*{revoked}:all"]).await?;
            server.command(&["HLEN", &keys[0]]).await
        };
        assert_eq!(kept().await?, 2);
        let listed = store.revocations().await?;
        assert_eq!((listed.len(), kept().await?), (1, 1));
        assert_eq!(listed[0].subject, named("lasting").subject);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn there_is_room_until_four_fifths_are_used() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let store = server.store().await?;
    bounded(async {
        assert!(store.has_room().await?);
        let used: u64 = server.info("used_memory").await?.parse()?;
        limit(&server, used / 10 * 11).await?;
        until("no room", async || {
            (!store.has_room().await.ok()?).then_some(())
        })
        .await?;
        // Those that are there go on.
        limit(&server, used * 4).await?;
        until("room", async || store.has_room().await.ok()?.then_some(())).await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_replica_is_not_taken_for_a_store() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let replica = server.start_replica().await?;
    let error = replica.store().await.err().expect("it is a replica");
    let text = error.to_string();
    let primary = format!("its primary, 127.0.0.1:{}", server.port);
    assert!(
        text.contains("read-only replica") && text.contains(&primary),
        "{text}"
    );
    Ok(())
}
