//! Control: whoever prompts is asked from then on, although the prompt may still wait.

use std::sync::Arc;

use super::scene::Scene;
use crate::command::{Command, CommandKind};
use crate::event::{Event, TurnBegin};
use crate::id::ConnectionId;
use crate::route::DeliveryPath;
use crate::store::{EnqueueOutcome, EnqueueRequest, Store};

async fn ask(
    scene: &Scene,
    connection: &ConnectionId,
    kind: CommandKind,
    request: &str,
) -> EnqueueOutcome {
    let connection = connection.clone();
    let asked = EnqueueRequest {
        watched: true,
        ..scene.request(Command {
            connection,
            ..scene.command(kind, Some(request))
        })
    };
    scene.store.enqueue(&asked).await.unwrap()
}

async fn controller(scene: &Scene) -> ConnectionId {
    let controller = scene.attachment(&scene.creator).await.controller;
    controller.expect("somebody is in control")
}

pub async fn a_prompt_takes_control_as_soon_as_it_waits(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let (creator, other) = (&scene.creator, &scene.another_connection());
    let mut expected = vec![false];
    for (request, by, takes) in [
        ("1", creator, false),
        ("2", other, true),
        ("3", other, false),
        ("4", creator, true),
    ] {
        let outcome = ask(&scene, by, CommandKind::Prompt, request).await;
        assert!(
            matches!(outcome, EnqueueOutcome::Accepted { .. }),
            "{outcome:?}"
        );
        assert_eq!(controller(&scene).await, *by);
        expected.push(takes);
    }
    let took = |queued: &crate::command::QueuedCommand| queued.takes_control;
    let waiting = store.inbox(&scene.id, &[]).await.unwrap();
    assert_eq!(waiting.iter().map(took).collect::<Vec<_>>(), expected);
    let claim = scene.claim().await;
    assert_eq!(claim.inbox.iter().map(took).collect::<Vec<_>>(), expected);
}

pub async fn a_repeated_prompt_takes_nothing_back(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let other = scene.another_connection();
    ask(&scene, &scene.creator, CommandKind::Prompt, "1").await;
    ask(&scene, &other, CommandKind::Prompt, "1").await;
    let again = ask(&scene, &scene.creator, CommandKind::Prompt, "1").await;
    assert!(matches!(again, EnqueueOutcome::Joined { .. }), "{again:?}");
    assert_eq!(controller(&scene).await, other);
}

pub async fn only_a_prompt_that_is_taken_takes_control(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let other = scene.another_connection();
    for kind in [
        CommandKind::SetMode,
        CommandKind::Cancel,
        CommandKind::Answer,
        CommandKind::Extension,
    ] {
        ask(&scene, &other, kind, &format!("\"{}\"", kind.as_str())).await;
        assert_eq!(controller(&scene).await, scene.creator, "{kind:?}");
    }
    let unwatched = scene.prompt_by(&scene.another_connection(), "1");
    let outcome = store.enqueue(&unwatched).await.unwrap();
    assert_eq!(outcome, EnqueueOutcome::Unwatched { head: 0 });
    assert_eq!(controller(&scene).await, scene.creator);
    let waiting = store.inbox(&scene.id, &[]).await.unwrap();
    assert!(waiting.iter().all(|queued| !queued.takes_control));
}

pub async fn control_is_passed_on_by_the_log(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let token = scene.claim().await.token;
    let other = scene.another_connection();
    // A turn begins whose client is not the last that prompted.
    let events = vec![
        Event::Begin(TurnBegin {
            command: 1.into(),
            connection: scene.creator.clone(),
            via: DeliveryPath::Connection,
        }),
        Event::Control {
            command: 2.into(),
            by: other.clone(),
            via: DeliveryPath::Session,
        },
    ];
    scene.write(&scene.append(&token, 1, events)).await;
    assert_eq!(controller(&scene).await, other);
    // It had not joined before.
    let route = scene.attachment(&other).await.route;
    assert_eq!(
        (route.joined(), route.at(2)),
        (Some(2), Some(DeliveryPath::Session))
    );
    // Where its answer will come it is asked, and a body is no way to be asked.
    let third = scene.another_connection();
    let again = |by: &ConnectionId, via| Event::Control {
        command: 3.into(),
        by: by.clone(),
        via,
    };
    let events = vec![
        again(&other, DeliveryPath::Connection),
        again(&third, DeliveryPath::OneShot),
    ];
    scene.write(&scene.append(&token, 3, events)).await;
    let route = scene.attachment(&other).await.route;
    assert_eq!(
        (route.joined(), route.at(3)),
        (Some(2), Some(DeliveryPath::Connection))
    );
    assert_eq!(scene.attachment(&third).await.route.joined(), None);
    assert_eq!(controller(&scene).await, third);
}
