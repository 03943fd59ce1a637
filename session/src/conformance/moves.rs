//! Moves: a session is taken out of one store and into another.

use std::sync::Arc;

use bytes::Bytes;

use super::scene::{CWD, LONG, OVER, Scene, begin, end, said, update, updates};
use crate::route::DeliveryPath;
use crate::store::{
    AdoptRequest, AppendOutcome, AppendRequest, AttachOutcome, ClaimToken, Claimant,
    EnqueueOutcome, SessionRecord, SessionSetup, SharedLog, Store,
};

fn record(scene: &Scene) -> SessionRecord {
    SessionRecord {
        agent: scene.agent.clone(),
        cwd: CWD.into(),
        params: "{\"mcpServers\":[]}".into(),
        setup: SessionSetup {
            mcp_servers: Some("[1]".into()),
            directories: Some("[\"/a\"]".into()),
        },
        state: "state".into(),
        view: "view".into(),
        shown: Some(String::new()),
        title: "A title".into(),
        usage: "{\"used\":1}".into(),
        bound: "{\"a\":\"b\"}".into(),
        head: 0,
        updated: 1_700_000_000_000,
        began: None,
    }
}

async fn adopt(scene: &Scene, claimant: &Claimant) -> bool {
    let adoption = AdoptRequest {
        id: scene.id.clone(),
        principal: scene.principal.clone(),
        record: record(scene),
        shares: None,
    };
    scene.store.adopt(&adoption, claimant).await.unwrap()
}

async fn adopt_sharing(scene: &Scene, with: &Scene, upto: u64, claimant: &Claimant) -> bool {
    let adoption = AdoptRequest {
        id: scene.id.clone(),
        principal: scene.principal.clone(),
        record: record(scene),
        shares: Some(SharedLog {
            with: with.id.clone(),
            upto,
        }),
    };
    scene.store.adopt(&adoption, claimant).await.unwrap()
}

async fn publish(scene: &Scene, token: &ClaimToken) -> bool {
    scene.store.publish(&scene.id, token).await.unwrap()
}

/// Adopted with a log of three events, and not yet published.
async fn adopted(
    store: &Arc<dyn Store>,
    claimant: impl Fn(&Scene) -> Claimant,
) -> (Scene, Claimant) {
    let scene = Scene::planned(store);
    let claimant = claimant(&scene);
    assert!(adopt(&scene, &claimant).await);
    for first in 1..=3 {
        let events = vec![said(&scene.id, &format!("word {first}"))];
        let append = scene.append(&claimant.token, first, events);
        let done = AppendOutcome::Done {
            head: first,
            released: false,
        };
        assert_eq!(scene.write(&append).await, done);
    }
    (scene, claimant)
}

async fn is_hidden(scene: &Scene) {
    let Scene { store, .. } = scene;
    let (id, creator, principal) = (&scene.id, &scene.creator, &scene.principal);
    let outcome = store.enqueue(&scene.prompt("1")).await.unwrap();
    assert_eq!(outcome, EnqueueOutcome::NotFound);
    let load = scene.attach(creator, "1");
    assert_eq!(store.attach(&load).await.unwrap(), AttachOutcome::NotFound);
    let found = store.attachment(id, creator, principal).await.unwrap();
    assert_eq!(found, None);
    assert_eq!(store.record(id, principal).await.unwrap(), None);
    assert_eq!(scene.listed().await, []);
    assert!(!scene.delete().await);
}

pub async fn a_record_holds_all_but_the_log(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let token = scene.claim().await.token;
    let expected = record(&scene);
    let told = AppendRequest {
        acks: scene.named(&[1]).await,
        state: Some(expected.state.clone()),
        view: Some(expected.view.clone()),
        title: Some(expected.title.clone()),
        usage: Some(expected.usage.clone()),
        bound: Some(expected.bound.clone()),
        release: true,
        ..scene.append(&token, 1, updates(2))
    };
    scene.write(&told).await;
    let mut load = scene.attach(&scene.creator, "1");
    load.setup = expected.setup.clone();
    store.attach(&load).await.unwrap();
    let found = store.record(&scene.id, &scene.principal).await.unwrap();
    let expected = SessionRecord {
        head: 2,
        updated: scene.summary().await.place.updated,
        ..expected
    };
    assert_eq!(found, Some(expected));
    let foreign = store.record(&scene.id, "somebody else").await.unwrap();
    assert_eq!(foreign, None);
    let unknown = Scene::planned(store);
    let found = store.record(&unknown.id, &unknown.principal).await;
    assert_eq!(found.unwrap(), None);
}

pub async fn a_record_is_between_two_turns(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    scene.talk("one").await;
    store.enqueue(&scene.prompt("2")).await.unwrap();
    let token = scene.claim().await.token;
    let begun = vec![begin(3, &scene.creator, DeliveryPath::Connection)];
    scene.write(&scene.append(&token, 4, begun)).await;
    let half = AppendRequest {
        state: Some("half".into()),
        view: Some("half".into()),
        ..scene.append(&token, 5, updates(2))
    };
    scene.write(&half).await;
    let found = store.record(&scene.id, &scene.principal).await.unwrap();
    let found = found.expect("a record");
    assert_eq!((found.head, found.began), (3, Some(4)));
    assert_eq!((found.state, found.view), ("one".into(), "one".into()));
    // Of a fork, the whole log counts.
    let child = scene.forked().await;
    let found = store.record(&child.id, &child.principal).await.unwrap();
    let found = found.expect("a record");
    assert_eq!((found.head, found.began), (3, None));
    assert_eq!(found.state, Bytes::from_static(b"one"));
}

pub async fn an_adopted_session_appears_when_it_is_complete(store: &Arc<dyn Store>) {
    let (scene, claimant) = adopted(store, |scene| scene.claimant(LONG)).await;
    is_hidden(&scene).await;
    assert!(publish(&scene, &claimant.token).await);
    let expected = record(&scene);
    let summary = scene.summary().await;
    assert_eq!(summary.place.updated, expected.updated);
    assert_eq!(
        (summary.cwd, summary.title),
        (expected.cwd.clone(), expected.title.clone())
    );
    assert_eq!(summary.directories, "[\"/a\"]");
    assert_eq!(
        (summary.usage, scene.head().await),
        (expected.usage.clone(), 3)
    );
    assert_eq!(scene.words().await, ["word 1", "word 2", "word 3"]);
    let found = store.record(&scene.id, &scene.principal).await.unwrap();
    let record = SessionRecord {
        head: 3,
        ..expected.clone()
    };
    assert_eq!(found, Some(record));
    let late = scene.append(&claimant.token, 4, updates(1));
    assert_eq!(scene.write(&late).await, AppendOutcome::Fenced);
    assert!(scene.try_claim(&scene.claimant(LONG)).await.is_none());
    let AttachOutcome::Done(attachment) = store
        .attach(&scene.attach(&scene.creator, "1"))
        .await
        .unwrap()
    else {
        panic!("it is there");
    };
    assert_eq!((attachment.head, attachment.view), (3, expected.view));
    store.enqueue(&scene.prompt("2")).await.unwrap();
    let claim = scene.claim().await;
    assert_eq!((claim.state, claim.bound), (expected.state, expected.bound));
    assert_eq!((claim.setup, claim.vanished.at_once), (expected.setup, 0));
    assert_eq!((claim.head, claim.inbox[0].id.number), (3, 1));
}

pub async fn a_log_from_elsewhere_is_history(store: &Arc<dyn Store>) {
    let (scene, claimant) = adopted(store, |scene| scene.claimant(LONG)).await;
    let stranger = scene.another_connection();
    let turn = vec![
        begin(7, &stranger, DeliveryPath::Connection),
        end(&stranger, DeliveryPath::Connection),
    ];
    let asked = vec![begin(8, &stranger, DeliveryPath::Connection)];
    for (first, events) in [(4, turn), (6, asked)] {
        let append = scene.append(&claimant.token, first, events);
        scene.write(&append).await;
    }
    assert!(publish(&scene, &claimant.token).await);
    let found = store.record(&scene.id, &scene.principal).await.unwrap();
    let expected = SessionRecord {
        head: 6,
        ..record(&scene)
    };
    assert_eq!(found, Some(expected));
    assert_eq!(scene.summary().await.place.updated, record(&scene).updated);
    let attachment = scene.attachment(&stranger).await;
    assert_eq!(
        (attachment.controller, attachment.route.joined()),
        (None, None)
    );
    // It ended in the middle of a turn. That one is over, and the next begins like any other.
    store.enqueue(&scene.prompt("1")).await.unwrap();
    let claim = scene.claim().await;
    assert_eq!((claim.head, claim.running), (6, None));
    let begun = vec![begin(1, &scene.creator, DeliveryPath::Connection)];
    scene.write(&scene.append(&claim.token, 7, begun)).await;
    let found = store.record(&scene.id, &scene.principal).await.unwrap();
    let found = found.expect("a record");
    assert_eq!((found.head, found.began), (6, Some(7)));
    let controller = scene.attachment(&scene.creator).await.controller;
    assert_eq!(controller, Some(scene.creator.clone()));
}

pub async fn an_id_that_is_taken_cannot_be_adopted(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    assert!(!adopt(&scene, &scene.claimant(LONG)).await);
    assert_eq!(scene.claim().await.state, "");
    let (scene, claimant) = adopted(store, |scene| scene.claimant(LONG)).await;
    assert!(!adopt(&scene, &scene.claimant(LONG)).await);
    assert!(publish(&scene, &claimant.token).await);
    assert!(!adopt(&scene, &scene.claimant(LONG)).await);
}

pub async fn only_its_holder_publishes_a_session(store: &Arc<dyn Store>) {
    let (scene, claimant) = adopted(store, |scene| scene.claimant(LONG)).await;
    assert!(!publish(&scene, &ClaimToken::random()).await);
    is_hidden(&scene).await;
    store.release(&scene.id, &claimant.token).await.unwrap();
    let unknown = Scene::planned(store);
    assert!(!publish(&unknown, &claimant.token).await);
}

pub async fn nobody_else_takes_what_is_being_adopted(store: &Arc<dyn Store>) {
    let (scene, claimant) = adopted(store, |scene| scene.claimant(OVER)).await;
    let worker = scene.claimant(LONG);
    assert_eq!(scene.try_claim_any(&worker).await, None);
    assert!(scene.try_claim(&worker).await.is_none());
    let renewed = [(scene.id.clone(), claimant.token.clone())];
    assert_eq!(store.renew(&renewed, LONG).await.unwrap(), []);
    scene.forget().await;
    assert_eq!(scene.head().await, 3);
    assert!(publish(&scene, &claimant.token).await);
    scene.lists_only(&scene).await;
}

pub async fn an_adoption_that_is_given_up_is_forgotten(store: &Arc<dyn Store>) {
    let (scene, claimant) = adopted(store, |scene| scene.claimant(OVER)).await;
    scene.forget().await;
    assert_eq!((scene.head().await, scene.events(1).await.len()), (0, 0));
    assert!(!publish(&scene, &claimant.token).await);
    let late = scene.append(&claimant.token, 4, updates(1));
    assert_eq!(scene.write(&late).await, AppendOutcome::Fenced);
    let again = scene.claimant(LONG);
    assert!(adopt(&scene, &again).await);
    assert!(publish(&scene, &again.token).await);
    scene.lists_only(&scene).await;
}

pub async fn adopting_and_publishing_can_be_repeated(store: &Arc<dyn Store>) {
    let scene = Scene::planned(store);
    let claimant = scene.claimant(LONG);
    for _ in 0..2 {
        assert!(adopt(&scene, &claimant).await);
    }
    scene
        .write(&scene.append(&claimant.token, 1, updates(1)))
        .await;
    for _ in 0..2 {
        assert!(publish(&scene, &claimant.token).await);
    }
    assert_eq!(scene.head().await, 1);
    scene.lists_only(&scene).await;
}

pub async fn what_is_adopted_may_share_a_log(store: &Arc<dyn Store>) {
    let older = Scene::created(store).await;
    older.talk("one").await;
    older.talk("two").await;
    let scene = older.heir();
    let claimant = scene.claimant(LONG);
    for _ in 0..2 {
        assert!(adopt_sharing(&scene, &older, 3, &claimant).await);
    }
    let hidden = store.record(&scene.id, &scene.principal).await;
    assert_eq!(hidden.unwrap(), None);
    let events = vec![said(&scene.id, "other")];
    let outcome = scene.write(&scene.append(&claimant.token, 4, events)).await;
    let done = AppendOutcome::Done {
        head: 4,
        released: false,
    };
    assert_eq!(outcome, done);
    assert!(publish(&scene, &claimant.token).await);
    assert_eq!(scene.words().await, ["one", "other"]);
    assert_eq!(older.words().await, ["one", "two"]);
    store.enqueue(&scene.prompt("1")).await.unwrap();
    let head = scene.claim().await.head;
    assert_eq!(head, 4);
    // One that is given up leaves nothing that keeps the other's log.
    let given_up = older.heir();
    let claimant = given_up.claimant(OVER);
    assert!(adopt_sharing(&given_up, &older, 6, &claimant).await);
    assert!(older.delete().await);
    older.forget().await;
    assert_eq!(scene.words().await, ["one", "other"]);
}

pub async fn only_a_log_of_its_own_principal_is_shared(store: &Arc<dyn Store>) {
    let older = Scene::created(store).await;
    older.talk("one").await;
    let scene = older.heir();
    let claimant = scene.claimant(LONG);
    assert!(
        !adopt_sharing(&scene, &older, 4, &claimant).await,
        "not so far"
    );
    let unknown = older.heir();
    assert!(!adopt_sharing(&scene, &unknown, 1, &claimant).await);
    let stranger = Scene {
        principal: "somebody else".into(),
        ..older.heir()
    };
    assert!(!adopt_sharing(&stranger, &older, 3, &claimant).await);
    store.enqueue(&older.prompt("2")).await.unwrap();
    let token = older.claim().await.token;
    let begun = vec![begin(2, &older.creator, DeliveryPath::Connection)];
    older.write(&older.append(&token, 4, begun)).await;
    assert!(
        !adopt_sharing(&scene, &older, 4, &claimant).await,
        "the turn runs"
    );
    assert!(adopt_sharing(&scene, &older, 3, &claimant).await);
}

pub async fn a_record_says_where_modes_and_options_changed(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let claim = scene.claim().await;
    let change = |kind: &str| {
        update(&format!(
            r#"{{"params":{{"update":{{"sessionUpdate":"{kind}"}}}}}}"#
        ))
    };
    let events = vec![
        update("words"),
        change("config_option_update"),
        change("current_mode_update"),
    ];
    scene.write(&scene.append(&claim.token, 1, events)).await;
    scene
        .write(&scene.append(&claim.token, 4, updates(2)))
        .await;
    let events = vec![change("current_mode_update")];
    scene.write(&scene.append(&claim.token, 6, events)).await;
    let shown = async |scene: &Scene| {
        let record = store.record(&scene.id, &scene.principal).await.unwrap();
        record.expect("it is there").shown
    };
    assert_eq!(shown(&scene).await.as_deref(), Some("o2 m3 m6 "));
    // A fork has what it inherits, and goes on from there.
    let heir = scene.heir();
    scene.try_fork(&scene.cut(&heir, 5, "")).await;
    assert_eq!(shown(&heir).await.as_deref(), Some("o2 m3 "));
    // It is bounded, and says so when something was forgotten.
    let many = vec![change("current_mode_update"); 300];
    scene.write(&scene.append(&claim.token, 7, many)).await;
    let line = shown(&scene).await.expect("a line");
    assert!(line.len() <= 512 && line.starts_with("-m"), "{line}");
    assert!(line.ends_with("m305 m306 "), "{line}");
}
