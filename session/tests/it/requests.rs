//! How many notes of requests a connection may have on Redis.

use baton_session::conformance::scene::Scene;

use crate::support::{RedisServer, bounded};

const NOTES: u64 = 1500;

async fn count(server: &RedisServer, key: &str) -> anyhow::Result<u64> {
    server.command(&["HLEN", key]).await
}

#[tokio::test]
async fn notes_of_requests_that_are_done_make_room_and_those_that_live_stay() -> anyhow::Result<()>
{
    let server = RedisServer::start().await?;
    let store = server.store().await?;
    bounded(async {
        let scene = Scene::created(&store).await;
        store.enqueue(&scene.findable("lives")).await?;
        let lives = scene.prompt("lives").key.key;
        let keys: Vec<String> = server.command(&["KEYS", "*:q:*"]).await?;
        let [notes] = &keys[..] else {
            panic!("{keys:?}");
        };
        // All of them were noted long ago, and only one waits.
        let old = format!("{} 1", scene.id);
        server.command::<()>(&["HSET", notes, &lives, &old]).await?;
        for number in 1..NOTES {
            let key = format!("{number:024x}");
            server.command::<()>(&["HSET", notes, &key, &old]).await?;
        }
        // Those of the last minute are left alone, since they may be about to be taken.
        let now: Vec<u64> = server.command(&["TIME"]).await?;
        let fresh = format!("{} {}", scene.id, now[0] * 1000);
        server
            .command::<()>(&["HSET", notes, "fresh", &fresh])
            .await?;

        for number in 0..400 {
            store.enqueue(&scene.findable(&number.to_string())).await?;
        }
        let left = count(&server, notes).await?;
        assert!((402..600).contains(&left), "{left}");
        for (key, is_kept) in [(&*lives, 1), ("fresh", 1)] {
            let kept: u64 = server.command(&["HEXISTS", notes, key]).await?;
            assert_eq!(kept, is_kept, "{key}");
        }
        let found = store.session_of(&scene.creator, &lives).await?;
        assert_eq!(found, Some(scene.id.clone()));
        Ok(())
    })
    .await
}
