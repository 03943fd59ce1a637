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
use baton_session::id::{LogId, Partition};
use baton_session::revocation::{Revocation, RevocationSubject};
use baton_session::route::DeliveryPath;
use baton_session::store::redis::script_hashes;
use baton_session::store::{
    ALIVE, AdoptRequest, AgentCard, AppendRequest, ClaimToken, Claimant, Error, Result,
    SeenPosition, SessionRecord, Store, StreamId, StreamTouch,
};
use bytes::Bytes;

use crate::support::{RedisServer, bounded};

/// Scripts that no step here needs: one is for a store that was restored, one only reads, and is for
/// connections with very many requests, and the others are for stores that wait for replicas, and
/// take nothing but the session's key.
const NOT_TRIED: [&str; 5] = [
    "confirm_claim",
    "confirm_events",
    "unconfirmed",
    "restored",
    "request_waits",
];

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

    let adopted = Scene::planned(store);
    let adopter = adopted.claimant(LONG);
    store.adopt(&adoption(&adopted), &adopter).await?;
    let adopted = Case {
        what: "adopted",
        scene: adopted,
        token: adopter.token,
    };
    for name in ["register", "revoke", "spend"] {
        step(name, &adopted).await?;
    }

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
        adopted,
        unheld("waiting", waiting),
        unheld("resting", resting),
        unheld("a parent", parent),
        unheld("a fork", child),
        unheld("deleted", deleted),
    ])
}

/// Every step that takes a key: its name, and what came of it.
const STEPS: [&str; 45] = [
    "create",
    "adopt",
    "publish",
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
    "last written",
    "forget watch",
    "read",
    "read what is confirmed",
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
    "register",
    "agents",
    "revoke",
    "revocations",
    "spend",
    "report",
    "reports",
    "order",
    "worker of",
    "room",
];

fn adoption(scene: &Scene) -> AdoptRequest {
    AdoptRequest {
        id: scene.id.clone(),
        principal: scene.principal.clone(),
        record: SessionRecord {
            agent: scene.agent.clone(),
            cwd: "/somewhere".into(),
            params: "{}".into(),
            setup: Default::default(),
            state: "state".into(),
            view: "view".into(),
            shown: None,
            title: "A title".into(),
            usage: Default::default(),
            bound: Default::default(),
            head: 0,
            updated: 1_700_000_000_000,
            began: None,
        },
        shares: None,
    }
}

fn card(scene: &Scene) -> AgentCard {
    AgentCard {
        name: scene.agent.clone(),
        version: "1".into(),
        initialize: serde_json::json!({}),
    }
}

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
        "create" => {
            let first = scene.first();
            let key = IdempotencyKey::of(creator, Some("0"), &first.message);
            store.create(&scene.new_session(), &first, &key).await
        }
        "adopt" => {
            let claimant = scene.claimant(LONG);
            store.adopt(&adoption(scene), &claimant).await.map(drop)
        }
        "publish" => store.publish(id, token).await.map(drop),
        "enqueue" => {
            // One of those with which what was noted of others is looked at.
            let mut requests = (9..).map(|number: u64| scene.findable(&number.to_string()));
            let request = requests.find(|request| request.key.key.ends_with('0'));
            let request = request.expect("one in 16 is");
            store.enqueue(&request).await.map(drop)
        }
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
        "last written" => {
            store.last_written(&touches[0].stream, "holder").await?;
            store.last_written(&connection, "holder").await.map(drop)
        }
        "forget watch" => store.forget_watch(creator, id, 1).await,
        "read what is confirmed" => {
            let read = store.read_confirmed(&scene.log(), 1, 10).await;
            read.map(drop)
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
        "tidy" => {
            // What belongs to no partition is done with the first one.
            store.tidy(Partition(0), &EVERYTHING_THAT_RESTS).await?;
            let tidied = store.tidy(id.partition(), &EVERYTHING_THAT_RESTS).await;
            tidied.map(drop)
        }
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
        "register" => {
            let worker = scene.claimant(LONG).worker;
            store.register(&card(scene), &worker, ALIVE).await
        }
        "agents" => {
            store.deserted().await?;
            store.waiting(&scene.agent).await?;
            store.agents().await.map(drop)
        }
        "revoke" => {
            let subject = RevocationSubject::Principal(scene.principal.clone());
            store.revoke(&Revocation::at_once(subject)).await.map(drop)
        }
        "revocations" => store.revocations().await.map(drop),
        "spend" => store.spend(id.as_str(), LONG).await.map(drop),
        "report" => {
            let report = Bytes::from_static(b"{}");
            store.report(id.as_str(), &report, LONG).await.map(drop)
        }
        "reports" => store.reports().await.map(drop),
        "order" => store.order(id.as_str(), "drain", LONG).await.map(drop),
        "worker of" => store.worker_of(id, &scene.principal).await.map(drop),
        "room" => store.has_room().await.map(drop),
        other => unreachable!("{other} is no step"),
    }
}

/// What goes wrong with this one of the cases when each key is missing.
async fn without_each_key(what: &str) -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let store = server.store().await?;
    bounded(async {
        let cases = cases(&store).await?;
        let _: u64 = server.command(&["EVAL", SAVE, "0"]).await?;
        let keys: Vec<String> = server.command(&["KEYS", "*"]).await?;
        ensure!(keys.len() > 30, "there are {} keys", keys.len());
        let case = cases.iter().find(|case| case.what == what);
        let case = case.expect("there is such a case");
        let mut faults = Vec::new();
        for key in keys.iter().filter(|key| concerns(key, case, &cases)) {
            for name in STEPS {
                let _: u64 = server.command(&["EVAL", BEGIN_AGAIN, "0", key]).await?;
                // Twice: what the first try has left must not break the next one either.
                for _ in 0..2 {
                    if let Err(Error::Broken(fault)) = step(name, case).await {
                        faults.push(format!("{what}, {name}, without {key}: {fault}"));
                    }
                }
            }
        }
        let (count, faults) = (faults.len(), faults.join("\n"));
        ensure!(faults.is_empty(), "{count} faults:\n{faults}");
        Ok(())
    })
    .await
}

/// Whether it is of this session, of its connection, or of everybody.
fn concerns(key: &str, case: &Case, cases: &[Case]) -> bool {
    let is_of = |case: &Case| {
        key.ends_with(case.scene.id.as_str()) || key.ends_with(case.scene.creator.as_str())
    };
    is_of(case) || !cases.iter().any(is_of)
}

#[tokio::test]
async fn no_step_with_a_session_that_waits_breaks_because_a_key_is_gone() -> anyhow::Result<()> {
    without_each_key("waiting").await
}

#[tokio::test]
async fn no_step_with_a_running_session_breaks_because_a_key_is_gone() -> anyhow::Result<()> {
    without_each_key("running").await
}

#[tokio::test]
async fn no_step_with_a_session_at_rest_breaks_because_a_key_is_gone() -> anyhow::Result<()> {
    without_each_key("resting").await
}

#[tokio::test]
async fn no_step_with_a_parent_breaks_because_a_key_is_gone() -> anyhow::Result<()> {
    without_each_key("a parent").await
}

#[tokio::test]
async fn no_step_with_a_fork_breaks_because_a_key_is_gone() -> anyhow::Result<()> {
    without_each_key("a fork").await
}

#[tokio::test]
async fn no_step_with_a_deleted_session_breaks_because_a_key_is_gone() -> anyhow::Result<()> {
    without_each_key("deleted").await
}

#[tokio::test]
async fn no_step_with_an_adopted_session_breaks_because_a_key_is_gone() -> anyhow::Result<()> {
    without_each_key("adopted").await
}

/// A script that is new has to be tried without its keys, too.
#[tokio::test]
async fn the_steps_take_every_script() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let store = server.store().await?;
    bounded(async {
        for case in cases(&store).await? {
            for name in STEPS {
                let tried = step(name, &case).await;
                let broken = matches!(&tried, Err(Error::Broken(_)));
                ensure!(!broken, "{}, {name}: {tried:?}", case.what);
            }
        }
        for (name, hash) in script_hashes() {
            let known: Vec<bool> = server.command(&["SCRIPT", "EXISTS", &hash]).await?;
            let tried = known == [true];
            ensure!(
                tried != NOT_TRIED.contains(&name),
                "{name} is tried: {tried}"
            );
        }
        Ok(())
    })
    .await
}
