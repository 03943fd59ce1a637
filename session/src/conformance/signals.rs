//! The signals that a listener gets, once its subscription is confirmed.

use std::sync::Arc;

use bytes::Bytes;

use super::scene::{LONG, OVER, Scene, SignalProbe, updates};
use crate::command::{CommandKind, IdempotencyKey};
use crate::event::Event;
use crate::id::LogId;
use crate::store::{
    AppendRequest, AttachParams, Claimant, SessionSetup, Signal, Store, StreamId, Topic,
};

pub async fn frames_are_signalled_whole_and_in_order(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let token = scene.claim().await.token;
    scene.write(&scene.append(&token, 1, updates(1))).await;
    let mut ear = SignalProbe::on(store, &[Topic::Log(scene.log())]).await;
    for first in 2..12 {
        scene.write(&scene.append(&token, first, updates(1))).await;
    }
    for first in 2..12 {
        let signal = ear.next().await;
        let Signal::Frame(log, frame) = &signal else {
            panic!("{signal:?}")
        };
        assert_eq!((log, frame.first), (&scene.log(), first));
        assert_eq!(*frame, store.read(log, first, 1).await.unwrap()[0]);
    }
}

pub async fn only_what_was_written_is_signalled(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let token = scene.claim().await.token;
    let mut ear = SignalProbe::on(store, &[Topic::Log(scene.log())]).await;
    let append = scene.append(&token, 1, updates(1));
    for _ in 0..3 {
        scene.write(&append).await;
    }
    scene
        .write(&AppendRequest {
            acks: scene.named(&[1]).await,
            ..scene.append(&token, 2, Vec::new())
        })
        .await;
    scene.write(&scene.append(&token, 9, updates(1))).await;
    scene.write(&scene.append(&token, 2, updates(1))).await;
    for first in [1, 2] {
        let signal = ear.next().await;
        assert!(
            matches!(&signal, Signal::Frame(_, frame) if frame.first == first),
            "{signal:?}"
        );
    }
}

pub async fn an_attached_connection_is_signalled(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let connection = scene.another_connection();
    let mut ear = SignalProbe::on(store, &[Topic::Log(scene.log())]).await;
    store.attach(&scene.attach(&connection, "1")).await.unwrap();
    let signal = ear.next().await;
    let Signal::Attached(session, attached) = &signal else {
        panic!("{signal:?}")
    };
    assert_eq!((session, attached), (&scene.id, &connection));
}

pub async fn a_taken_session_stream_is_signalled(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let mut ear = SignalProbe::on(store, &[Topic::Log(scene.log())]).await;
    scene.open_stream(&scene.creator, "replica-2/7").await;
    expect_taken(&mut ear, &scene.stream(&scene.creator), "replica-2/7").await;
}

pub async fn a_taken_connection_stream_is_signalled(store: &Arc<dyn Store>) {
    let scene = Scene::planned(store);
    let stream = StreamId {
        connection: scene.creator.clone(),
        session: None,
    };
    let mut ear = SignalProbe::on(store, &[Topic::Log(stream.log())]).await;
    store
        .open_stream(&stream, &scene.principal, "replica-1/3")
        .await
        .unwrap()
        .unwrap();
    expect_taken(&mut ear, &stream, "replica-1/3").await;
}

async fn expect_taken(ear: &mut SignalProbe, stream: &StreamId, by: &str) {
    let signal = ear.next().await;
    let Signal::Taken {
        log,
        connection,
        holder,
    } = &signal
    else {
        panic!("{signal:?}")
    };
    assert_eq!((log, connection), (&stream.log(), &stream.connection));
    assert_eq!(holder, by);
}

pub async fn a_post_is_signalled(store: &Arc<dyn Store>) {
    let scene = Scene::planned(store);
    let log = LogId::Outbox(scene.creator.clone());
    let mut ear = SignalProbe::on(store, &[Topic::Log(log.clone())]).await;
    let event = Event::Message {
        message: Bytes::from_static(b"{}"),
    };
    let key = IdempotencyKey::of(&scene.creator, Some("1"), b"{}");
    store
        .post(&scene.creator, event.clone(), &key)
        .await
        .unwrap();
    let signal = ear.next().await;
    let Signal::Frame(of, frame) = &signal else {
        panic!("{signal:?}")
    };
    assert_eq!((of, frame.first, &frame.events), (&log, 1, &vec![event]));
}

pub async fn work_wakes_those_who_wait_for_it(store: &Arc<dyn Store>) {
    let scene = Scene::planned(store);
    let mut ear = SignalProbe::on(store, &[scene.ready()]).await;
    let mut expect_ready = async || {
        let signal = ear.next().await;
        assert!(
            matches!(&signal, Signal::Ready(id) if *id == scene.id),
            "{signal:?}"
        );
    };
    scene.create().await;
    expect_ready().await;
    store.enqueue(&scene.prompt("1")).await.unwrap();
    expect_ready().await;
    // Nobody holds a live lease: whoever waits is told, not the one who vanished.
    scene.try_claim(&scene.claimant(OVER)).await.unwrap();
    store.enqueue(&scene.prompt("2")).await.unwrap();
    expect_ready().await;
}

pub async fn a_command_wakes_the_holder_and_nobody_else(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let claimant = scene.claimant(LONG);
    let Claimant { worker, token, .. } = &claimant;
    scene.try_claim(&claimant).await.unwrap();
    let inbox = Topic::Inbox(scene.id.partition(), worker.clone());
    let mut ear = SignalProbe::on(store, &[inbox, scene.ready()]).await;
    store
        .enqueue(&scene.request(scene.command(CommandKind::Cancel, None)))
        .await
        .unwrap();
    let signal = ear.next().await;
    assert!(
        matches!(&signal, Signal::Inbox(id) if *id == scene.id),
        "{signal:?}"
    );
    scene.finish(token).await;
    store.enqueue(&scene.prompt("1")).await.unwrap();
    let signal = ear.next().await;
    assert!(
        matches!(&signal, Signal::Ready(id) if *id == scene.id),
        "{signal:?}"
    );
}

pub async fn a_holder_hears_of_other_settings_before_what_comes_then(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let claimant = scene.claimant(LONG);
    let Claimant { worker, .. } = &claimant;
    scene.try_claim(&claimant).await.unwrap();
    let inbox = Topic::Inbox(scene.id.partition(), worker.clone());
    let mut ear = SignalProbe::on(store, &[inbox]).await;
    let with = |request: &str, servers: &'static str| AttachParams {
        setup: SessionSetup {
            mcp_servers: Some(Bytes::from_static(servers.as_bytes())),
            directories: None,
        },
        ..scene.attach(&scene.creator, request)
    };
    let is_setup = |signal: &Signal| matches!(signal, Signal::SetupChanged(id) if *id == scene.id);
    store.attach(&with("1", "[1]")).await.unwrap();
    ear.until(is_setup).await;
    // The same once more, and somebody who reads along.
    store.attach(&with("2", "[1]")).await.unwrap();
    let watch = AttachParams {
        observe: true,
        ..with("3", "[3]")
    };
    store.attach(&watch).await.unwrap();
    store.attach(&with("4", "[4]")).await.unwrap();
    store.enqueue(&scene.prompt("5")).await.unwrap();
    // A step that is repeated may tell it again.
    let mut is_told = false;
    loop {
        let signal = ear.next().await;
        match &signal {
            Signal::Inbox(id) if *id == scene.id => break,
            signal => assert!(is_setup(signal), "{signal:?}"),
        }
        is_told = true;
    }
    assert!(is_told);
}

pub async fn a_joined_request_wakes_nobody(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let mut ear = SignalProbe::on(store, &[scene.ready()]).await;
    scene.create().await;
    store.enqueue(&scene.request(scene.first())).await.unwrap();
    let next = scene.sibling().await;
    let signal = ear.next().await;
    assert!(
        matches!(&signal, Signal::Ready(id) if *id == next.id),
        "{signal:?}"
    );
}

pub async fn nothing_is_heard_after_unsubscribing(store: &Arc<dyn Store>) {
    let quiet = Scene::created(store).await;
    let loud = quiet.sibling().await;
    let mut ear = SignalProbe::on(store, &[Topic::Log(quiet.log()), Topic::Log(loud.log())]).await;
    let (hushed, heard) = (quiet.claim().await.token, loud.claim().await.token);
    quiet.write(&quiet.append(&hushed, 1, updates(1))).await;
    let signal = ear.next().await;
    assert!(
        matches!(&signal, Signal::Frame(log, _) if *log == quiet.log()),
        "{signal:?}"
    );
    ear.listener.unsubscribe(&Topic::Log(quiet.log())).await;
    quiet.write(&quiet.append(&hushed, 2, updates(1))).await;
    loud.write(&loud.append(&heard, 1, updates(1))).await;
    let signal = ear.next().await;
    assert!(
        matches!(&signal, Signal::Frame(log, _) if *log == loud.log()),
        "{signal:?}"
    );
}

pub async fn a_topic_can_be_taken_up_again(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let token = scene.claim().await.token;
    let topic = Topic::Log(scene.log());
    let mut ear = SignalProbe::on(store, &[topic.clone(), topic.clone()]).await;
    ear.listener.unsubscribe(&topic).await;
    scene.write(&scene.append(&token, 1, updates(1))).await;
    ear.listener.subscribe(&topic).await.unwrap();
    scene.write(&scene.append(&token, 2, updates(1))).await;
    scene.write(&scene.append(&token, 3, updates(1))).await;
    for first in [2, 3] {
        let signal = ear.next().await;
        assert!(
            matches!(&signal, Signal::Frame(_, frame) if frame.first == first),
            "{signal:?}"
        );
    }
}

pub async fn every_listener_hears(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let token = scene.claim().await.token;
    let mut ears = [
        SignalProbe::on(store, &[Topic::Log(scene.log())]).await,
        SignalProbe::on(store, &[Topic::Log(scene.log())]).await,
    ];
    scene.write(&scene.append(&token, 1, updates(1))).await;
    for ear in &mut ears {
        let signal = ear.next().await;
        assert!(
            matches!(&signal, Signal::Frame(_, frame) if frame.first == 1),
            "{signal:?}"
        );
    }
}

pub async fn a_full_sink_is_told_that_it_missed_something(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let token = scene.claim().await.token;
    let mut ear = SignalProbe::with_room(store, &[Topic::Log(scene.log())], 2).await;
    for first in 1..=6 {
        scene.write(&scene.append(&token, first, updates(1))).await;
    }
    // Nothing more is written: the loss has to be told on its own.
    ear.until(|signal| matches!(signal, Signal::Lost)).await;
    scene.write(&scene.append(&token, 7, updates(1))).await;
    ear.until(|signal| matches!(signal, Signal::Frame(_, frame) if frame.first == 7))
        .await;
}
