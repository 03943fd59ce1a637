//! `session/load` and `session/resume`: a connection joins a session that exists.

use std::sync::Arc;

use bytes::Bytes;

use super::scene::{CWD, OVER, Scene, updates};
use crate::id::ConnectionId;
use crate::route::DeliveryPath;
use crate::store::{
    AppendRequest, AttachOutcome, AttachParams, AttachRequest, Attachment, SessionSetup, Store,
};

async fn attach(scene: &Scene, request: &AttachParams) -> Attachment {
    match scene.store.attach(request).await.unwrap() {
        AttachOutcome::Done(attachment) => *attachment,
        other => panic!("not attached: {other:?}"),
    }
}

/// A session with three events, and a connection that is new to it.
async fn with_history(store: &Arc<dyn Store>) -> (Scene, ConnectionId) {
    let scene = Scene::created(store).await;
    let holder = scene.claimant(OVER);
    let token = scene.try_claim(&holder).await.expect("it waits").token;
    let history = AppendRequest {
        view: Some(Bytes::from_static(b"{\"modes\":[]}")),
        pending: Some(vec![2]),
        ..scene.append(&token, 1, updates(3))
    };
    scene.write(&history).await;
    let newcomer = scene.another_connection();
    (scene, newcomer)
}

pub async fn attaching_directs_what_to_send(store: &Arc<dyn Store>) {
    let (scene, newcomer) = with_history(store).await;
    let done = attach(&scene, &scene.attach(&newcomer, "\"load 1\"")).await;
    let directive = AttachRequest {
        number: 1,
        upto: 3,
        replay: true,
        via: DeliveryPath::Connection,
        request: "\"load 1\"".into(),
    };
    assert_eq!(done.latest(), Some(directive));
    assert_eq!(
        (done.head, &done.view[..], &done.pending),
        (3, &b"{\"modes\":[]}"[..], &vec![2])
    );
    assert_eq!(done.controller, Some(newcomer.clone()));
    assert_eq!(
        (done.route.at(3), done.route.at(4)),
        (None, Some(DeliveryPath::Connection))
    );
    assert_eq!(done, scene.attachment(&newcomer).await);
    // The creator stays where it was, but no longer steers.
    let creator = scene.attachment(&scene.creator).await;
    assert_eq!(
        (creator.route.at(4), creator.latest()),
        (Some(DeliveryPath::Connection), None)
    );
    assert_eq!(creator.controller, Some(newcomer));
}

pub async fn attaching_again_for_the_same_request_is_once(store: &Arc<dyn Store>) {
    let (scene, newcomer) = with_history(store).await;
    let load = scene.attach(&newcomer, "1");
    let first = attach(&scene, &load).await;
    attach(&scene, &scene.attach(&scene.creator, "1")).await;
    scene.open_stream(&newcomer, "a").await;
    let again = attach(&scene, &load).await;
    assert_eq!(
        (&again.latest(), &again.route),
        (&first.latest(), &first.route)
    );
    assert_eq!(
        again.controller,
        Some(scene.creator.clone()),
        "a repetition takes nothing back"
    );
    let next = attach(
        &scene,
        &AttachParams {
            replay: false,
            ..scene.attach(&newcomer, "2")
        },
    )
    .await;
    let directive = next.latest().unwrap();
    assert_eq!(
        (directive.number, directive.replay, directive.via),
        (2, false, DeliveryPath::Session)
    );
    assert_eq!(next.controller, Some(newcomer));
}

pub async fn attaching_follows_the_open_stream(store: &Arc<dyn Store>) {
    let (scene, newcomer) = with_history(store).await;
    scene.open_stream(&newcomer, "a").await;
    let load = AttachParams {
        watched: false,
        ..scene.attach(&newcomer, "1")
    };
    let done = attach(&scene, &load).await;
    assert_eq!(done.latest().unwrap().via, DeliveryPath::Session);
    assert_eq!(
        (done.route.joined(), done.route.at(4)),
        (Some(4), Some(DeliveryPath::Session))
    );
}

pub async fn the_route_switches_after_the_head(store: &Arc<dyn Store>) {
    let (scene, _) = with_history(store).await;
    let creator = &scene.creator;
    scene.open_stream(creator, "a").await;
    let done = attach(&scene, &scene.attach(creator, "1")).await;
    assert_eq!(
        (done.route.joined(), done.route.at(3)),
        (Some(1), Some(DeliveryPath::Connection))
    );
    assert_eq!(done.route.at(4), Some(DeliveryPath::Session));
}

pub async fn a_connection_stream_must_watch_before_it_is_attached(store: &Arc<dyn Store>) {
    let (scene, newcomer) = with_history(store).await;
    let load = AttachParams {
        watched: false,
        ..scene.attach(&newcomer, "1")
    };
    assert_eq!(
        store.attach(&load).await.unwrap(),
        AttachOutcome::Unwatched { head: 3 }
    );
    let nothing = scene.attachment(&newcomer).await;
    assert_eq!((nothing.latest(), nothing.route.joined()), (None, None));
    assert_eq!(nothing.controller, Some(scene.creator.clone()));
    attach(&scene, &scene.attach(&newcomer, "1")).await;
    // Once is enough, for loads and for prompts.
    attach(
        &scene,
        &AttachParams {
            watched: false,
            ..scene.attach(&newcomer, "2")
        },
    )
    .await;
    let prompt = store
        .enqueue(&scene.prompt_by(&newcomer, "3"))
        .await
        .unwrap();
    assert!(
        matches!(prompt, crate::store::EnqueueOutcome::Accepted { .. }),
        "{prompt:?}"
    );
}

pub async fn a_one_shot_load_is_answered_in_its_own_body(store: &Arc<dyn Store>) {
    let (scene, newcomer) = with_history(store).await;
    let load = AttachParams {
        one_shot: true,
        ..scene.attach(&newcomer, "1")
    };
    let done = attach(&scene, &load).await;
    assert_eq!(done.latest().unwrap().via, DeliveryPath::OneShot);
    assert_eq!(
        done.route.at(4),
        Some(DeliveryPath::Connection),
        "what comes later takes the stream"
    );
}

pub async fn the_directory_must_be_the_sessions_own(store: &Arc<dyn Store>) {
    let (scene, newcomer) = with_history(store).await;
    let wrong = AttachParams {
        cwd: "/elsewhere".into(),
        ..scene.attach(&newcomer, "1")
    };
    assert_eq!(
        store.attach(&wrong).await.unwrap(),
        AttachOutcome::WrongCwd(CWD.to_owned())
    );
    assert_eq!(scene.attachment(&newcomer).await.latest(), None);
}

pub async fn a_session_that_is_not_ones_own_cannot_be_attached(store: &Arc<dyn Store>) {
    let (scene, newcomer) = with_history(store).await;
    let unknown = Scene::planned(store);
    let load = unknown.attach(&newcomer, "1");
    assert_eq!(store.attach(&load).await.unwrap(), AttachOutcome::NotFound);
    // A caller that may not see the session doesn't learn its directory either.
    let foreign = AttachParams {
        principal: unknown.principal,
        cwd: "/elsewhere".into(),
        ..scene.attach(&newcomer, "1")
    };
    assert_eq!(
        store.attach(&foreign).await.unwrap(),
        AttachOutcome::NotFound
    );
    assert_eq!(
        scene.attachment(&newcomer).await.controller,
        Some(scene.creator)
    );
}

pub async fn what_a_load_brings_is_used_from_then_on(store: &Arc<dyn Store>) {
    let (scene, newcomer) = with_history(store).await;
    let setup = |servers: Option<&'static str>, directories: Option<&'static str>| SessionSetup {
        mcp_servers: servers.map(Bytes::from),
        directories: directories.map(Bytes::from),
    };
    let now = async || {
        // The next claim has it.
        let claim = scene.try_claim(&scene.claimant(OVER)).await;
        claim.expect("nobody holds it for long").setup
    };
    let load = |request, setup| AttachParams {
        setup,
        ..scene.attach(&newcomer, request)
    };
    assert_eq!(now().await, setup(None, None));
    let first = load("1", setup(Some("[1]"), None));
    attach(&scene, &first).await;
    assert_eq!(now().await, setup(Some("[1]"), None));
    attach(&scene, &load("2", setup(Some("[2]"), Some("[\"/a\"]")))).await;
    attach(&scene, &load("3", setup(None, None))).await;
    // A repetition takes nothing back, and what is refused brings nothing.
    attach(&scene, &first).await;
    let elsewhere = AttachParams {
        cwd: "/elsewhere".into(),
        ..load("4", setup(Some("[4]"), None))
    };
    store.attach(&elsewhere).await.unwrap();
    assert_eq!(now().await, setup(Some("[2]"), Some("[\"/a\"]")));
}

pub async fn who_reads_along_changes_nothing(store: &Arc<dyn Store>) {
    let (scene, newcomer) = with_history(store).await;
    let before = scene.attachment(&scene.creator).await;
    let watch = AttachParams {
        observe: true,
        cwd: String::new(),
        setup: crate::store::SessionSetup {
            mcp_servers: Some(Bytes::from_static(b"[1]")),
            directories: None,
        },
        ..scene.attach(&newcomer, "")
    };
    let watching = attach(&scene, &watch).await;
    assert_eq!(watching.route.joined(), Some(before.head + 1));
    assert_eq!(watching.directives, [], "nobody waits for an answer");
    assert_eq!(watching.controller, before.controller);
    let load = AttachParams {
        observe: true,
        ..scene.attach(&newcomer, "1")
    };
    let loading = attach(&scene, &load).await;
    assert_eq!(loading.directives.len(), 1);
    assert_eq!(loading.controller, before.controller);
    let elsewhere = AttachParams {
        cwd: String::new(),
        ..scene.attach(&newcomer, "2")
    };
    let refused = scene.store.attach(&elsewhere).await.unwrap();
    assert!(matches!(refused, AttachOutcome::WrongCwd(_)), "{refused:?}");
    store.enqueue(&scene.prompt("9")).await.unwrap();
    assert_eq!(scene.claim().await.setup.mcp_servers, None);
}
