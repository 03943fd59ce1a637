//! `--durability replicated`: what was acknowledged is on a replica.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use baton_session::command::CommandId;
use baton_session::conformance::cases;
use baton_session::conformance::scene::{LONG, OVER, Scene, begin, end, updates};
use baton_session::id::LogId;
use baton_session::revocation::{Revocation, RevocationSubject};
use baton_session::route::DeliveryPath;
use baton_session::store::{
    AdoptRequest, EnqueueOutcome, Error, ForkOutcome, Signal, Store, Topic, VanishedHolders,
};
use tokio::sync::mpsc;

use crate::sentinel::Group;
use crate::support::{RedisServer, again, bounded, replicated, until};

#[tokio::test]
async fn a_replicated_store_passes_every_case() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let _replica = server.start_replica().await?;
    let store = replicated(&server.url()).await?;
    for (name, case) in cases() {
        println!("{name}");
        bounded(case(&store)).await;
    }
    Ok(())
}

#[tokio::test]
async fn without_a_replica_the_start_says_that_it_cannot_work() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let text = replicated(&server.url()).await.err().expect("no replica");
    assert!(text.to_string().contains("has no replica"), "{text}");
    Ok(())
}

#[tokio::test]
async fn nothing_is_acknowledged_while_the_replica_stands_still() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let replica = server.start_replica().await?;
    let store = replicated(&server.url()).await?;
    bounded(async {
        let scene = Arc::new(Scene::created(&store).await);
        // Scripts are known and the marker is there.
        again(|| async { store.enqueue(&scene.prompt("1")).await }).await;
        replica.freeze()?;
        let before = rounds(&server)
            .await
            .expect("the marker of the first prompt");
        let pending = tokio::spawn({
            let (scene, store) = (scene.clone(), store.clone());
            async move { again(|| async { store.enqueue(&scene.prompt("2")).await }).await }
        });
        // A second round means that the first came back without a confirmation.
        until("the confirmation is asked for again", async || {
            (rounds(&server).await? >= before + 2).then_some(())
        })
        .await?;
        // Redis has it, but nobody was told.
        assert_eq!(store.inbox(&scene.id, &[]).await?.len(), 3);
        assert!(!pending.is_finished());
        replica.thaw()?;
        let outcome = pending.await?;
        assert!(
            matches!(
                outcome,
                EnqueueOutcome::Accepted { command, .. } | EnqueueOutcome::Joined { command, .. } if command.number == 3
            ),
            "{outcome:?}"
        );
        assert_eq!(store.inbox(&scene.id, &[]).await?.len(), 3);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_unconfirmed_step_fails_in_the_end() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let replica = server.start_replica().await?;
    let store = replicated(&server.url()).await?;
    bounded(async {
        let scene = Scene::created(&store).await;
        replica.freeze()?;
        let error = store.enqueue(&scene.prompt("1")).await.unwrap_err();
        assert!(
            matches!(&error, Error::Unavailable(text) if text.contains("replicas in step have confirmed")),
            "{error}"
        );
        replica.thaw()?;
        // The caller repeats, and the same command counts once.
        again(|| async { store.enqueue(&scene.prompt("1")).await }).await;
        assert_eq!(store.inbox(&scene.id, &[]).await?.len(), 2);
        Ok(())
    })
    .await
}

/// Replicas that are away for long must not make a request look as if it stopped one worker after the other.
#[tokio::test]
async fn a_holder_whose_claim_was_not_confirmed_has_not_vanished() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let replica = server.start_replica().await?;
    let store = replicated(&server.url()).await?;
    bounded(async {
        let scene = Scene::created(&store).await;
        replica.freeze()?;
        for _ in 0..4 {
            let error = store.claim(&scene.id, &scene.claimant(OVER)).await;
            let error = error.expect_err("nobody confirms it");
            assert!(matches!(&error, Error::Unavailable(_)), "{error}");
        }
        replica.thaw()?;
        let claimant = scene.claimant(OVER);
        let claim = again(|| async { store.claim(&scene.id, &claimant).await }).await;
        assert_eq!(
            claim.expect("its lease is over").vanished,
            VanishedHolders::default()
        );
        // This one began.
        let claim = scene.try_claim(&scene.claimant(LONG)).await;
        assert_eq!(claim.expect("its lease is over").vanished.at_once, 1);
        Ok(())
    })
    .await
}

/// Whoever reads the log before replicas have it must not show what a failover takes back, and is told when they do: also if
/// the one who wrote it is gone by then.
#[tokio::test]
async fn what_replicas_lack_is_not_shown_to_readers_either() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let replica = server.start_replica().await?;
    let store = replicated(&server.url()).await?;
    bounded(async {
        let scene = Scene::created(&store).await;
        let token = scene.claim().await.token;
        let log = LogId::Session(scene.id.clone());
        let begun = vec![begin(1, &scene.creator, DeliveryPath::Connection)];
        scene.write(&scene.append(&token, 1, begun)).await;
        scene.write(&scene.append(&token, 2, updates(3))).await;
        let (sink, mut signals) = mpsc::channel(64);
        let listener = store.listen(sink).await?;
        listener.subscribe(&Topic::Log(log.clone())).await?;
        replica.freeze()?;
        let answered = scene.append(
            &token,
            5,
            vec![end(&scene.creator, DeliveryPath::Connection)],
        );
        let pending = tokio::spawn({
            let writer = store.clone();
            async move { writer.append(&answered).await }
        });
        until("the primary has the answer", async || {
            (store.heads(std::slice::from_ref(&log)).await.ok()? == [5]).then_some(())
        })
        .await?;
        let shown = store.read_confirmed(&log, 1, 64).await?;
        assert_eq!(shown.last().map(|frame| frame.last()), Some(4));
        assert!(store.read_confirmed(&log, 5, 64).await?.is_empty());
        // Its worker ends before it can announce it.
        pending.abort();
        replica.thaw()?;
        loop {
            let signal = signals.recv().await.expect("readers are told");
            if matches!(&signal, Signal::Grown(of, 5) if *of == log) {
                break;
            }
        }
        let shown = store.read_confirmed(&log, 5, 64).await?;
        assert_eq!(shown.last().map(|frame| frame.last()), Some(5));
        Ok(())
    })
    .await
}

/// As for commands: a session that was forked, taken in or deleted stays so.
#[tokio::test]
async fn what_becomes_of_whole_sessions_is_confirmed_too() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let replica = server.start_replica().await?;
    let store = replicated(&server.url()).await?;
    bounded(async {
        let (scene, deleted) = (Scene::created(&store).await, Scene::created(&store).await);
        let (child, stranger) = (scene.heir(), Scene::planned(&store));
        let record = store.record(&scene.id, &scene.principal).await?;
        let adoption = AdoptRequest {
            id: stranger.id.clone(),
            principal: stranger.principal.clone(),
            record: record.expect("it is there"),
            shares: None,
        };
        let claimant = stranger.claimant(LONG);
        assert!(store.adopt(&adoption, &claimant).await?);
        replica.freeze()?;
        let (fork, end) = (scene.fork(&child), deleted.last_command());
        let revocation = Revocation::at_once(RevocationSubject::Session(deleted.id.clone()));
        let (forked, published, gone, revoked) = tokio::join!(
            store.fork(&fork),
            store.publish(&stranger.id, &claimant.token),
            store.delete(&deleted.id, &deleted.principal, &end),
            store.revoke(&revocation),
        );
        replica.thaw()?;
        let unconfirmed = [forked.err(), published.err(), gone.err(), revoked.err()];
        for error in unconfirmed {
            assert!(
                matches!(&error, Some(Error::Unavailable(text)) if text.contains("replicas in step have confirmed")),
                "{error:?}"
            );
        }
        let forked = again(|| store.fork(&fork)).await;
        assert!(matches!(forked, ForkOutcome::Done { head: 0, .. }), "{forked:?}");
        assert!(again(|| store.publish(&stranger.id, &claimant.token)).await);
        stranger.lists_only(&stranger).await;
        Ok(())
    })
    .await
}

/// A step that only the lost primary knew must not be confirmed by the next one.
#[tokio::test]
async fn a_step_that_was_lost_before_it_was_confirmed_is_not_taken_for_done() -> anyhow::Result<()>
{
    let mut server = RedisServer::start().await?;
    let replica = server.start_replica().await?;
    let store = replicated(&server.url()).await?;
    bounded(async {
        let scene = Arc::new(Scene::created(&store).await);
        // The script is known, so that the first round takes the step.
        again(|| async { store.enqueue(&scene.prompt("1")).await }).await;
        replica.freeze()?;
        let before = rounds(&server).await.expect("the first prompt's marker");
        let pending = tokio::spawn({
            let (scene, store) = (scene.clone(), store.clone());
            async move { again(|| async { store.enqueue(&scene.prompt("2")).await }).await }
        });
        // The first round told what the step returned, but not that it is safe.
        until("the confirmation is asked for again", async || {
            (rounds(&server).await? >= before + 2).then_some(())
        })
        .await?;
        server.kill();
        // As a replica that never got anything would: no session, no command.
        server.start_empty_at().await?;
        let _other = server.start_replica().await?;
        assert_eq!(pending.await?, EnqueueOutcome::NotFound);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn what_was_acknowledged_survives_the_primary() -> anyhow::Result<()> {
    let mut group = Group::start().await?;
    let store = replicated(&group.url()).await?;
    bounded(async {
        let stop = Arc::new(AtomicBool::new(false));
        let mut clients = Vec::new();
        for _ in 0..8 {
            clients.push(tokio::spawn(prompt_on(store.clone(), stop.clone())));
        }
        // Killed in the middle: some steps are under way.
        until("some prompts are accepted", async || {
            let calls: String = group
                .primary
                .command(&["INFO", "commandstats"])
                .await
                .ok()?;
            let waits = calls
                .lines()
                .find(|line| line.starts_with("cmdstat_wait:"))?;
            let count: u64 = waits.split(['=', ',']).nth(1)?.parse().ok()?;
            (count > 100).then_some(())
        })
        .await?;
        group.primary.kill();
        stop.store(true, Ordering::SeqCst);
        group.has_failed_over().await?;
        let survivor = group.replica.store().await?;
        let mut scenes = Vec::new();
        for client in clients {
            let (scene, acknowledged) = client.await?;
            assert!(!acknowledged.is_empty());
            let waiting = survivor.inbox(&scene.id, &[]).await?;
            let found: BTreeSet<CommandId> = waiting.iter().map(|queued| queued.id).collect();
            let missing: Vec<&CommandId> = acknowledged.difference(&found).collect();
            assert!(
                missing.is_empty(),
                "{missing:?} of {} are missing",
                acknowledged.len()
            );
            scenes.push(scene);
        }
        // With another replica the same store goes on.
        let _second = group.replica.start_replica().await?;
        again(|| async { store.enqueue(&scenes[0].prompt("later")).await }).await;
        Ok(())
    })
    .await
}

/// How often a confirmation was asked for, as the marker has it.
pub async fn rounds(server: &RedisServer) -> Option<u64> {
    let keys: Vec<String> = server.command(&["KEYS", "*}:sync:*"]).await.ok()?;
    server.command(&["GET", keys.first()?]).await.ok()
}

/// Sends prompts until told to stop or refused; returns the numbers of those that were accepted.
async fn prompt_on(store: Arc<dyn Store>, stop: Arc<AtomicBool>) -> (Scene, BTreeSet<CommandId>) {
    let scene = Scene::created(&store).await;
    let mut acknowledged = BTreeSet::new();
    for request in 1..200 {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        match store.enqueue(&scene.prompt(&request.to_string())).await {
            Ok(EnqueueOutcome::Accepted { command, .. }) => _ = acknowledged.insert(command),
            Ok(other) => panic!("{other:?}"),
            Err(Error::Unavailable(_)) => break,
            Err(error) => panic!("{error}"),
        }
    }
    (scene, acknowledged)
}
