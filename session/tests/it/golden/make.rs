//! Fills a store with every kind of thing that there is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use baton_session::command::{Command, CommandKind, IdempotencyKey};
use baton_session::conformance::scene::{
    CWD, EVERYTHING_THAT_RESTS, OVER, Scene, begin, end, said,
};
use baton_session::event::Event;
use baton_session::id::{ConnectionId, Partition};
use baton_session::revocation::{Revocation, RevocationCause, RevocationSubject};
use baton_session::route::DeliveryPath;
use baton_session::store::{
    AdoptRequest, AgentCard, AppendRequest, AttachParams, EnqueueOutcome, EnqueueRequest,
    OUTBOX_WINDOW_ENTRIES, OutboxProgress, PostOutcome, SessionRecord, SessionSetup, Store,
    StreamId, StreamTouch, TidyOutcome, WorkerId,
};
use bytes::Bytes;
use serde_json::json;

use super::story::{Story, Told, agents, outbox, revocations, told};

/// In seconds since 1970; nobody who reads this will see it.
const NEVER: u64 = 32_000_000_000;
/// A single-use name that was used.
pub const SPENT: &str = "golden-ticket";
/// How far the stream of the session `questioned` was written.
pub const WRITTEN: &str = "3.00000007";

pub async fn story(store: &Arc<dyn Store>) -> Story {
    let kept = kept_for_a_fork(store).await;
    let mut scenes = vec![("kept-for", kept)];
    let first = &scenes[0].1;
    scenes.extend([
        ("waiting", waiting(first).await),
        ("questioned", questioned(first).await),
        ("resting", resting(first).await),
        ("resumed", resting(first).await),
        ("closed", closed(first).await),
        ("imported", imported(first, true).await),
        ("half-imported", imported(first, false).await),
        ("hidden", hidden(first).await),
    ]);
    let resting = &scenes[3].1;
    let fork = resting.forked().await;
    turn(&fork, "\"own\"", "of the fork").await;
    let cut = resting.heir();
    resting
        .try_fork(&resting.cut(&cut, 3, "earlier view"))
        .await;
    scenes.extend([("fork", fork), ("cut", cut)]);

    let agent = scenes[0].1.agent.clone();
    register(store, &agent).await;
    let connection = posted(&scenes[0].1).await;
    let described = Bytes::from_static(br#"{"clientInfo":{"name":"an editor"}}"#);
    store
        .describe_client(&connection, &described)
        .await
        .expect("an answer");
    revoke(store, &scenes[0].1).await;
    let lasts = Duration::from_secs(NEVER / 10);
    assert!(store.spend(SPENT, lasts).await.expect("an answer"));

    let mut sessions = BTreeMap::new();
    for (name, scene) in &scenes {
        sessions.insert((*name).to_owned(), told(scene).await);
    }
    rest(store).await;
    go_on(&scenes, &mut sessions).await;
    let principal = scenes[0].1.principal.clone();
    Story {
        listed: scenes[0].1.listed().await,
        outbox: outbox(store, &connection).await,
        watches: store.watches(&connection).await.expect("watches"),
        revocations: revocations(store).await,
        agents: agents(store).await,
        principal,
        agent,
        sessions,
        connection,
    }
}

/// A compacted session is used again, and has the beginning of its log in blocks then.
async fn go_on(scenes: &[(&str, Scene)], sessions: &mut BTreeMap<String, Told>) {
    let (name, scene) = scenes
        .iter()
        .find(|(name, _)| *name == "resumed")
        .expect("it is there");
    turn(scene, "\"again\"", "after a rest").await;
    sessions.insert((*name).to_owned(), told(scene).await);
}

async fn rest(store: &Arc<dyn Store>) {
    for partition in (0..store.partitions()).map(Partition) {
        loop {
            // A session that was used just now is not idle yet.
            tokio::time::sleep(Duration::from_millis(5)).await;
            let tidied = store.tidy(partition, &EVERYTHING_THAT_RESTS).await;
            if tidied.expect("it is tidied") == TidyOutcome::default() {
                break;
            }
        }
    }
}

/// A whole turn whose request can be repeated.
async fn turn(scene: &Scene, request: &str, words: &str) {
    let accepted = scene.store.enqueue(&scene.prompt(request)).await;
    let EnqueueOutcome::Accepted { command, via, .. } = accepted.expect("an answer") else {
        panic!("it is not taken");
    };
    let claim = scene.claim().await;
    let by = scene.creator.clone();
    let message = Bytes::from(r#"{"method":"session/update","params":{}}"#);
    let events = vec![
        begin(command, &scene.creator, via),
        Event::Echo {
            by,
            at: Some(1_700_000_000_000),
            message,
        },
        said(&scene.id, words),
        said(&scene.id, &format!("{words}, and more")),
        end(&scene.creator, via),
    ];
    let over = AppendRequest {
        acks: claim.inbox.iter().map(|queued| queued.id).collect(),
        state: Some(format!("state after {words}").into()),
        view: Some(
            json!({ "modes": { "currentModeId": words } })
                .to_string()
                .into(),
        ),
        title: Some(format!("About {words}")),
        usage: Some(r#"{"used":5,"size":10}"#.into()),
        release: true,
        ..scene.append(&claim.token, claim.head + 1, events)
    };
    scene.write(&over).await;
}

/// A fork whose parent was deleted and forgotten: of that, only the log is left.
async fn kept_for_a_fork(store: &Arc<dyn Store>) -> Scene {
    let parent = Scene::created(store).await;
    turn(&parent, "\"1\"", "of the parent").await;
    let child = parent.forked().await;
    turn(&child, "\"2\"", "of the child").await;
    assert!(parent.delete().await);
    child.open_stream(&child.creator, "a").await;
    child.forget().await;
    let touch = child.touch(&child.creator, "a", None);
    child.store.close_stream(&touch).await.expect("an answer");
    child
}

/// Nobody has taken it up yet.
async fn waiting(first: &Scene) -> Scene {
    let scene = first.another().await;
    let Scene { store, .. } = &scene;
    store
        .enqueue(&scene.findable("\"found\""))
        .await
        .expect("an answer");
    for kind in [
        CommandKind::SetMode,
        CommandKind::SetConfigOption,
        CommandKind::SetModel,
        CommandKind::Extension,
    ] {
        let request = format!("\"{}\"", kind.as_str());
        ask(&scene, scene.command(kind, Some(&request))).await;
    }
    for kind in [
        CommandKind::Cancel,
        CommandKind::CancelRequest,
        CommandKind::Answer,
    ] {
        ask(&scene, scene.command(kind, None)).await;
    }
    scene
}

async fn ask(scene: &Scene, command: Command) {
    let request = EnqueueRequest {
        watched: true,
        ..scene.request(command)
    };
    let outcome = scene.store.enqueue(&request).await.expect("an answer");
    assert!(
        matches!(outcome, EnqueueOutcome::Accepted { .. }),
        "{outcome:?}"
    );
}

/// In the middle of a turn whose worker is gone: one question is open, one was answered, somebody else waits.
async fn questioned(first: &Scene) -> Scene {
    let scene = first.another().await;
    let Scene {
        store, id, creator, ..
    } = &scene;
    turn(&scene, "\"1\"", "before the turn").await;
    let other = scene.another_connection();
    let load = AttachParams {
        setup: SessionSetup {
            mcp_servers: Some("[]".into()),
            directories: Some(r#"["/elsewhere"]"#.into()),
        },
        ..scene.attach(creator, "\"load\"")
    };
    store.attach(&load).await.expect("an answer");
    scene.open_stream(creator, "holder").await;
    let touch = scene.touch(creator, "holder", Some(WRITTEN));
    store.touch_streams(&[touch]).await.expect("an answer");
    ask(&scene, scene.command(CommandKind::Prompt, Some("\"2\""))).await;
    let claimant = scene.claimant(OVER);
    let claim = scene.try_claim(&claimant).await.expect("it waits");
    let prompt = &claim.inbox[0];
    let message = |text: &str| Bytes::from(format!(r#"{{"id":"{text}"}}"#));
    let question = |number: u64| Event::Request {
        id: format!("{id}:{number}").into(),
        message: message("question"),
    };
    let first = claim.head + 1;
    let events = vec![
        begin(prompt.id, creator, prompt.via),
        question(1),
        Event::Answer {
            id: format!("{id}:1").into(),
            by: Some(creator.clone()),
            message: message("answer"),
        },
        Event::Update {
            turn: false,
            message: message("aside"),
        },
        question(2),
        Event::Control {
            by: scene.another_connection(),
            command: prompt.id,
            via: DeliveryPath::Connection,
        },
    ];
    let half = AppendRequest {
        pending: Some(vec![first + 4]),
        state: Some("half".into()),
        view: Some(r#"{"modes":"half"}"#.into()),
        bound: Some(r#"{"sandbox":"7"}"#.into()),
        ..scene.append(&claim.token, first, events)
    };
    scene.write(&half).await;
    ask(
        &scene,
        Command {
            connection: other,
            ..scene.command(CommandKind::Prompt, Some("\"3\""))
        },
    )
    .await;
    scene
}

async fn resting(first: &Scene) -> Scene {
    let scene = first.another().await;
    turn(&scene, "\"kept\"", "first words").await;
    turn(&scene, "\"more\"", "further words").await;
    scene
}

async fn closed(first: &Scene) -> Scene {
    let scene = first.another().await;
    turn(&scene, "\"1\"", "before it was closed").await;
    ask(&scene, scene.command(CommandKind::Close, Some("\"close\""))).await;
    scene.finish(&scene.claim().await.token).await;
    scene
}

/// Deleted while somebody worked on it.
async fn hidden(first: &Scene) -> Scene {
    let scene = first.another().await;
    scene
        .try_claim(&scene.claimant(OVER))
        .await
        .expect("it waits");
    assert!(scene.delete().await);
    scene
}

async fn imported(first: &Scene, published: bool) -> Scene {
    let scene = Scene {
        principal: first.principal.clone(),
        agent: first.agent.clone(),
        ..Scene::planned(&first.store)
    };
    let claimant = scene.claimant(OVER);
    let record = SessionRecord {
        agent: if published {
            scene.agent.clone()
        } else {
            // Nobody has ever run it here.
            "from-elsewhere".into()
        },
        cwd: CWD.into(),
        params: r#"{"mcpServers":[]}"#.into(),
        state: "brought along".into(),
        view: r#"{"modes":"brought along"}"#.into(),
        title: "Brought along".into(),
        updated: 1_700_000_000_000,
        ..SessionRecord::default()
    };
    let adoption = AdoptRequest {
        id: scene.id.clone(),
        principal: scene.principal.clone(),
        record,
        shares: None,
    };
    assert!(
        scene
            .store
            .adopt(&adoption, &claimant)
            .await
            .expect("an answer")
    );
    let words = vec![said(&scene.id, "from elsewhere")];
    scene.write(&scene.append(&claimant.token, 1, words)).await;
    if published {
        let done = scene.store.publish(&scene.id, &claimant.token).await;
        assert!(done.expect("an answer"));
    }
    scene
}

async fn register(store: &Arc<dyn Store>, agent: &str) {
    let card = AgentCard {
        name: agent.to_owned(),
        version: "1.2.3".into(),
        initialize: json!({ "agentCapabilities": { "loadSession": true } }),
    };
    let worker = WorkerId("golden-worker".into());
    let lasts = Duration::from_secs(9);
    store
        .register(&card, &worker, lasts)
        .await
        .expect("an answer");
}

/// A connection with an outbox of which some has been delivered and has left it.
async fn posted(scene: &Scene) -> ConnectionId {
    let store = &scene.store;
    let connection = scene.another_connection();
    let watch = Event::Watch {
        session: scene.id.clone(),
        after: 1,
    };
    post(store, &connection, 0, watch).await;
    for number in 1..=OUTBOX_WINDOW_ENTRIES + 8 {
        let message = Bytes::from(format!(r#"{{"result":{number}}}"#));
        post(store, &connection, number, Event::Message { message }).await;
    }
    let stream = StreamId {
        connection: connection.clone(),
        session: None,
    };
    let opened = store.open_stream(&stream, &scene.principal, "holder").await;
    opened.expect("an answer").expect("a stream");
    let upto = OUTBOX_WINDOW_ENTRIES + 5;
    let touch = StreamTouch {
        stream,
        holder: "holder".into(),
        written: Some(format!("{upto}.00000000")),
        delivered: Some(OutboxProgress {
            upto,
            settled: upto,
        }),
    };
    store
        .touch_streams(std::slice::from_ref(&touch))
        .await
        .expect("an answer");
    post(store, &connection, 10_000, Event::Closed).await;
    connection
}

async fn post(store: &Arc<dyn Store>, to: &ConnectionId, number: u64, event: Event) {
    let posted = store.post(to, event, &post_key(to, number)).await;
    assert!(matches!(
        posted.expect("an answer"),
        PostOutcome::New { .. }
    ));
}

pub fn post_key(to: &ConnectionId, number: u64) -> IdempotencyKey {
    IdempotencyKey::of(to, Some(&number.to_string()), b"posted")
}

async fn revoke(store: &Arc<dyn Store>, scene: &Scene) {
    let never = |subject: RevocationSubject| Revocation {
        subject,
        before: 1_700_000_000,
        from: 1_700_000_000,
        until: NEVER,
        asker: None,
    };
    let family = RevocationSubject::Family {
        family: "family".into(),
        below: 3,
    };
    let all = [
        never(RevocationSubject::Session(scene.id.clone())),
        never(RevocationSubject::Principal("somebody".into())),
        never(RevocationSubject::Logins("somebody".into()))
            .asked_by(RevocationCause::Logout, "somebody"),
        never(family).asked_by(RevocationCause::Renewal, "somebody"),
        never(RevocationSubject::Connection(scene.creator.clone()))
            .asked_by(RevocationCause::Ended, "somebody"),
    ];
    for revocation in &all {
        assert!(store.revoke(revocation).await.expect("an answer"));
    }
}
