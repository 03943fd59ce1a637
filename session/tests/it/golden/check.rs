//! A store that another build has filled: everything is there, and everything goes on.

use std::sync::Arc;
use std::time::Duration;

use baton_session::conformance::scene::{Scene, end, said};
use baton_session::cursor::Cursor;
use baton_session::event::Event;
use baton_session::id::{Partition, SessionId};
use baton_session::route::DeliveryPath;
use baton_session::store::{
    AppendOutcome, AppendRequest, AttachOutcome, ClaimToken, EnqueueOutcome, ForkOutcome,
    PostOutcome, Store, StreamId, TidyPolicy,
};

use super::make::{SPENT, WRITTEN, post_key};
use super::story::{Story, agents, of_command, outbox, revocations, told};

pub async fn all(store: &Arc<dyn Store>, story: &Story) {
    what_is_listed(store, story).await;
    what_belongs_to_no_session(store, story).await;
    for name in story.sessions.keys() {
        let scene = story.scene(store, name);
        cursors_are_found(&scene, story, name).await;
        assert_eq!(told(&scene).await, story.sessions[name], "{name}");
    }
    requests_are_known(store, story).await;
    what_waits_is_done(store, story).await;
    a_turn_is_taken_over(store, story).await;
    streams_go_on(store, story).await;
    for name in ["resting", "resumed", "fork", "cut", "kept-for", "imported"] {
        one_more_turn(&story.scene(store, name)).await;
    }
    what_is_closed_stays_closed(store, story).await;
    a_family_grows(store, story).await;
    nothing_stays_of_what_was_deleted(store, story).await;
}

async fn what_is_listed(store: &Arc<dyn Store>, story: &Story) {
    let any = story.scene(store, "resting");
    assert_eq!(any.listed().await, story.listed);
    let usage = store.usage(&story.principal, 100).await.expect("an answer");
    assert_eq!(usage.sessions, story.listed.len() as u64);
    assert!(usage.turns >= 2 && usage.stored > 0, "{usage:?}");
}

async fn what_belongs_to_no_session(store: &Arc<dyn Store>, story: &Story) {
    let connection = &story.connection;
    assert_eq!(revocations(store).await, story.revocations);
    assert_eq!(outbox(store, connection).await, story.outbox);
    let watches = store.watches(connection).await.expect("an answer");
    assert_eq!(watches, story.watches);
    assert!(
        !watches.is_empty() && story.outbox[0].0 > 1,
        "some has left"
    );
    let known = agents(store).await;
    // Only workers that live have one in files.
    assert!(known.is_empty() || known == story.agents, "{known:?}");
    let lasts = Duration::from_secs(60);
    assert!(!store.spend(SPENT, lasts).await.expect("an answer"));
    let other = "another ticket";
    assert!(store.spend(other, lasts).await.expect("an answer"));
    let key = post_key(connection, 10_000);
    let again = store.post(connection, Event::Closed, &key);
    assert_eq!(
        again.await.expect("an answer"),
        PostOutcome::Known(Event::Closed)
    );
    let stream = StreamId {
        connection: connection.clone(),
        session: None,
    };
    let opened = store.open_stream(&stream, &story.principal, "next").await;
    let written = opened.expect("an answer").expect("a stream").written.cursor;
    assert!(written.is_some(), "how far it was written");
}

/// From each cursor that a client may have, what comes after it.
async fn cursors_are_found(scene: &Scene, story: &Story, name: &str) {
    for (cursor, _) in &story.sessions[name].log {
        let cursor: Cursor = cursor.parse().expect("a cursor");
        let from = scene.events(cursor.seq).await;
        let (seq, nonce, _) = from.first().expect("the event that it names");
        assert_eq!((*seq, *nonce), (cursor.seq, cursor.nonce), "{name}");
    }
}

/// A repeated request gets the outcome of the first.
async fn requests_are_known(store: &Arc<dyn Store>, story: &Story) {
    for (name, request) in [
        ("waiting", "\"found\""),
        ("questioned", "\"1\""),
        ("resting", "\"kept\""),
        ("resumed", "\"more\""),
    ] {
        let scene = story.scene(store, name);
        let again = store
            .enqueue(&scene.prompt(request))
            .await
            .expect("an answer");
        assert!(
            matches!(again, EnqueueOutcome::Joined { .. }),
            "{name}: {again:?}"
        );
    }
    let scene = story.scene(store, "waiting");
    let key = scene.prompt("\"found\"").key.key;
    let found = store.session_of(&scene.creator, &key).await;
    assert_eq!(found.expect("an answer"), Some(scene.id));
}

async fn what_waits_is_done(store: &Arc<dyn Store>, story: &Story) {
    let scene = story.scene(store, "waiting");
    let due = store.due(scene.id.partition(), &story.agent, 100).await;
    assert!(due.expect("an answer").sessions.contains(&scene.id));
    let claim = scene.claim().await;
    let inbox: Vec<_> = claim.inbox.iter().map(of_command).collect();
    assert_eq!(inbox, story.sessions["waiting"].inbox);
    assert!(inbox.len() > 8);
    scene.finish(&claim.token).await;
    assert_eq!(store.waiting_commands(&scene.id).await.expect("names"), []);
}

async fn a_turn_is_taken_over(store: &Arc<dyn Store>, story: &Story) {
    let scene = story.scene(store, "questioned");
    let told = &story.sessions["questioned"];
    let claim = scene.claim().await;
    let running = claim.running.expect("a turn");
    assert_eq!(told.record["began"], running.began);
    assert_eq!(told.inbox[0]["id"], running.command.to_string());
    assert_eq!(
        (&*claim.state, &*claim.bound),
        (&b"half"[..], &br#"{"sandbox":"7"}"#[..])
    );
    assert_eq!(
        claim.setup.directories.as_deref(),
        Some(&br#"["/elsewhere"]"#[..])
    );
    assert!(
        claim
            .inbox
            .last()
            .is_some_and(|queued| queued.takes_control)
    );
    let over = AppendRequest {
        acks: vec![running.command],
        pending: Some(Vec::new()),
        ..scene.append(
            &claim.token,
            claim.head + 1,
            vec![end(&scene.creator, DeliveryPath::Session)],
        )
    };
    let head = claim.head + 1;
    let done = AppendOutcome::Done {
        head,
        released: false,
    };
    assert_eq!(scene.write(&over).await, done);
    scene.finish(&claim.token).await;
    let pending = scene.attachment(&scene.creator).await.pending;
    assert!(pending.is_empty(), "{pending:?}");
}

async fn streams_go_on(store: &Arc<dyn Store>, story: &Story) {
    let scene = story.scene(store, "questioned");
    let stream = scene.stream(&scene.creator);
    let opened = store.open_stream(&stream, &story.principal, "next").await;
    let opened = opened.expect("an answer").expect("it is there");
    assert_eq!(opened.written.cursor.as_deref(), Some(WRITTEN));
    let attached = opened.attachment.expect("of a session");
    assert_eq!(attached.directives.len(), 1);
    let touch = scene.touch(&scene.creator, "next", None);
    store.close_stream(&touch).await.expect("an answer");
}

async fn one_more_turn(scene: &Scene) {
    let before = scene.events(1).await;
    scene.talk("of the next build").await;
    let after = scene.events(1).await;
    assert_eq!(after[..before.len()], before);
    assert!(
        after
            .iter()
            .any(|(_, _, event)| *event == said(&scene.id, "of the next build"))
    );
}

async fn what_is_closed_stays_closed(store: &Arc<dyn Store>, story: &Story) {
    let scene = story.scene(store, "closed");
    let refused = store.enqueue(&scene.prompt("\"late\"")).await;
    assert_eq!(refused.expect("an answer"), EnqueueOutcome::Closed);
    let attached = store.attach(&scene.attach(&scene.creator, "\"l\"")).await;
    assert!(
        matches!(attached, Ok(AttachOutcome::Done(_))),
        "{attached:?}"
    );
    one_more_turn(&scene).await;
}

async fn a_family_grows(store: &Arc<dyn Store>, story: &Story) {
    for name in ["resting", "fork", "kept-for", "imported"] {
        let scene = story.scene(store, name);
        let child = scene.forked().await;
        assert_eq!(child.words().await, scene.words().await, "{name}");
        let cut = scene.heir();
        let outcome = scene.try_fork(&scene.cut(&cut, 1, "{}")).await;
        assert!(
            matches!(outcome, ForkOutcome::Done { head: 1, .. }),
            "{outcome:?}"
        );
    }
}

async fn nothing_stays_of_what_was_deleted(store: &Arc<dyn Store>, story: &Story) {
    let half = story.scene(store, "half-imported");
    let late = store.publish(&half.id, &ClaimToken::random()).await;
    assert!(!late.expect("an answer"));
    let hidden = story.scene(store, "hidden");
    assert!(!story.listed.contains(&hidden.id) && !story.listed.contains(&half.id));
    let gone = story.scene(store, "closed");
    assert!(gone.delete().await);
    forget_everything(store).await;
    for scene in [half, gone] {
        assert_eq!(scene.events(1).await, []);
    }
    assert_eq!(
        story.scene(store, "resting").listed().await,
        [] as [SessionId; 0]
    );
}

async fn forget_everything(store: &Arc<dyn Store>) {
    let unused = TidyPolicy {
        rested: Duration::ZERO,
        unused: Duration::ZERO,
    };
    for partition in (0..store.partitions()).map(Partition) {
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(2)).await;
            store.tidy(partition, &unused).await.expect("it is tidied");
        }
    }
}
