//! Commands: how they get into the inbox, once each, and in which order they wait there.

use std::sync::Arc;

use bytes::Bytes;

use super::scene::{EVERYTHING_THAT_RESTS, Scene, enqueued, updates};
use crate::command::{ClientCapabilities, Command, CommandId, CommandKind, IdempotencyKey};
use crate::route::DeliveryPath;
use crate::store::{
    AppendOutcome, AppendRequest, EnqueueOutcome, EnqueueRequest, INBOX_LIMIT, InboxAdmission,
    NewSession, REMEMBERED_KEYS, REMEMBERED_KEYS_IN_ALL, Store,
};

async fn numbers(scene: &Scene) -> Vec<u64> {
    let waiting = scene.store.inbox(&scene.id, &[]).await.unwrap();
    let numbers = waiting.iter().map(|queued| queued.id.number).collect();
    let names = scene.store.waiting_commands(&scene.id).await.unwrap();
    assert!(names.iter().eq(waiting.iter().map(|queued| &queued.id)));
    numbers
}

pub async fn creating_a_session_twice_changes_nothing(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    scene.create().await;
    let impostor = NewSession {
        principal: "somebody else".into(),
        cwd: "/elsewhere".into(),
        ..scene.new_session()
    };
    let key = IdempotencyKey {
        key: "other".into(),
        fingerprint: "ab".into(),
    };
    store.create(&impostor, &scene.first(), &key).await.unwrap();
    let claim = scene.claim().await;
    assert_eq!(
        (claim.cwd.as_str(), claim.inbox.len()),
        (super::scene::CWD, 1)
    );
    assert_eq!(claim.inbox[0].command, scene.first());
}

pub async fn the_creating_command_can_be_joined(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let again = scene.request(scene.first());
    let joined = enqueued(store.enqueue(&again).await.unwrap());
    assert_eq!(joined, ("joined", 1, 0, DeliveryPath::Connection));
}

pub async fn a_command_is_accepted_with_number_head_and_way(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let claim = scene.claim().await;
    scene
        .write(&scene.append(&claim.token, 1, updates(3)))
        .await;
    let accepted = enqueued(store.enqueue(&scene.prompt("1")).await.unwrap());
    assert_eq!(accepted, ("accepted", 2, 3, DeliveryPath::Connection));
}

pub async fn the_same_request_joins_the_first(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let prompt = scene.prompt("1");
    store.enqueue(&prompt).await.unwrap();
    // Changes since then don't matter: not the log, not the streams, not the inbox.
    let claim = scene.claim().await;
    scene
        .write(&scene.append(&claim.token, 1, updates(2)))
        .await;
    scene.open_stream(&scene.creator, "holder").await;
    let joined = ("joined", 2, 0, DeliveryPath::Connection);
    assert_eq!(enqueued(store.enqueue(&prompt).await.unwrap()), joined);
    scene.finish(&claim.token).await;
    assert_eq!(enqueued(store.enqueue(&prompt).await.unwrap()), joined);
    assert_eq!(numbers(&scene).await, [0u64; 0]);
}

pub async fn what_is_for_a_session_at_rest_is_taken_by_no_other(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let asks = |request: &str, head| EnqueueRequest {
        takes: InboxAdmission::AtRest(head),
        ..scene.prompt(request)
    };
    // Its first command waits.
    let early = store.enqueue(&asks("1", 0)).await.unwrap();
    assert_eq!(early, EnqueueOutcome::Barred);
    let claim = scene.claim().await;
    let said = scene.append(&claim.token, 1, updates(3));
    scene.write(&said).await;
    scene.finish(&claim.token).await;
    for other in [0, 2, 4] {
        let stale = store.enqueue(&asks("1", other)).await.unwrap();
        assert_eq!(stale, EnqueueOutcome::Barred, "{other}");
    }
    let first = enqueued(store.enqueue(&asks("1", 3)).await.unwrap());
    assert_eq!((first.0, first.2), ("accepted", 3));
    let second = store.enqueue(&asks("2", 3)).await.unwrap();
    assert_eq!(second, EnqueueOutcome::Barred);
    // What was taken stays taken, wherever the log ends by now.
    let again = enqueued(store.enqueue(&asks("1", 9)).await.unwrap());
    assert_eq!((again.0, again.1), ("joined", first.1));
}

pub async fn a_key_used_for_something_else_is_a_conflict(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let prompt = scene.prompt("1");
    store.enqueue(&prompt).await.unwrap();
    let mut other = prompt.clone();
    other.command.message = Bytes::from_static(b"other words");
    other.key = IdempotencyKey::of(&scene.creator, Some("1"), &other.command.message);
    assert_eq!(
        store.enqueue(&other).await.unwrap(),
        EnqueueOutcome::Conflict
    );
    assert_eq!(numbers(&scene).await, [1, 2]);
}

pub async fn an_unknown_or_foreign_session_is_not_found(store: &Arc<dyn Store>) {
    let unknown = Scene::planned(store);
    assert_eq!(
        store.enqueue(&unknown.prompt("1")).await.unwrap(),
        EnqueueOutcome::NotFound
    );
    assert!(store.inbox(&unknown.id, &[]).await.unwrap().is_empty());

    let scene = Scene::created(store).await;
    let foreign = EnqueueRequest {
        principal: unknown.principal,
        ..scene.prompt("1")
    };
    assert_eq!(
        store.enqueue(&foreign).await.unwrap(),
        EnqueueOutcome::NotFound
    );
    // Not even for a key that is known.
    let known = EnqueueRequest {
        principal: foreign.principal,
        ..scene.request(scene.first())
    };
    assert_eq!(
        store.enqueue(&known).await.unwrap(),
        EnqueueOutcome::NotFound
    );
    assert_eq!(numbers(&scene).await, [1]);
}

pub async fn commands_wait_in_order(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    for request in 1..=12 {
        store
            .enqueue(&scene.prompt(&request.to_string()))
            .await
            .unwrap();
    }
    assert_eq!(numbers(&scene).await, (1..=13).collect::<Vec<_>>());
    // Those that the asker knows are left out, wherever they are.
    let known = scene.named(&[2, 3, 9, 13]).await;
    let others = store.inbox(&scene.id, &known).await.unwrap();
    let others = others.iter().map(|queued| queued.id.number);
    assert!(others.eq([1, 4, 5, 6, 7, 8, 10, 11, 12]));
}

pub async fn a_command_arrives_as_it_was_sent(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let kinds = [
        CommandKind::Prompt,
        CommandKind::Cancel,
        CommandKind::SetMode,
        CommandKind::SetConfigOption,
        CommandKind::SetModel,
    ];
    let kinds = kinds.into_iter().chain([
        CommandKind::Answer,
        CommandKind::Extension,
        CommandKind::CancelRequest,
        CommandKind::Close,
    ]);
    let mut sent = vec![scene.first()];
    for (at, kind) in kinds.enumerate() {
        let request = (at % 2 == 0).then(|| format!("\"id {at}\\n\u{e4}\""));
        let command = Command {
            client: ClientCapabilities {
                terminal: true,
                boolean_options: at > 2,
                ..Default::default()
            },
            taken_at: 1_700_000_000_000,
            message: Bytes::from(vec![0, 255, b'\n', b'\r', at as u8]),
            ..scene.command(kind, request.as_deref())
        };
        let outcome = store
            .enqueue(&scene.request(command.clone()))
            .await
            .unwrap();
        assert!(
            matches!(outcome, EnqueueOutcome::Accepted { .. }),
            "{outcome:?}"
        );
        sent.push(command);
    }
    let waiting = store.inbox(&scene.id, &[]).await.unwrap();
    let arrived: Vec<Command> = waiting.into_iter().map(|queued| queued.command).collect();
    assert_eq!(arrived, sent);
}

pub async fn a_full_inbox_takes_only_what_ends_things(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    for number in 2..=INBOX_LIMIT {
        let outcome = store
            .enqueue(&scene.prompt(&number.to_string()))
            .await
            .unwrap();
        assert!(
            matches!(outcome, EnqueueOutcome::Accepted { .. }),
            "{number}: {outcome:?}"
        );
    }
    assert_eq!(
        store.enqueue(&scene.prompt("more")).await.unwrap(),
        EnqueueOutcome::Full
    );
    let mode = scene.request(scene.command(CommandKind::SetMode, Some("mode")));
    assert_eq!(store.enqueue(&mode).await.unwrap(), EnqueueOutcome::Full);
    let joined = store
        .enqueue(&scene.prompt(&INBOX_LIMIT.to_string()))
        .await
        .unwrap();
    assert!(
        matches!(joined, EnqueueOutcome::Joined { .. }),
        "{joined:?}"
    );
    for kind in [
        CommandKind::Cancel,
        CommandKind::Answer,
        CommandKind::CancelRequest,
    ] {
        let outcome = store
            .enqueue(&scene.request(scene.command(kind, None)))
            .await
            .unwrap();
        assert!(
            matches!(outcome, EnqueueOutcome::Accepted { .. }),
            "{kind:?}: {outcome:?}"
        );
    }
    // A refused request is not remembered: once there is room, it is accepted.
    scene.finish(&scene.claim().await.token).await;
    let outcome = store.enqueue(&scene.prompt("more")).await.unwrap();
    assert!(
        matches!(outcome, EnqueueOutcome::Accepted { .. }),
        "{outcome:?}"
    );
}

pub async fn old_keys_are_forgotten_one_by_one(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    // With the creating command, exactly as many as are remembered; all of them are done with.
    for number in 2..=REMEMBERED_KEYS {
        let prompt = scene.prompt(&number.to_string());
        store.enqueue(&prompt).await.unwrap();
    }
    scene.finish(&scene.claim().await.token).await;
    let joins = async |request: &EnqueueRequest| {
        let outcome = store.enqueue(request).await.unwrap();
        matches!(outcome, EnqueueOutcome::Joined { .. })
    };
    assert!(joins(&scene.request(scene.first())).await);
    store.enqueue(&scene.prompt("one too many")).await.unwrap();
    assert!(joins(&scene.prompt("2")).await);
    assert!(!joins(&scene.request(scene.first())).await);
}

pub async fn nobody_pushes_out_the_keys_of_others(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let (mine, busy) = (scene.prompt("mine"), scene.another_connection());
    store.enqueue(&mine).await.unwrap();
    scene.finish(&scene.claim().await.token).await;
    for number in 0..2 * REMEMBERED_KEYS {
        let other = EnqueueRequest {
            watched: true,
            ..scene.prompt_by(&busy, &number.to_string())
        };
        store.enqueue(&other).await.unwrap();
        scene.finish(&scene.claim().await.token).await;
    }
    let again = enqueued(store.enqueue(&mine).await.unwrap());
    assert_eq!(again, ("joined", 2, 0, DeliveryPath::Connection));
    // However many there are, there is an end.
    for number in 0..REMEMBERED_KEYS_IN_ALL {
        let other = EnqueueRequest {
            watched: true,
            ..scene.prompt_by(&scene.another_connection(), &number.to_string())
        };
        store.enqueue(&other).await.unwrap();
        scene.finish(&scene.claim().await.token).await;
    }
    assert_eq!(enqueued(store.enqueue(&mine).await.unwrap()).0, "accepted");
}

pub async fn keys_outlive_a_rest(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let prompts: Vec<EnqueueRequest> = (1..REMEMBERED_KEYS)
        .map(|number| scene.prompt(&number.to_string()))
        .collect();
    for prompt in &prompts {
        store.enqueue(prompt).await.unwrap();
    }
    scene.finish(&scene.claim().await.token).await;
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    scene.tidy(&EVERYTHING_THAT_RESTS).await;
    for prompt in &prompts {
        let again = enqueued(store.enqueue(prompt).await.unwrap());
        assert_eq!(again.0, "joined", "{:?}", prompt.command.request);
    }
    assert!(numbers(&scene).await.is_empty());
}

pub async fn an_acknowledgement_names_its_command(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let token = scene.claim().await.token;
    // As it may be after a failover: the number is the same, the command is another.
    let before = CommandId {
        number: 1,
        nonce: 1,
    };
    let done = AppendRequest {
        acks: vec![before],
        release: true,
        ..scene.append(&token, 1, updates(1))
    };
    let kept = AppendOutcome::Done {
        head: 1,
        released: false,
    };
    assert_eq!(scene.write(&done).await, kept);
    assert_eq!(numbers(&scene).await, [1]);
}

pub async fn a_command_that_waits_is_recognised_however_old(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    for number in 2..=REMEMBERED_KEYS + 5 {
        let prompt = scene.prompt(&number.to_string());
        store.enqueue(&prompt).await.unwrap();
    }
    let outcome = store.enqueue(&scene.request(scene.first())).await.unwrap();
    assert!(
        matches!(outcome, EnqueueOutcome::Joined { command, .. } if command.number == 1),
        "{outcome:?}"
    );
}

pub async fn a_request_is_recognised_whatever_its_id(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    // Beginnings and ends of one another, and what might be mistaken for a separator or a pattern.
    let ids = [
        "1",
        "11",
        "\"1\"",
        "\"a b\"",
        "\"a\"",
        "b\"",
        "\"\"",
        "\"a\nb\"",
        "\"%d.*\"",
        "1 00 1 0 c",
    ];
    for (number, id) in (2..).zip(ids) {
        let accepted = enqueued(store.enqueue(&scene.prompt(id)).await.unwrap());
        assert_eq!(
            accepted,
            ("accepted", number, 0, DeliveryPath::Connection),
            "{id}"
        );
    }
    for (number, id) in (2..).zip(ids) {
        let joined = enqueued(store.enqueue(&scene.prompt(id)).await.unwrap());
        assert_eq!(
            joined,
            ("joined", number, 0, DeliveryPath::Connection),
            "{id}"
        );
    }
}

pub async fn an_inbox_is_as_long_as_the_asker_says(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let ask = async |kind, request: Option<&str>| {
        let asked = EnqueueRequest {
            limit: 2,
            ..scene.request(scene.command(kind, request))
        };
        matches!(
            store.enqueue(&asked).await.unwrap(),
            EnqueueOutcome::Accepted { .. }
        )
    };
    assert!(ask(CommandKind::Prompt, Some("1")).await);
    assert!(!ask(CommandKind::Prompt, Some("2")).await);
    assert!(ask(CommandKind::Cancel, None).await && ask(CommandKind::Answer, None).await);
    assert!(!ask(CommandKind::Cancel, None).await);
    assert_eq!(numbers(&scene).await, [1, 2, 3, 4]);
}

pub async fn what_is_about_an_unknown_request_is_not_found(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let prompt = scene.prompt("1");
    let about = |key: &str| EnqueueRequest {
        about: Some(key.to_owned()),
        ..scene.request(scene.command(CommandKind::CancelRequest, None))
    };
    let cancel = about(&prompt.key.key);
    assert_eq!(
        store.enqueue(&cancel).await.unwrap(),
        EnqueueOutcome::NotFound
    );
    store.enqueue(&prompt).await.unwrap();
    let outcome = store.enqueue(&cancel).await.unwrap();
    assert!(
        matches!(outcome, EnqueueOutcome::Accepted { .. }),
        "{outcome:?}"
    );
    let part = &prompt.key.key[1..];
    for other in ["", part] {
        let outcome = store.enqueue(&about(other)).await.unwrap();
        assert_eq!(outcome, EnqueueOutcome::NotFound, "{other}");
    }
    assert_eq!(numbers(&scene).await, [1, 2, 3]);
}

pub async fn a_request_is_found_by_its_connection(store: &Arc<dyn Store>) {
    let (one, other) = (Scene::created(store).await, Scene::created(store).await);
    let found = async |request: &EnqueueRequest| {
        let connection = &request.command.connection;
        store
            .session_of(connection, &request.key.key)
            .await
            .unwrap()
    };
    let asked = [one.findable("1"), one.findable("2"), other.findable("1")];
    for request in &asked {
        assert_eq!(found(request).await, None);
        store.enqueue(request).await.unwrap();
        assert_eq!(found(request).await.as_ref(), Some(&request.session));
    }
    // Asked again it is where it was.
    store.enqueue(&asked[0]).await.unwrap();
    assert_eq!(found(&asked[0]).await.as_ref(), Some(&one.id));
    // As long as it runs, however many come after it.
    let token = one.claim().await.token;
    for number in 3..100 {
        store
            .enqueue(&one.findable(&number.to_string()))
            .await
            .unwrap();
    }
    assert_eq!(found(&asked[0]).await.as_ref(), Some(&one.id));
    one.finish(&token).await;
    for unknown in [one.prompt("never"), one.prompt_by(&other.creator, "2")] {
        assert_eq!(found(&unknown).await, None);
    }
}
