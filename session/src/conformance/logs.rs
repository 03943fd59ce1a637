//! Reading logs back.

use std::sync::Arc;

use bytes::Bytes;

use super::scene::{EVERYTHING_THAT_RESTS, Scene, SignalProbe, begin, end, update, updates};
use crate::command::IdempotencyKey;
use crate::event::{Event, Frame, ResponseRecipient};
use crate::id::{LogId, Nonce};
use crate::route::DeliveryPath;
use crate::store::{AppendOutcome, AppendRequest, PAGE_BYTES, PostOutcome, Signal, Store, Topic};

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
    let to = ResponseRecipient {
        connection: creator.clone(),
        request: "\"a\nb\"".into(),
        via: DeliveryPath::Session,
        trace: None,
        at: None,
    };
    let events = vec![
        begin(1, creator, DeliveryPath::Connection),
        Event::Echo {
            by: creator.clone(),
            at: None,
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
        end(creator, DeliveryPath::Connection),
    ];
    let nonce = Nonce(0xfeed_beef);
    scene
        .write(&AppendRequest {
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
    let mut ear = SignalProbe::on(store, &[Topic::Log(scene.log())]).await;
    for (first, size) in [(1, 17 * 1024), (2, 1024 * 1024), (3, 10)] {
        let events = vec![update(&"x".repeat(size))];
        let outcome = scene
            .write(&scene.append(&token, first, events.clone()))
            .await;
        assert_eq!(
            outcome,
            AppendOutcome::Done {
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

/// Reads a log in pages, whose number it returns; none is empty or larger than it may be.
async fn in_pages(store: &Arc<dyn Store>, log: &LogId, head: u64) -> (usize, Vec<Event>) {
    let (mut next, mut pages, mut events) = (1, 0, Vec::new());
    while next <= head {
        let page = store.read(log, next, 1000).await.unwrap();
        let weight: u64 = page.iter().map(|frame| frame.weight()).sum();
        assert!(!page.is_empty(), "nothing from {next} on, of {head}");
        assert!(
            page.len() == 1 || weight <= PAGE_BYTES,
            "{} frames of {weight} bytes from {next} on",
            page.len()
        );
        let numbered = page.iter().flat_map(|frame| frame.numbered());
        for (seq, event) in numbered.filter(|(seq, _)| *seq >= next) {
            assert_eq!(seq, events.len() as u64 + 1);
            events.push(event.clone());
        }
        next = page[page.len() - 1].last() + 1;
        pages += 1;
    }
    (pages, events)
}

pub async fn a_page_is_bounded_in_bytes_and_never_empty(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let claim = scene.claim().await;
    let large = PAGE_BYTES as usize / 4;
    let sizes = [10, large, large, 10, large, large, 3 * large, 9 * large, 10];
    // So that no message begins or ends as another does.
    let text = |(at, size): (usize, &usize)| at.to_string().repeat(*size);
    let texts: Vec<String> = sizes.iter().enumerate().map(text).collect();
    for (text, first) in texts.iter().zip(1..) {
        let append = scene.append(&claim.token, first, vec![update(text)]);
        scene.write(&append).await;
    }
    let said: Vec<Event> = texts.iter().map(|text| update(text)).collect();
    let heir = scene.heir();
    let upto = said.len() as u64;
    scene.try_fork(&scene.cut(&heir, upto, "")).await;
    let all = async || {
        for log in [scene.log(), heir.log()] {
            let (pages, events) = in_pages(store, &log, upto).await;
            assert!(pages >= 5 && events == said, "{pages} pages");
        }
    };
    all().await;
    scene.finish(&claim.token).await;
    scene.tidy(&EVERYTHING_THAT_RESTS).await;
    all().await;
}

pub async fn what_rests_is_read_in_pages_however_small_it_became(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let claim = scene.claim().await;
    // Each is nearly the one before: at rest all of them are about as large as one.
    let text = |at| format!("{}{at}", "x".repeat(30 << 10));
    let said: Vec<Event> = (0..120).map(|at| update(&text(at))).collect();
    for (events, at) in said.chunks(2).zip(0..) {
        let append = scene.append(&claim.token, 2 * at + 1, events.to_vec());
        scene.write(&append).await;
    }
    scene.finish(&claim.token).await;
    scene.tidy(&EVERYTHING_THAT_RESTS).await;
    let (_, events) = in_pages(store, &scene.log(), said.len() as u64).await;
    assert_eq!(events[..said.len()], said);
    let mut from = 1;
    while from <= said.len() as u64 {
        let page = store.read(&scene.log(), from, 1000).await.unwrap();
        let weight: u64 = page.iter().map(|frame| frame.weight()).sum();
        assert!(weight <= PAGE_BYTES, "{weight} bytes from {from} on");
        from = page[page.len() - 1].last() + 1;
    }
}

pub async fn a_page_of_an_outbox_is_bounded_in_bytes(store: &Arc<dyn Store>) {
    let connection = Scene::planned(store).creator;
    let text = |at: usize| at.to_string().repeat(PAGE_BYTES as usize / 3);
    for at in 0..7 {
        let message = Bytes::from(text(at));
        let event = Event::Message { message };
        let key = IdempotencyKey::of(&connection, None, b"");
        let posted = store.post(&connection, event, &key).await.unwrap();
        assert!(matches!(posted, PostOutcome::New { .. }));
    }
    let (pages, events) = in_pages(store, &LogId::Outbox(connection), 7).await;
    assert!(pages >= 3, "{pages} pages");
    assert_eq!(events.len(), 7);
}
