//! Each key of the store goes missing in turn, and every step is tried then, and once more: none
//! may end in a script error. A step with such an error would be refused for ever, whereas a
//! missing session is simply not found.

use std::sync::Arc;

use anyhow::ensure;
use baton_session::command::{CommandKind, IdempotencyKey};
use baton_session::conformance::scene::{
    EVERYTHING_THAT_RESTS, EVERYTHING_UNUSED, LONG, OVER, Scene, begin, end, update, updates,
};
use baton_session::event::Event;
use baton_session::id::LogId;
use baton_session::route::DeliveryPath;
use baton_session::store::{
    AppendRequest, ClaimToken, Claimant, Error, Result, SeenPosition, Store, StreamId, StreamTouch,
};

use crate::support::{RedisServer, bounded};

/// Everything is kept once more in the second database, to begin again from there.
const SAVE: &str = "
for _, key in ipairs(redis.call('KEYS', '*')) do redis.call('COPY', key, key, 'DB', 1, 'REPLACE') \
                    end
return 1";
const BEGIN_AGAIN: &str = "
redis.call('FLUSHDB')
redis.call('SELECT', 1)
for _, key in ipairs(redis.call('KEYS', '*')) do redis.call('COPY', key, key, 'DB', 0) end
redis.call('SELECT', 0)
return redis.call('DEL', ARGV[1])";

/// A session, and under which claim it is held, if it is.
struct Case {
    what: &'static str,
    scene: Scene,
    token: ClaimToken,
}

async fn cases(store: &Arc<dyn Store>) -> anyhow::Result<Vec<Case>> {
    let waiting = Scene::created(store).await;

    let running = Scene::created(store).await;
    let token = running.claim().await.token;
    let mut turn = vec![begin(1, &running.creator, DeliveryPath::Connection)];
    turn.extend(updates(3));
    running.write(&running.append(&token, 1, turn)).await;
    store.enqueue(&running.findable("2")).await?;
    running.open_stream(&running.creator, "holder").await;
    let watch = Event::Watch {
        session: running.id.clone(),
        after: 0,
    };
    let key = IdempotencyKey::of(&running.creator, None, b"watch");
    store.post(&running.creator, watch, &key).await?;

    let resting = Scene::created(store).await;
    resting.talk("words").await;
    resting.tidy(&EVERYTHING_THAT_RESTS).await;

    let parent = Scene::created(store).await;
    parent.talk("words").await;
    let child = parent.forked().await;

    let deleted = Scene::created(store).await;
    deleted.talk("words").await;
    deleted.delete().await;

    let unheld = |what, scene: Scene| Case {
        what,
        token: scene.claimant(LONG).token,
        scene,
    };
    let running = Case {
        what: "running",
        scene: running,
        token,
    };
    Ok(vec![
        running,
        unheld("waiting", waiting),
        unheld("resting", resting),
        unheld("a parent", parent),
        unheld("a fork", child),
        unheld("deleted", deleted),
    ])
}

/// Every step that takes a key: its name, and what came of it.
const STEPS: [&str; 29] = [
    "enqueue",
    "cancel",
    "session_of",
    "attach",
    "attachment",
    "unwatch",
    "fork",
    "list",
    "usage",
    "delete",
    "record",
    "open session stream",
    "open connection stream",
    "touch",
    "close stream",
    "read",
    "read outbox",
    "heads",
    "claim",
    "take over",
    "due",
    "renew",
    "inbox",
    "append",
    "finish",
    "release",
    "tidy",
    "forget",
    "post",
];

async fn step(name: &str, case: &Case) -> Result<()> {
    let Case { scene, token, .. } = case;
    let (store, id, creator) = (&scene.store, &scene.id, &scene.creator);
    let connection = StreamId {
        connection: creator.clone(),
        session: None,
    };
    let touches = [
        scene.touch(creator, "holder", Some("1.00000000")),
        StreamTouch {
            stream: connection.clone(),
            ..scene.touch(creator, "holder", Some("1"))
        },
    ];
    match name {
        "enqueue" => store.enqueue(&scene.findable("9")).await.map(drop),
        "cancel" => {
            let cancel = scene.request(scene.command(CommandKind::Cancel, None));
            store.enqueue(&cancel).await.map(drop)
        }
        "session_of" => store.session_of(creator, "2").await.map(drop),
        "attach" => store.attach(&scene.attach(creator, "8")).await.map(drop),
        "attachment" => store
            .attachment(id, creator, &scene.principal)
            .await
            .map(drop),
        "unwatch" => {
            let seen = SeenPosition {
                upto: 4,
                directive: 0,
            };
            store.unwatch(id, creator, 1, seen).await.map(drop)
        }
        "fork" => store.fork(&scene.fork(&scene.heir())).await.map(drop),
        "list" => store.list(&scene.listing()).await.map(drop),
        "usage" => store.usage(&scene.principal, 100).await.map(drop),
        "delete" => {
            let last = scene.last_command();
            store.delete(id, &scene.principal, &last).await.map(drop)
        }
        "record" => store.record(id, &scene.principal).await.map(drop),
        "open session stream" => {
            let stream = scene.stream(creator);
            store
                .open_stream(&stream, "other", &scene.principal)
                .await
                .map(drop)
        }
        "open connection stream" => store
            .open_stream(&connection, "other", &scene.principal)
            .await
            .map(drop),
        "touch" => store.touch_streams(&touches).await.map(drop),
        "close stream" => {
            store.close_stream(&touches[0]).await?;
            store.close_stream(&touches[1]).await
        }
        "read" => store.read(&scene.log(), 1, 10).await.map(drop),
        "read outbox" => {
            store.watches(creator).await?;
            let outbox = LogId::Outbox(creator.clone());
            store.read(&outbox, 1, 10).await.map(drop)
        }
        "heads" => {
            let logs = [scene.log(), LogId::Outbox(creator.clone())];
            store.heads(&logs).await.map(drop)
        }
        "claim" => store.claim(id, &scene.claimant(LONG)).await.map(drop),
        "take over" => {
            let due = store.due(id.partition(), &scene.agent, 10).await?;
            let claimant = Claimant {
                takes_over: Some(due.at),
                ..scene.claimant(OVER)
            };
            store.claim(id, &claimant).await.map(drop)
        }
        "due" => store.due(id.partition(), &scene.agent, 10).await.map(drop),
        "renew" => store
            .renew(&[(id.clone(), token.clone())], LONG)
            .await
            .map(drop),
        "inbox" => {
            store.waiting_commands(id).await?;
            store.inbox(id, &[]).await.map(drop)
        }
        "append" => {
            let append = scene.append(token, 5, vec![update("more")]);
            store.append(&append).await.map(drop)
        }
        "finish" => {
            let append = AppendRequest {
                acks: scene.named(&[1]).await,
                release: true,
                ..scene.append(
                    token,
                    5,
                    vec![end(&scene.creator, DeliveryPath::Connection)],
                )
            };
            store.append(&append).await.map(drop)
        }
        "release" => store.release(id, token).await,
        "tidy" => store
            .tidy(id.partition(), &EVERYTHING_THAT_RESTS)
            .await
            .map(drop),
        "forget" => store
            .tidy(id.partition(), &EVERYTHING_UNUSED)
            .await
            .map(drop),
        "post" => {
            let key = IdempotencyKey::of(creator, Some("7"), b"post");
            let message = Event::Message {
                message: "{}".into(),
            };
            store.has_outbox_room(creator).await?;
            store.post(creator, message, &key).await.map(drop)
        }
        other => unreachable!("{other} is no step"),
    }
}

#[tokio::test]
async fn no_step_breaks_because_a_key_is_gone() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let store = server.store().await?;
    bounded(async {
        let cases = cases(&store).await?;
        let _: u64 = server.command(&["EVAL", SAVE, "0"]).await?;
        let keys: Vec<String> = server.command(&["KEYS", "*"]).await?;
        ensure!(keys.len() > 30, "there are {} keys", keys.len());
        let mut faults = Vec::new();
        for key in &keys {
            for case in &cases {
                // The others are of other sessions and connections.
                let (id, creator) = (case.scene.id.as_str(), case.scene.creator.as_str());
                let shared = !cases.iter().any(|other| {
                    key.ends_with(other.scene.id.as_str())
                        || key.ends_with(other.scene.creator.as_str())
                });
                if !(shared || key.ends_with(id) || key.ends_with(creator)) {
                    continue;
                }
                for name in STEPS {
                    let _: u64 = server.command(&["EVAL", BEGIN_AGAIN, "0", key]).await?;
                    // Twice: what the first try has left must not break the next one either.
                    for _ in 0..2 {
                        if let Err(Error::Broken(fault)) = step(name, case).await {
                            faults.push(format!("{}, {name}, without {key}: {fault}", case.what));
                        }
                    }
                }
            }
        }
        ensure!(
            faults.is_empty(),
            "{} faults:\n{}",
            faults.len(),
            faults.join("\n")
        );
        Ok(())
    })
    .await
}
