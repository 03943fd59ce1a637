//! The one way to write a session's log.

use std::sync::Arc;

use bytes::Bytes;

use super::scene::{OVER, Scene, begin, end, update, updates};
use crate::command::{CommandId, IdempotencyKey, QueuedCommand};
use crate::event::Event;
use crate::route::DeliveryPath;
use crate::store::{
    AnsweredRequest, AppendOutcome, AppendRequest, ClaimToken, EnqueueOutcome, EnqueueRequest,
    Store,
};

fn done(head: u64) -> AppendOutcome {
    AppendOutcome::Done {
        head,
        released: false,
    }
}

async fn events(scene: &Scene) -> Vec<(u64, Event)> {
    let frames = scene.store.read(&scene.log(), 1, 1000).await.unwrap();
    let numbered = frames.iter().flat_map(|frame| frame.numbered());
    numbered
        .map(|(number, event)| (number, event.clone()))
        .collect()
}

pub async fn events_are_numbered_without_holes(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let token = scene.claim().await.token;
    let mut written = Vec::new();
    for count in [1, 3, 2] {
        let batch = updates(count);
        let first = written.len() as u64 + 1;
        written.extend(batch.clone());
        let outcome = scene.write(&scene.append(&token, first, batch)).await;
        assert_eq!(outcome, done(written.len() as u64));
    }
    assert_eq!(events(&scene).await, (1..).zip(written).collect::<Vec<_>>());
}

pub async fn a_repeated_append_is_done_but_writes_nothing(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let token = scene.claim().await.token;
    let append = scene.append(&token, 1, updates(2));
    assert_eq!(scene.write(&append).await, done(2));
    assert_eq!(scene.write(&append).await, done(2));
    scene.write(&scene.append(&token, 3, updates(1))).await;
    assert_eq!(scene.write(&append).await, done(3));
    assert_eq!(store.read(&scene.log(), 1, 100).await.unwrap().len(), 2);
    assert_eq!(events(&scene).await.len(), 3);
}

pub async fn a_gap_is_refused_from_both_sides(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let token = scene.claim().await.token;
    let gap = |head| AppendOutcome::Gap { head };
    assert_eq!(
        scene.write(&scene.append(&token, 2, updates(1))).await,
        gap(0)
    );
    scene.write(&scene.append(&token, 1, updates(2))).await;
    assert_eq!(
        scene.write(&scene.append(&token, 4, updates(1))).await,
        gap(2)
    );
    // Half of it is there already: no answer but "look again" would be true.
    let overlap = AppendRequest {
        acks: scene.named(&[1]).await,
        ..scene.append(&token, 2, updates(2))
    };
    assert_eq!(scene.write(&overlap).await, gap(2));
    assert_eq!((scene.head().await, events(&scene).await.len()), (2, 2));
    assert_eq!(store.inbox(&scene.id, &[]).await.unwrap().len(), 1);
}

pub async fn only_the_holder_writes(store: &Arc<dyn Store>) {
    let unknown = Scene::planned(store);
    let nobody = ClaimToken::random();
    assert_eq!(
        unknown.write(&unknown.append(&nobody, 1, updates(1))).await,
        AppendOutcome::Fenced
    );
    let scene = Scene::created(store).await;
    assert_eq!(
        scene.write(&scene.append(&nobody, 1, updates(1))).await,
        AppendOutcome::Fenced
    );
    scene.claim().await;
    let trespass = AppendRequest {
        acks: scene.named(&[1]).await,
        view: Some(Bytes::from_static(b"mine")),
        release: true,
        ..scene.append(&nobody, 1, updates(1))
    };
    assert_eq!(scene.write(&trespass).await, AppendOutcome::Fenced);
    assert_eq!(scene.head().await, 0);
    assert_eq!(store.inbox(&scene.id, &[]).await.unwrap().len(), 1);
    assert!(scene.attachment(&scene.creator).await.view.is_empty());
}

pub async fn acknowledged_commands_leave_and_others_stay(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    for request in ["1", "2", "3"] {
        store.enqueue(&scene.prompt(request)).await.unwrap();
    }
    let token = scene.claim().await.token;
    let acks = scene.named(&[1, 3, 99]).await;
    scene
        .write(&AppendRequest {
            acks,
            ..scene.append(&token, 1, updates(1))
        })
        .await;
    let waiting = store.inbox(&scene.id, &[]).await.unwrap();
    assert_eq!(
        waiting
            .iter()
            .map(|queued| queued.id.number)
            .collect::<Vec<_>>(),
        [2, 4]
    );
    // Numbers are never used again.
    scene
        .write(&AppendRequest {
            acks: scene.named(&[4]).await,
            ..scene.append(&token, 2, updates(1))
        })
        .await;
    store.enqueue(&scene.prompt("4")).await.unwrap();
    let waiting = store.inbox(&scene.id, &[]).await.unwrap();
    assert_eq!(
        waiting
            .iter()
            .map(|queued| queued.id.number)
            .collect::<Vec<_>>(),
        [2, 5]
    );
}

/// A failover lost that a request was ever taken, but not its holder, which has read it before and
/// answers it.
pub async fn a_lost_request_that_was_answered_is_joined(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let token = scene.claim().await.token;
    let request = scene.prompt("1");
    let lost = QueuedCommand {
        id: CommandId {
            number: 7,
            nonce: 0xabcd,
        },
        via: DeliveryPath::OneShot,
        takes_control: false,
        command: request.command.clone(),
    };
    let begun = scene.append(&token, 1, updates(2));
    scene.write(&begun).await;
    let answered = AppendRequest {
        acks: vec![lost.id],
        requests: AnsweredRequest::of(&lost).into_iter().collect(),
        ..scene.append(&token, 3, updates(1))
    };
    assert_eq!(scene.write(&answered).await, done(3));
    assert_eq!(scene.write(&answered).await, done(3));
    let joined = EnqueueOutcome::Joined {
        command: lost.id,
        head: 2,
        via: DeliveryPath::OneShot,
    };
    assert_eq!(store.enqueue(&request).await.unwrap(), joined);
    let other = EnqueueRequest {
        key: IdempotencyKey::of(&scene.creator, Some("1"), b"other words"),
        ..request
    };
    assert_eq!(
        store.enqueue(&other).await.unwrap(),
        EnqueueOutcome::Conflict
    );
    // Where its turn began, if that was written before.
    let request = scene.prompt("2");
    let lost = QueuedCommand {
        id: CommandId {
            number: 8,
            nonce: 0xabcd,
        },
        command: request.command.clone(),
        ..lost
    };
    let begins = begin(lost.id, &scene.creator, lost.via);
    let begun = scene.append(&token, 4, vec![begins, update("words")]);
    scene.write(&begun).await;
    let answered = AppendRequest {
        acks: vec![lost.id],
        requests: AnsweredRequest::of(&lost).into_iter().collect(),
        ..scene.append(&token, 6, vec![end(&scene.creator, lost.via)])
    };
    assert_eq!(scene.write(&answered).await, done(6));
    let joined = EnqueueOutcome::Joined {
        command: lost.id,
        head: 3,
        via: DeliveryPath::OneShot,
    };
    assert_eq!(store.enqueue(&request).await.unwrap(), joined);
}

pub async fn an_append_without_events_only_acknowledges(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let token = scene.claim().await.token;
    scene.write(&scene.append(&token, 1, updates(2))).await;
    let acks = AppendRequest {
        acks: scene.named(&[1]).await,
        ..scene.append(&token, 3, Vec::new())
    };
    assert_eq!(scene.write(&acks).await, done(2));
    assert_eq!(scene.write(&acks).await, done(2));
    assert!(store.inbox(&scene.id, &[]).await.unwrap().is_empty());
    assert_eq!(store.read(&scene.log(), 1, 100).await.unwrap().len(), 1);
    let ahead = AppendRequest {
        acks: scene.named(&[1]).await,
        ..scene.append(&token, 4, Vec::new())
    };
    assert_eq!(scene.write(&ahead).await, AppendOutcome::Gap { head: 2 });
    assert_eq!(
        scene.write(&scene.append(&token, 3, updates(1))).await,
        done(3)
    );
}

pub async fn fields_stay_until_they_are_changed(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let claimant = scene.claimant(OVER);
    scene.try_claim(&claimant).await.unwrap();
    let (state, view) = (
        Bytes::from_static(b"state\0\xff\n"),
        Bytes::from_static(b"{\"modes\":1}"),
    );
    let first = AppendRequest {
        state: Some(state.clone()),
        view: Some(view.clone()),
        pending: Some(vec![1, 12]),
        title: Some("A title".into()),
        ..scene.append(&claimant.token, 1, updates(1))
    };
    scene.write(&first).await;
    scene
        .write(&scene.append(&claimant.token, 2, vec![update("no fields")]))
        .await;
    let attachment = scene.attachment(&scene.creator).await;
    assert_eq!(
        (attachment.view, attachment.pending),
        (view.clone(), vec![1, 12])
    );
    let claim = scene.claim().await;
    assert_eq!((claim.state, claim.head), (state, 2));
    let cleared = AppendRequest {
        state: Some(Bytes::new()),
        pending: Some(Vec::new()),
        ..scene.append(&claim.token, 3, Vec::new())
    };
    scene.write(&cleared).await;
    let attachment = scene.attachment(&scene.creator).await;
    assert_eq!((attachment.view, attachment.pending), (view, Vec::new()));
    let again = scene.claimant(OVER);
    store.release(&scene.id, &claim.token).await.unwrap();
    assert!(scene.try_claim(&again).await.unwrap().state.is_empty());
}

pub async fn a_repeated_append_changes_no_fields(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let token = scene.claim().await.token;
    let view = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
    let old = AppendRequest {
        view: view("old"),
        ..scene.append(&token, 1, updates(1))
    };
    scene.write(&old).await;
    scene
        .write(&AppendRequest {
            view: view("new"),
            ..scene.append(&token, 2, updates(1))
        })
        .await;
    assert_eq!(scene.write(&old).await, done(2));
    assert_eq!(scene.attachment(&scene.creator).await.view, "new");
}

pub async fn usage_and_bindings_stay_until_they_are_changed(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let claimant = scene.claimant(OVER);
    scene.try_claim(&claimant).await.unwrap();
    let told = AppendRequest {
        usage: Some("{\"used\":1}".into()),
        bound: Some("{\"a\":\"b\"}".into()),
        ..scene.append(&claimant.token, 1, updates(1))
    };
    scene.write(&told).await;
    let more = scene.append(&claimant.token, 2, updates(1));
    scene.write(&more).await;
    assert_eq!(scene.summary().await.usage, "{\"used\":1}");
    let claim = scene.claim().await;
    assert_eq!(claim.bound, "{\"a\":\"b\"}");
    let cleared = AppendRequest {
        bound: Some(Bytes::new()),
        ..scene.append(&claim.token, 3, Vec::new())
    };
    scene.write(&cleared).await;
    store.release(&scene.id, &claim.token).await.unwrap();
    assert_eq!(scene.claim().await.bound, "");
    assert_eq!(scene.summary().await.usage, "{\"used\":1}");
}

/// As a session that is taken in brings them.
pub async fn any_number_of_turns_fits_one_append(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let token = scene.claim().await.token;
    let via = DeliveryPath::Connection;
    let turns = (1..=5000).flat_map(|turn| {
        let creator = &scene.creator;
        [begin(turn, creator, via), end(creator, via)]
    });
    let mut events: Vec<Event> = turns.collect();
    events.push(begin(5001, &scene.creator, via));
    let append = scene.append(&token, 1, events);
    assert_eq!(scene.write(&append).await, done(10_001));
    store.release(&scene.id, &token).await.unwrap();
    let running = scene.claim().await.running.expect("the last turn runs");
    assert_eq!((running.command, running.began), (5001.into(), 10_001));
}
