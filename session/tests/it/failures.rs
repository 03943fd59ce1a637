//! Redis forgets its scripts, or drops its listeners: things go on.

use std::pin::pin;
use std::time::Duration;

use baton_session::conformance::scene::{LONG, Scene, SignalProbe, updates};
use baton_session::store::{AppendOutcome, AppendRequest, EnqueueOutcome, Signal, Topic};
use futures_util::future::join_all;

use crate::support::{RedisServer, bounded};

#[tokio::test]
async fn forgotten_scripts_are_sent_again() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let store = server.store().await?;
    let flush = async || server.command::<()>(&["SCRIPT", "FLUSH"]).await;
    bounded(async {
        let scene = Scene::created(&store).await;
        flush().await?;
        scene.open_stream(&scene.creator, "a").await;
        flush().await?;
        let accepted = store.enqueue(&scene.prompt("1")).await?;
        assert!(
            matches!(accepted, EnqueueOutcome::Accepted { command, .. } if command.number == 2),
            "{accepted:?}"
        );
        flush().await?;
        let due = store.due(scene.id.partition(), &scene.agent, 1).await?;
        assert_eq!(due.sessions, std::slice::from_ref(&scene.id));
        flush().await?;
        let claim = scene.claim().await;
        flush().await?;
        assert!(
            store
                .renew(&[(scene.id.clone(), claim.token.clone())], LONG)
                .await?
                .is_empty()
        );
        for first in 1..=3 {
            flush().await?;
            let append = scene.append(&claim.token, first, updates(1));
            assert_eq!(
                scene.write(&append).await,
                AppendOutcome::Done {
                    head: first,
                    released: false
                }
            );
        }
        flush().await?;
        let last = AppendRequest {
            acks: scene.named(&[1, 2]).await,
            release: true,
            ..scene.append(&claim.token, 4, updates(1))
        };
        assert_eq!(
            scene.write(&last).await,
            AppendOutcome::Done {
                head: 4,
                released: true
            }
        );
        flush().await?;
        assert_eq!(scene.attachment(&scene.creator).await.head, 4);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_killed_push_connection_comes_back_and_says_so() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let store = server.store().await?;
    bounded(async {
        let scene = Scene::created(&store).await;
        let token = scene.claim().await.token;
        let mut ear = SignalProbe::on(&store, &[Topic::Log(scene.log()), scene.ready()]).await;
        for round in 0..3 {
            let first = round * 2 + 1;
            scene.write(&scene.append(&token, first, updates(1))).await;
            ear.until(|signal| matches!(signal, Signal::Frame(_, frame) if frame.first == first))
                .await;
            let killed: i64 = server
                .command(&["CLIENT", "KILL", "TYPE", "pubsub"])
                .await?;
            assert_eq!(killed, 1);
            ear.until(|signal| matches!(signal, Signal::Lost)).await;
            scene
                .write(&scene.append(&token, first + 1, updates(1)))
                .await;
            ear.until(
                |signal| matches!(signal, Signal::Frame(_, frame) if frame.last() == first + 1),
            )
            .await;
        }
        // Not only the topic that was looked at.
        let other = scene.sibling().await;
        ear.until(|signal| matches!(signal, Signal::Ready(id) if *id == other.id))
            .await;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn killed_command_connections_are_replaced() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let store = server.store().await?;
    bounded(async {
        let scene = Scene::created(&store).await;
        let token = scene.claim().await.token;
        for first in 1..=5 {
            let _: i64 = server
                .command(&["CLIENT", "KILL", "TYPE", "normal"])
                .await?;
            let append = scene.append(&token, first, updates(1));
            assert_eq!(
                scene.write(&append).await,
                AppendOutcome::Done {
                    head: first,
                    released: false
                }
            );
        }
        assert_eq!(store.read(&scene.log(), 1, 10).await?.len(), 5);
        Ok(())
    })
    .await
}

/// A task that waits for two things may leave one of them alone for a while, in the middle of making a connection.
#[tokio::test]
async fn who_is_not_polled_holds_up_nobody_else() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let store = server.store().await?;
    bounded(async {
        let scene = Scene::created(&store).await;
        server.freeze()?;
        let log = [scene.log()];
        let mut left_alone = pin!(join_all((0..8).map(|_| store.heads(&log))));
        // Long enough that the connection counts as broken and another is being made.
        let a_while = tokio::time::sleep(Duration::from_millis(2500));
        tokio::select! {
            _ = &mut left_alone => panic!("Redis stands still"),
            () = a_while => {}
        }
        server.thaw()?;
        assert_eq!(store.heads(&log).await?, [0]);
        let answers = left_alone.await.into_iter();
        assert!(answers.flatten().count() > 0, "these go on, too");
        Ok(())
    })
    .await
}

/// Answers can come before the signal that others were lost, from a server that knows less.
#[tokio::test]
async fn what_is_due_says_that_another_connection_was_asked() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let store = server.store().await?;
    bounded(async {
        let scene = Scene::created(&store).await;
        let look = async || {
            let due = store.due(scene.id.partition(), &scene.agent, 10).await?;
            assert_eq!(due.sessions, std::slice::from_ref(&scene.id));
            anyhow::Ok(due.reconnected)
        };
        assert_eq!((look().await?, look().await?), (false, false));
        for _ in 0..3 {
            let _: i64 = server
                .command(&["CLIENT", "KILL", "TYPE", "normal"])
                .await?;
            assert_eq!((look().await?, look().await?), (true, false));
        }
        Ok(())
    })
    .await
}
