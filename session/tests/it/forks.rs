//! Forks on Redis: what is left of a session as long as others read its log, and that nothing is left after.

use std::collections::HashMap;
use std::sync::Arc;

use baton_session::conformance::scene::{
    CWD, EVERYTHING_THAT_RESTS, Scene, begin, end, said, updates,
};
use baton_session::event::Event;
use baton_session::id::Nonce;
use baton_session::route::DeliveryPath;
use baton_session::store::{AppendRequest, ForkOutcome, Store};

use crate::support::{RedisServer, bounded};

type Events = Vec<(u64, Nonce, Event)>;

/// A log of many frames of three events each, more than become blocks in one step.
async fn long(store: &Arc<dyn Store>, frames: u64) -> Scene {
    let scene = Scene::created(store).await;
    let token = scene.claim().await.token;
    for frame in 0..frames {
        let word = |part: u64| said(&scene.id, &format!("words {frame} {part}"));
        let events = vec![word(0), word(1), word(2)];
        scene
            .write(&scene.append(&token, frame * 3 + 1, events))
            .await;
    }
    scene.finish(&token).await;
    scene
}

/// The events with the name of their session in the place of the other's.
fn renamed(events: &Events, from: &Scene, to: &Scene) -> Events {
    let rename = |event: &Event| match event {
        Event::Update { turn, message } => {
            let text = String::from_utf8(message.to_vec()).expect("text");
            let message = text.replace(from.id.as_str(), to.id.as_str()).into();
            Event::Update {
                turn: *turn,
                message,
            }
        }
        other => other.clone(),
    };
    let renamed = |(seq, nonce, event): &(u64, Nonce, Event)| (*seq, *nonce, rename(event));
    events.iter().map(renamed).collect()
}

async fn keys(server: &RedisServer, pattern: &str) -> anyhow::Result<Vec<String>> {
    let mut keys: Vec<String> = server.command(&["KEYS", pattern]).await?;
    // Views belong to whoever shows the same, and expire by themselves.
    keys.retain(|key| !key.contains(":v:") && !key.ends_with("{format}:store"));
    keys.sort();
    Ok(keys)
}

async fn rests(server: &RedisServer, scene: &Scene) -> anyhow::Result<bool> {
    Ok(!keys(server, &format!("*:z:{}", scene.id)).await?.is_empty())
}

#[tokio::test]
async fn a_fork_reads_the_same_whatever_becomes_of_its_parent() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let store = server.store().await?;
    bounded(async {
        let parent = long(&store, 300).await;
        let all = parent.events(1).await;
        assert_eq!(all.len(), 900);
        // In the middle of a frame.
        let early = parent.heir();
        let outcome = parent.try_fork(&parent.cut(&early, 800, "")).await;
        assert!(matches!(outcome, ForkOutcome::Done { head: 800, .. }));
        let read = async |child: &Scene, upto: usize| {
            let expected = renamed(&all[..upto].to_vec(), &parent, child);
            for from in [1, 2, 3, 254, 255, 256, 257, 767, 768, 769, 770, 799, 800] {
                let found = child.events(from).await;
                assert_eq!(found, expected[from as usize - 1..], "from {from}");
            }
        };
        read(&early, 800).await;
        parent.tidy(&EVERYTHING_THAT_RESTS).await;
        assert!(rests(&server, &parent).await?);
        read(&early, 800).await;

        // Nobody has to wake it for a fork.
        let late = parent.forked().await;
        read(&late, 900).await;
        assert!(rests(&server, &parent).await?);

        for child in [&early, &late] {
            child.open_stream(&child.creator, "a").await;
        }
        assert!(parent.delete().await);
        parent.forget().await;
        read(&early, 800).await;
        read(&late, 900).await;
        let left: HashMap<String, String> = server
            .command(&[
                "HGETALL",
                &keys(&server, &format!("*:s:{}", parent.id)).await?[0],
            ])
            .await?;
        let mut fields: Vec<&str> = left.keys().map(String::as_str).collect();
        fields.sort_unstable();
        assert_eq!(fields, ["acc", "eb", "hb", "seq", "snap"]);
        assert_eq!(store.heads(&[parent.log()]).await?, [900]);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_log_that_was_in_use_becomes_blocks_when_only_forks_read_it() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let store = server.store().await?;
    bounded(async {
        let parent = long(&store, 20).await;
        let child = parent.forked().await;
        child.open_stream(&child.creator, "a").await;
        let before = child.events(1).await;
        assert!(parent.delete().await);
        parent.forget().await;
        assert_eq!(keys(&server, &format!("*:e:{}", parent.id)).await?, [""; 0]);
        assert_eq!(child.events(1).await, before);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_fork_rests_and_goes_on_like_any_other() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let store = server.store().await?;
    bounded(async {
        let parent = long(&store, 5).await;
        let child = parent.heir();
        parent.try_fork(&parent.cut(&child, 7, "view")).await;
        // With nothing of its own.
        child.tidy(&EVERYTHING_THAT_RESTS).await;
        assert!(rests(&server, &child).await?);
        assert_eq!((child.head().await, child.events(1).await.len()), (7, 7));
        assert_eq!(child.attachment(&child.creator).await.view, "view");
        for round in 1..=3 {
            child.talk(&format!("round {round}")).await;
            let all = child.events(1).await;
            assert_eq!(all.len() as u64, 7 + round * 3);
            child.tidy(&EVERYTHING_THAT_RESTS).await;
            assert!(rests(&server, &child).await?);
            for from in 1..=all.len() {
                assert_eq!(child.events(from as u64).await, all[from - 1..]);
            }
            assert_eq!(child.head().await, 7 + round * 3);
            let grandchild = child.forked().await;
            assert_eq!(
                grandchild.events(1).await,
                renamed(&all, &child, &grandchild)
            );
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_grandchild_outlives_both_its_ancestors() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let store = server.store().await?;
    bounded(async {
        let empty = keys(&server, "*").await?;
        let parent = long(&store, 4).await;
        let child = parent.forked().await;
        child.talk("of the child").await;
        let grandchild = child.forked().await;
        grandchild.talk("of the grandchild").await;
        grandchild.open_stream(&grandchild.creator, "a").await;
        let all = grandchild.events(1).await;
        for ancestor in [&child, &parent] {
            assert!(ancestor.delete().await);
        }
        grandchild.forget().await;
        assert_eq!(grandchild.events(1).await, all);
        grandchild.lists_only(&grandchild).await;
        // With the last that reads it, the whole family goes.
        assert!(grandchild.delete().await);
        grandchild.forget().await;
        assert_eq!(keys(&server, "*").await?, empty);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn nothing_is_left_of_a_family_that_was_deleted() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let store = server.store().await?;
    bounded(async {
        let empty = keys(&server, "*").await?;
        let parent = long(&store, 4).await;
        let (one, two) = (parent.forked().await, parent.forked().await);
        one.talk("one").await;
        let (three, four) = (one.forked().await, two.forked().await);
        // Work that waits, a turn that runs, a rest, a stream, a setup.
        store.enqueue(&two.prompt("1")).await?;
        let token = two.claim().await.token;
        let begun = AppendRequest {
            state: Some("half".into()),
            view: Some("half".into()),
            bound: Some("{\"a\":1}".into()),
            usage: Some("{}".into()),
            ..two.append(
                &token,
                13,
                vec![begin(1, &two.creator, DeliveryPath::Connection)],
            )
        };
        two.write(&begun).await;
        four.tidy(&EVERYTHING_THAT_RESTS).await;
        three.open_stream(&three.creator, "a").await;
        for scene in [&three, &one, &two, &parent, &four] {
            assert!(scene.delete().await);
        }
        parent.forget().await;
        assert!(!keys(&server, "*").await?.is_empty(), "somebody works");
        let waiting = store.inbox(&two.id, &[]).await?;
        let last = AppendRequest {
            acks: waiting.iter().map(|queued| queued.id).collect(),
            release: true,
            ..two.append(
                &token,
                14,
                vec![end(&two.creator, DeliveryPath::Connection)],
            )
        };
        two.write(&last).await;
        parent.forget().await;
        assert_eq!(keys(&server, "*").await?, empty);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn nothing_is_left_of_a_family_that_nobody_used() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let store = server.store().await?;
    bounded(async {
        let empty = keys(&server, "*").await?;
        let parent = long(&store, 4).await;
        let child = parent.forked().await;
        child.open_stream(&child.creator, "a").await;
        let all = child.events(1).await;
        parent.forget().await;
        parent.lists_only(&child).await;
        assert_eq!(child.events(1).await, all);
        let touch = child.touch(&child.creator, "a", None);
        store.close_stream(&touch).await?;
        child.forget().await;
        assert_eq!(keys(&server, "*").await?, empty);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn what_was_deleted_does_not_come_back_from_its_rest() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let store = server.store().await?;
    bounded(async {
        let scene = long(&store, 4).await;
        scene.tidy(&EVERYTHING_THAT_RESTS).await;
        assert!(rests(&server, &scene).await?);
        assert!(scene.delete().await);
        scene.tidy(&EVERYTHING_THAT_RESTS).await;
        assert!(!rests(&server, &scene).await?);
        // Its last words bring it to rest once more.
        let held = Scene::created(&store).await;
        let token = held.claim().await.token;
        held.write(&held.append(&token, 1, updates(2))).await;
        assert!(held.delete().await);
        held.finish(&token).await;
        held.tidy(&EVERYTHING_THAT_RESTS).await;
        assert!(!rests(&server, &held).await?);
        assert_eq!(held.listed().await, []);
        assert_eq!(held.events(1).await.len(), 2);
        assert_eq!(keys(&server, "*:idle").await?, [""; 0]);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_fork_lists_under_its_own_directory() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let store = server.store().await?;
    bounded(async {
        let parent = long(&store, 1).await;
        let child = parent.heir();
        let mut fork = parent.fork(&child);
        fork.cwd = "/elsewhere".into();
        parent.try_fork(&fork).await;
        child.talk("here").await;
        for (cwd, only) in [(CWD, &parent), ("/elsewhere", &child)] {
            let mut listing = parent.listing();
            listing.cwd = Some(cwd.into());
            let page = store.list(&listing).await?;
            assert_eq!(page.len(), 1);
            assert_eq!(page[0].place.session, only.id);
        }
        Ok(())
    })
    .await
}
