//! Housekeeping: what rests becomes smaller and stays the same, what nobody uses goes.

use std::sync::Arc;

use super::scene::{EVERYTHING_THAT_RESTS, Scene, begin, end, updates};
use crate::route::DeliveryPath;
use crate::store::{AppendOutcome, AppendRequest, EnqueueOutcome, Store};

/// A session with a turn of many frames that is over, written by two claims.
async fn rested(store: &Arc<dyn Store>) -> Scene {
    let scene = Scene::created(store).await;
    let first = scene.claim().await.token;
    for frame in 0..20 {
        scene
            .write(&scene.append(&first, frame * 3 + 1, updates(3)))
            .await;
    }
    store
        .release(&scene.id, &first)
        .await
        .expect("it is released");
    let second = scene.claim().await.token;
    let last = AppendRequest {
        acks: scene.named(&[1]).await,
        view: Some("{\"modes\":1}".into()),
        release: true,
        ..scene.append(&second, 61, updates(2))
    };
    let head = 62;
    let done = AppendOutcome::Done {
        head,
        released: true,
    };
    assert_eq!(scene.write(&last).await, done);
    scene
}

pub async fn every_event_reads_the_same_afterwards(store: &Arc<dyn Store>) {
    let scene = rested(store).await;
    let all = scene.events(1).await;
    assert_eq!(all.len(), 62);
    scene.tidy(&EVERYTHING_THAT_RESTS).await;
    for from in 1..=63 {
        assert_eq!(
            scene.events(from).await,
            all[from as usize - 1..],
            "from {from}"
        );
    }
    let heads = store.heads(&[scene.log()]).await.expect("a head");
    assert_eq!(heads, [62]);
    // Once more changes nothing.
    scene.tidy(&EVERYTHING_THAT_RESTS).await;
    assert_eq!(scene.events(1).await, all);
}

pub async fn a_long_log_reads_the_same_afterwards(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let token = scene.claim().await.token;
    for frame in 1..=700 {
        scene.write(&scene.append(&token, frame, updates(1))).await;
    }
    let last = AppendRequest {
        acks: scene.named(&[1]).await,
        release: true,
        ..scene.append(&token, 701, updates(1))
    };
    scene.write(&last).await;
    let all = scene.events(1).await;
    assert_eq!(all.len(), 701);
    scene.tidy(&EVERYTHING_THAT_RESTS).await;
    for from in [1, 200, 256, 257, 258, 511, 512, 513, 600, 701] {
        assert_eq!(
            scene.events(from).await,
            all[from as usize - 1..],
            "from {from}"
        );
    }
}

pub async fn a_tidied_session_goes_on(store: &Arc<dyn Store>) {
    let scene = rested(store).await;
    let mut all = scene.events(1).await;
    for round in 0..3 {
        scene.tidy(&EVERYTHING_THAT_RESTS).await;
        let head = 62 + round * 4;
        let command = round + 2;
        let accepted = store.enqueue(&scene.prompt(&command.to_string())).await;
        assert!(
            matches!(accepted, Ok(EnqueueOutcome::Accepted { .. })),
            "{accepted:?}"
        );
        let claim = scene.claim().await;
        assert_eq!(
            (claim.head, claim.running, claim.inbox.len()),
            (head, None, 1)
        );
        let mut turn = vec![begin(command, &scene.creator, DeliveryPath::Connection)];
        turn.extend(updates(2));
        turn.push(end(&scene.creator, DeliveryPath::Connection));
        let append = AppendRequest {
            acks: scene.named(&[command]).await,
            release: true,
            ..scene.append(&claim.token, head + 1, turn)
        };
        scene.write(&append).await;
        let new = scene.events(head + 1).await;
        assert_eq!(new.len(), 4);
        all.extend(new);
        assert_eq!(scene.events(1).await, all);
    }
}

pub async fn a_held_session_keeps_all_it_needs(store: &Arc<dyn Store>) {
    let scene = rested(store).await;
    store.enqueue(&scene.prompt("2")).await.expect("accepted");
    let token = scene.claim().await.token;
    let begun = vec![begin(2, &scene.creator, DeliveryPath::Connection)];
    scene.write(&scene.append(&token, 63, begun)).await;
    let all = scene.events(1).await;
    scene.tidy(&EVERYTHING_THAT_RESTS).await;
    scene.forget().await;
    assert_eq!(scene.events(1).await, all);
    let append = scene.append(&token, 64, updates(1));
    let head = 64;
    let done = AppendOutcome::Done {
        head,
        released: false,
    };
    assert_eq!(scene.write(&append).await, done);
    assert_eq!(
        store.inbox(&scene.id, &[]).await.expect("an inbox").len(),
        1
    );
}

pub async fn what_a_session_shows_is_still_there(store: &Arc<dyn Store>) {
    let scene = rested(store).await;
    let other = rested(store).await;
    let before = scene.attachment(&scene.creator).await;
    assert_eq!(before.view, "{\"modes\":1}");
    scene.tidy(&EVERYTHING_THAT_RESTS).await;
    assert_eq!(scene.attachment(&scene.creator).await, before);
    assert_eq!(other.attachment(&other.creator).await.view, before.view);
}

pub async fn a_request_is_still_recognised_afterwards(store: &Arc<dyn Store>) {
    let scene = rested(store).await;
    let prompt = scene.prompt("7");
    let accepted = store.enqueue(&prompt).await.expect("an answer");
    let EnqueueOutcome::Accepted { command, head, via } = accepted else {
        panic!("{accepted:?}");
    };
    let token = scene.claim().await.token;
    let append = AppendRequest {
        acks: vec![command],
        release: true,
        ..scene.append(&token, 63, updates(1))
    };
    scene.write(&append).await;
    scene.tidy(&EVERYTHING_THAT_RESTS).await;
    let again = store.enqueue(&prompt).await.expect("an answer");
    assert_eq!(again, EnqueueOutcome::Joined { command, head, via });
}

pub async fn what_nobody_uses_is_forgotten(store: &Arc<dyn Store>) {
    let scene = rested(store).await;
    scene.forget().await;
    assert_eq!(scene.events(1).await, []);
    let found = store
        .attachment(&scene.id, &scene.creator, &scene.principal)
        .await;
    assert_eq!(found.expect("an answer"), None);
    let refused = store.enqueue(&scene.prompt("9")).await.expect("an answer");
    assert_eq!(refused, EnqueueOutcome::NotFound);
}

pub async fn what_somebody_uses_is_kept(store: &Arc<dyn Store>) {
    let listened_to = rested(store).await;
    listened_to.open_stream(&listened_to.creator, "a").await;
    listened_to.forget().await;
    assert_eq!(listened_to.events(1).await.len(), 62);
    let asked = rested(store).await;
    store.enqueue(&asked.prompt("2")).await.expect("accepted");
    asked.forget().await;
    assert_eq!(asked.events(1).await.len(), 62);
}
