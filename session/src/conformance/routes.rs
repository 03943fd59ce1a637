//! How the log itself moves a connection from one stream to another.

use std::sync::Arc;

use super::scene::{Scene, begin, end, update, updates};
use crate::event::Event;
use crate::id::ConnectionId;
use crate::route::{DeliveryPath, Route};
use crate::store::{ClaimToken, Store};

async fn route(scene: &Scene, connection: &ConnectionId) -> Route {
    scene.attachment(connection).await.route
}

async fn write(scene: &Scene, token: &ClaimToken, events: Vec<Event>) {
    let first = scene.head().await + 1;
    scene.write(&scene.append(token, first, events)).await;
}

pub async fn the_creator_reads_from_the_first_event_on(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let attachment = scene.attachment(&scene.creator).await;
    assert_eq!(attachment.route.to_text(), "1c");
    assert_eq!(
        (attachment.controller, attachment.head),
        (Some(scene.creator.clone()), 0)
    );
    let stranger = scene.attachment(&scene.another_connection()).await;
    assert_eq!(stranger.route.joined(), None);
}

pub async fn a_turn_switches_route_and_controller(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let other = scene.another_connection();
    let token = scene.claim().await.token;
    write(&scene, &token, updates(2)).await;
    write(
        &scene,
        &token,
        vec![update("x"), begin(2, &scene.creator, DeliveryPath::Session)],
    )
    .await;
    assert_eq!(route(&scene, &scene.creator).await.to_text(), "1c,4s");
    write(
        &scene,
        &token,
        vec![
            end(&scene.creator, DeliveryPath::Session),
            begin(3, &other, DeliveryPath::Connection),
        ],
    )
    .await;
    let attachment = scene.attachment(&other).await;
    assert_eq!(
        (attachment.route.to_text().as_str(), attachment.controller),
        ("6c", Some(other))
    );
    assert_eq!(route(&scene, &scene.creator).await.to_text(), "1c,4s");
}

pub async fn a_turn_on_the_same_stream_switches_nothing(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let token = scene.claim().await.token;
    for command in 2..5 {
        let turn = vec![
            begin(command, &scene.creator, DeliveryPath::Connection),
            end(&scene.creator, DeliveryPath::Connection),
        ];
        write(&scene, &token, turn).await;
    }
    assert_eq!(route(&scene, &scene.creator).await.to_text(), "1c");
}

pub async fn a_one_shot_turn_gives_the_route_back(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let creator = &scene.creator;
    let token = scene.claim().await.token;
    write(&scene, &token, updates(1)).await;
    write(
        &scene,
        &token,
        vec![begin(2, creator, DeliveryPath::OneShot), update("x")],
    )
    .await;
    let during = route(&scene, creator).await;
    assert_eq!(
        (during.at(1), during.at(2), during.at(9)),
        (
            Some(DeliveryPath::Connection),
            Some(DeliveryPath::OneShot),
            Some(DeliveryPath::OneShot)
        )
    );
    write(&scene, &token, vec![end(creator, DeliveryPath::OneShot)]).await;
    let after = route(&scene, creator).await;
    assert_eq!(
        (after.at(4), after.at(5)),
        (Some(DeliveryPath::OneShot), Some(DeliveryPath::Connection))
    );
}

pub async fn one_shot_turns_in_a_row_give_the_route_back(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let creator = &scene.creator;
    let token = scene.claim().await.token;
    // Each begins with the very event after which the one before gave the route back.
    for command in 2..5 {
        write(
            &scene,
            &token,
            vec![begin(command, creator, DeliveryPath::OneShot)],
        )
        .await;
        write(
            &scene,
            &token,
            vec![update("x"), end(creator, DeliveryPath::OneShot)],
        )
        .await;
    }
    let after = route(&scene, creator).await;
    let ways: Vec<Option<DeliveryPath>> = (1..=10).map(|seq| after.at(seq)).collect();
    let mut expected = vec![Some(DeliveryPath::OneShot); 9];
    expected.push(Some(DeliveryPath::Connection));
    assert_eq!(ways, expected);
}

pub async fn a_one_shot_turn_right_after_attaching_gives_the_route_back(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let newcomer = scene.another_connection();
    let token = scene.claim().await.token;
    write(&scene, &token, updates(3)).await;
    scene.open_stream(&newcomer, "a").await;
    store.attach(&scene.attach(&newcomer, "1")).await.unwrap();
    write(
        &scene,
        &token,
        vec![
            begin(2, &newcomer, DeliveryPath::OneShot),
            end(&newcomer, DeliveryPath::OneShot),
        ],
    )
    .await;
    let after = route(&scene, &newcomer).await;
    assert_eq!(
        (after.joined(), after.at(4), after.at(5)),
        (
            Some(4),
            Some(DeliveryPath::OneShot),
            Some(DeliveryPath::OneShot)
        )
    );
    assert_eq!(after.at(6), Some(DeliveryPath::Session));
}

pub async fn many_switches_leave_the_latest(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let creator = &scene.creator;
    let token = scene.claim().await.token;
    let mut expected = Route::from_text("1c").unwrap();
    for seq in 1..=150 {
        let via = if seq % 2 == 0 {
            DeliveryPath::Session
        } else {
            DeliveryPath::Connection
        };
        expected.switch(seq, via);
        scene
            .write(&scene.append(&token, seq, vec![begin(seq, creator, via)]))
            .await;
    }
    assert_eq!(route(&scene, creator).await, expected);
}

pub async fn a_connection_that_was_only_answered_in_a_body_leaves_nothing(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let passer_by = scene.another_connection();
    let token = scene.claim().await.token;
    let turn = vec![
        begin(2, &passer_by, DeliveryPath::OneShot),
        end(&passer_by, DeliveryPath::OneShot),
    ];
    write(&scene, &token, turn).await;
    assert_eq!(route(&scene, &passer_by).await, Route::default());
    write(&scene, &token, updates(1)).await;
    scene.open_stream(&passer_by, "a").await;
    store.attach(&scene.attach(&passer_by, "1")).await.unwrap();
    let back = route(&scene, &passer_by).await;
    assert_eq!(
        (back.at(3), back.at(4)),
        (None, Some(DeliveryPath::Session))
    );
}
