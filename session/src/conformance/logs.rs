//! Reading logs back.

use std::sync::Arc;

use bytes::Bytes;

use super::scene::{EVERYTHING_THAT_RESTS, Ear, Scene, begin, end, update, updates};
use crate::event::{Event, Frame, Recipient};
use crate::id::{LogId, Nonce};
use crate::route::Via;
use crate::store::{Append, Appended, Signal, Store, Topic};

async fn with_frames(store: &Arc<dyn Store>, sizes: &[usize]) -> Scene {
    let scene = Scene::created(store).await;
    let token = scene.claim().await.token;
    let mut first = 1;
    for size in sizes {
        scene
            .write(&scene.append(&token, first, updates(*size)))
            .await;
        first += *size as u64;
    }
    scene
}

pub async fn reading_starts_with_the_frame_that_holds_the_event(store: &Arc<dyn Store>) {
    let scene = with_frames(store, &[1, 3, 2]).await;
    let firsts = async |from: u64, limit| -> Vec<u64> {
        let frames = store.read(&scene.log(), from, limit).await.unwrap();
        frames.iter().map(|frame| frame.first).collect()
    };
    for (from, expected) in [
        (0, vec![1, 2, 5]),
        (1, vec![1, 2, 5]),
        (2, vec![2, 5]),
        (4, vec![2, 5]),
    ] {
        assert_eq!(firsts(from, 100).await, expected, "from {from}");
    }
    assert_eq!(firsts(6, 100).await, [5]);
    assert_eq!(firsts(7, 100).await, [0u64; 0]);
    assert_eq!(firsts(3, 1).await, [2]);
    assert_eq!(firsts(1, 2).await, [1, 2]);
    assert_eq!(firsts(1, 0).await, [0u64; 0]);
}

pub async fn events_are_read_as_they_were_written(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let token = scene.claim().await.token;
    let creator = &scene.creator;
    let message = Bytes::from_static(b"\0\xff\r\n{\"text\":\"\xc3\xa4\"}");
    let to = Recipient {
        connection: creator.clone(),
        request: "\"a\nb\"".into(),
        via: Via::Session,
        trace: None,
    };
    let events = vec![
        begin(1, creator, Via::Connection),
        Event::Echo {
            by: creator.clone(),
            message: message.clone(),
        },
        Event::Update {
            turn: false,
            message: message.clone(),
        },
        Event::Request {
            id: "r1".into(),
            message: message.clone(),
        },
        Event::Answer {
            id: "r1".into(),
            by: Some(scene.creator.clone()),
            message: message.clone(),
        },
        Event::Response {
            to,
            turn: false,
            message: message.clone(),
        },
        update(""),
        end(creator, Via::Connection),
    ];
    let nonce = Nonce(0xfeed_beef);
    scene
        .write(&Append {
            nonce,
            ..scene.append(&token, 1, events.clone())
        })
        .await;
    let read = store.read(&scene.log(), 1, 10).await.unwrap();
    assert_eq!(
        *read[0],
        Frame {
            first: 1,
            nonce,
            events
        }
    );
}

pub async fn heads_are_told_for_many_logs_at_once(store: &Arc<dyn Store>) {
    let (long, short) = (
        with_frames(store, &[2, 2]).await,
        with_frames(store, &[1]).await,
    );
    let (empty, unknown) = (Scene::created(store).await, Scene::planned(store));
    let outbox = LogId::Outbox(unknown.creator.clone());
    let logs = [long.log(), unknown.log(), empty.log(), outbox, short.log()];
    assert_eq!(store.heads(&logs).await.unwrap(), [4, 0, 0, 0, 1]);
    assert_eq!(store.heads(&[]).await.unwrap(), [0u64; 0]);
}

pub async fn an_unknown_log_is_empty(store: &Arc<dyn Store>) {
    let unknown = Scene::planned(store);
    for log in [unknown.log(), LogId::Outbox(unknown.creator.clone())] {
        assert!(store.read(&log, 1, 10).await.unwrap().is_empty());
    }
}

pub async fn large_frames_are_signalled_and_read(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let token = scene.claim().await.token;
    let mut ear = Ear::on(store, &[Topic::Log(scene.log())]).await;
    for (first, size) in [(1, 17 * 1024), (2, 1024 * 1024), (3, 10)] {
        let events = vec![update(&"x".repeat(size))];
        let outcome = scene
            .write(&scene.append(&token, first, events.clone()))
            .await;
        assert_eq!(
            outcome,
            Appended::Done {
                head: first,
                released: false
            }
        );
        match ear.next().await {
            Signal::Frame(log, frame) => assert_eq!((log, &frame.events), (scene.log(), &events)),
            Signal::Grown(log, head) => assert_eq!((log, head), (scene.log(), first)),
            other => panic!("neither a frame nor growth: {other:?}"),
        }
        let read = store.read(&scene.log(), first, 10).await.unwrap();
        assert_eq!((read.len(), &read[0].events), (1, &events));
    }
}

pub async fn a_log_is_read_between_two_events(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let claim = scene.claim().await;
    // Frames of one, two and three events, again and again.
    let mut first = 1;
    for count in (1..=3).cycle().take(600) {
        let append = scene.append(&claim.token, first, updates(count));
        scene.write(&append).await;
        first += count as u64;
    }
    let heir = scene.heir();
    scene.try_fork(&scene.cut(&heir, 900, "")).await;
    let all = async || {
        for (log, from, upto) in [
            (scene.log(), 1, 1),
            (scene.log(), 500, 503),
            (scene.log(), 899, 1200),
            (heir.log(), 1, 900),
        ] {
            let (mut next, mut found) = (from, Vec::new());
            while next <= upto {
                let frames = store.read_between(&log, next, upto).await.unwrap();
                let last = frames.last().expect("there is more");
                assert!(frames[0].first <= next && frames[0].last() >= next);
                let events = frames.iter().flat_map(|frame| frame.numbered());
                let events = events.map(|(seq, _)| seq);
                found.extend(events.filter(|seq| (next..=upto).contains(seq)));
                next = last.last() + 1;
            }
            assert_eq!(found, (from..=upto).collect::<Vec<_>>());
        }
    };
    all().await;
    scene.finish(&claim.token).await;
    scene.tidy(&EVERYTHING_THAT_RESTS).await;
    all().await;
}
