//! The cost of a session that nobody uses.

use std::sync::Arc;
use std::time::Duration;

use baton_session::conformance::scene::{LONG, Scene, updates};
use baton_session::id::{ConnectionId, Partition};
use baton_session::store::{AppendRequest, Store, TidyOutcome, TidyPolicy};

use crate::support::{RedisServer, bounded};

const SESSIONS: u64 = 500;
/// Modes and options as an agent shows them.
const VIEW: &str = r#"{"modes":{"currentModeId":"code","availableModes":[{"id":"ask","name":"Ask","description":"Answers questions"},{"id":"code","name":"Code","description":"Changes files"},{"id":"architect","name":"Architect","description":"Plans first"}]},"configOptions":[{"id":"model","name":"Model","category":"model","type":"select","currentValue":"medium","options":[{"value":"small","name":"Small"},{"value":"medium","name":"Medium"},{"value":"large","name":"Large"}]}]}"#;

#[tokio::test]
async fn an_idle_session_costs_about_a_kilobyte_beside_its_history() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let store = server.store().await?;
    bounded(async {
        // Scripts, buffers and tables that do not grow with every session.
        leave_idle(&store, 100).await?;
        let before = used(&server).await? - history(&server).await?;
        leave_idle(&store, SESSIONS).await?;
        let history = history(&server).await?;
        let cost = (used(&server).await? - history - before) / SESSIONS;
        println!(
            "{cost} bytes a session, and {} of history",
            history / (SESSIONS + 100)
        );
        // Two lists and an account of its own included: each is the only one of its principal. So are the keys of
        // eight requests, which are recognised after a rest.
        assert!(cost < 1600, "{cost} bytes");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_session_that_knows_many_connections_comes_back_from_its_rest() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let store = server.store().await?;
    bounded(async {
        let scene = Scene::created(&store).await;
        let token = scene.claim().await.token;
        let turn = AppendRequest {
            acks: scene.named(&[1]).await,
            release: true,
            ..scene.append(&token, 1, updates(3))
        };
        scene.write(&turn).await;
        for _ in 0..6000 {
            let connection = ConnectionId::mint(scene.id.partition());
            store.attach(&scene.attach(&connection, "1")).await?;
        }
        let before = scene.attachment(&scene.creator).await;
        tidy(&store).await?;
        let keys: Vec<String> = server.command(&["KEYS", "*:z:*"]).await?;
        assert_eq!(keys.len(), 1, "it rests");
        assert_eq!(scene.attachment(&scene.creator).await, before);
        Ok(())
    })
    .await
}

/// Sessions of eight turns with twenty events each, all of them at rest.
async fn leave_idle(store: &Arc<dyn Store>, sessions: u64) -> anyhow::Result<()> {
    for _ in 0..sessions {
        let scene = Scene::created(store).await;
        let mut head = 0;
        for number in 1..=8u64 {
            if number > 1 {
                store.enqueue(&scene.prompt(&number.to_string())).await?;
            }
            let token = scene.claim().await.token;
            let turn = AppendRequest {
                acks: scene.named(&[number]).await,
                view: Some(VIEW.into()),
                state: Some(vec![b'x'; 100].into()),
                release: true,
                ..scene.append(&token, head + 1, updates(20))
            };
            scene.write(&turn).await;
            head += 20;
        }
    }
    tidy(store).await
}

/// Everything that can rest does.
async fn tidy(store: &Arc<dyn Store>) -> anyhow::Result<()> {
    let when = TidyPolicy {
        rested: Duration::ZERO,
        unused: LONG,
    };
    for partition in (0..store.partitions()).map(Partition) {
        while store.tidy(partition, &when).await? != TidyOutcome::default() {}
    }
    Ok(())
}

async fn used(server: &RedisServer) -> anyhow::Result<u64> {
    let info: String = server.command(&["INFO", "memory"]).await?;
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:"));
    Ok(line.unwrap_or_default().trim().parse()?)
}

async fn history(server: &RedisServer) -> anyhow::Result<u64> {
    let keys: Vec<String> = server.command(&["KEYS", "*:h:*"]).await?;
    let mut sum = 0;
    for key in &keys {
        sum += server
            .command::<u64>(&["MEMORY", "USAGE", key, "SAMPLES", "0"])
            .await?;
    }
    Ok(sum)
}
