//! A failover to a replica that lacked the end: the store tells a worker what is gone.

use baton_session::conformance::scene::{LONG, Scene, begin, updates};
use baton_session::route::DeliveryPath;
use baton_session::store::{AppendOutcome, AppendRequest};

use crate::support::{RedisServer, bounded};

#[tokio::test]
async fn a_log_that_lost_its_tail_tells_where_to_go_on() -> anyhow::Result<()> {
    let primary = RedisServer::start().await?;
    let replica = primary.start_replica().await?;
    let store = primary.store().await?;
    bounded(async {
        let scene = Scene::created(&store).await;
        let token = scene.claim().await.token;
        let turn = vec![begin(1, &scene.creator, DeliveryPath::Connection)];
        scene.write(&scene.append(&token, 1, turn)).await;
        scene.write(&scene.append(&token, 2, updates(2))).await;
        primary.copied_to(&replica).await?;
        // From here on the replica goes its own way: what comes now is what a failover loses.
        let _: () = replica.command(&["REPLICAOF", "NO", "ONE"]).await?;
        scene.write(&scene.append(&token, 4, updates(3))).await;

        let promoted = replica.store().await?;
        let next = scene.append(&token, 7, updates(1));
        assert_eq!(
            promoted.append(&next).await?,
            AppendOutcome::Gap { head: 3 }
        );
        // Also for a repetition of what had been acknowledged, if it begins behind the end.
        let last = scene.append(&token, 5, updates(2));
        assert_eq!(
            promoted.append(&last).await?,
            AppendOutcome::Gap { head: 3 }
        );
        // An append that only acknowledges is no exception.
        let acks = AppendRequest {
            acks: scene.named(&[1]).await,
            release: true,
            ..scene.append(&token, 8, Vec::new())
        };
        assert_eq!(
            promoted.append(&acks).await?,
            AppendOutcome::Gap { head: 3 }
        );
        assert_eq!(promoted.inbox(&scene.id, &[]).await?.len(), 1);

        let (head, released) = (7, false);
        let rest = scene.append(&token, 4, updates(4));
        assert_eq!(
            promoted.append(&rest).await?,
            AppendOutcome::Done { head, released }
        );
        let frames = promoted.read(&scene.log(), 1, 10).await?;
        assert!(frames.iter().map(|frame| frame.last()).eq([1, 3, 7]));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_claim_that_was_lost_counts_as_somebody_elses() -> anyhow::Result<()> {
    let primary = RedisServer::start().await?;
    let replica = primary.start_replica().await?;
    let store = primary.store().await?;
    bounded(async {
        let scene = Scene::created(&store).await;
        primary.copied_to(&replica).await?;
        let _: () = replica.command(&["REPLICAOF", "NO", "ONE"]).await?;
        let token = scene.claim().await.token;
        scene.write(&scene.append(&token, 1, updates(1))).await;

        let promoted = replica.store().await?;
        let next = scene.append(&token, 2, updates(1));
        assert_eq!(promoted.append(&next).await?, AppendOutcome::Fenced);
        // Its frame is not there, so even its first events are not its own any more.
        let first = scene.append(&token, 1, updates(1));
        assert_eq!(promoted.append(&first).await?, AppendOutcome::Fenced);
        let held = [(scene.id.clone(), token)];
        assert_eq!(promoted.renew(&held, LONG).await?.len(), 1);
        // It waits for a worker, as before.
        let claimant = scene.claimant(LONG);
        let claim = promoted.claim(&scene.id, &claimant).await?;
        assert_eq!(claim.expect("nobody holds it").head, 0);
        Ok(())
    })
    .await
}
