//! A connection that opens and closes sessions all day must not run out of places to note them.

use std::sync::Arc;

use baton_session::command::IdempotencyKey;
use baton_session::conformance::scene::Scene;
use baton_session::event::Event;
use baton_session::id::{LogId, Partition, SessionId};
use baton_session::store::{
    MemoryStore, OUTBOX_WATCHES, OutboxProgress, PostOutcome, Store, StreamId, StreamTouch,
};

use crate::support::{RedisServer, bounded};

const AT_ONCE: u64 = 512;

async fn opens_more_sessions_than_can_be_watched(store: &Arc<dyn Store>) -> anyhow::Result<()> {
    let to = Scene::planned(store).creator;
    let stream = StreamId {
        connection: to.clone(),
        session: None,
    };
    store.open_stream(&stream, "", "holder").await?;
    let key = IdempotencyKey::of(&to, None, b"");
    let mut told = 0;
    while told < OUTBOX_WATCHES + 2 * AT_ONCE {
        for _ in 0..AT_ONCE {
            told += 1;
            let session = SessionId::mint(Partition::random(store.partitions()));
            let watch = Event::Watch {
                session: session.clone(),
                after: 0,
            };
            let posted = store.post(&to, watch, &key).await?;
            assert!(matches!(posted, PostOutcome::New { .. }), "{posted:?}");
            // Some are left before their entry leaves the outbox, the others after that.
            if told % 2 == 0 {
                store.forget_watch(&to, &session, told).await?;
            }
        }
        // An entry leaves when what comes after it was delivered.
        for _ in 0..4 {
            let delivered = OutboxProgress {
                upto: told,
                settled: told,
            };
            let touch = StreamTouch {
                stream: stream.clone(),
                holder: "holder".into(),
                written: None,
                delivered: Some(delivered),
            };
            store.touch_streams(&[touch]).await?;
        }
        for (entry, session) in store.watches(&to).await? {
            store.forget_watch(&to, &session, entry).await?;
        }
    }
    assert_eq!(store.watches(&to).await?, []);
    let first = store.read(&LogId::Outbox(to), 1, 1).await?[0].first;
    assert!(first + 2 * AT_ONCE > told, "entry {first} of {told} stays");
    Ok(())
}

#[tokio::test]
async fn any_number_of_sessions_one_after_the_other_in_memory() -> anyhow::Result<()> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    opens_more_sessions_than_can_be_watched(&store).await
}

#[tokio::test]
async fn any_number_of_sessions_one_after_the_other_on_redis() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let store = server.store().await?;
    bounded(opens_more_sessions_than_can_be_watched(&store)).await
}
