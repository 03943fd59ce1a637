//! Lists: what a principal has, by when it was last changed.

use std::sync::Arc;
use std::time::Duration;

use super::scene::{Scene, begin, end, update};
use crate::id::SessionId;
use crate::route::DeliveryPath;
use crate::store::{AppendRequest, ForkRequest, ListPosition, ListRequest, NewSession, Store};

/// So that the next change is a later one.
async fn later() {
    tokio::time::sleep(Duration::from_millis(5)).await;
}

/// All of a list, a few at a time.
async fn pages(scene: &Scene, listing: ListRequest) -> Vec<SessionId> {
    let mut found = Vec::new();
    let mut listing = ListRequest {
        limit: 3,
        ..listing
    };
    loop {
        let page = scene.list(&listing).await;
        assert!(page.len() <= 3);
        let Some(last) = page.last() else {
            return found;
        };
        listing.after = Some(last.place.clone());
        found.extend(page.into_iter().map(|summary| summary.place.session));
    }
}

pub async fn the_latest_comes_first(store: &Arc<dyn Store>) {
    let first = Scene::created(store).await;
    later().await;
    let second = first.another().await;
    later().await;
    let third = first.another().await;
    let ids = |scenes: [&Scene; 3]| scenes.map(|scene| scene.id.clone());
    assert_eq!(first.listed().await, ids([&third, &second, &first]));
    later().await;
    second.talk("again").await;
    assert_eq!(first.listed().await, ids([&second, &third, &first]));
    later().await;
    let fork = first.forked().await;
    assert_eq!(first.listed().await[0], fork.id);
}

pub async fn only_the_end_of_a_turn_is_a_change(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let created = scene.summary().await.place;
    later().await;
    let token = scene.claim().await.token;
    let begun = AppendRequest {
        title: Some("A title".into()),
        ..scene.append(
            &token,
            1,
            vec![
                begin(1, &scene.creator, DeliveryPath::Connection),
                update("x"),
            ],
        )
    };
    scene.write(&begun).await;
    store
        .attach(&scene.attach(&scene.creator, "1"))
        .await
        .unwrap();
    let during = scene.summary().await;
    assert_eq!((&during.place, &*during.title), (&created, "A title"));
    let over = vec![end(&scene.creator, DeliveryPath::Connection)];
    scene.write(&scene.append(&token, 3, over)).await;
    let after = scene.summary().await;
    assert!(after.place.updated > created.updated);
    assert_eq!(after.title, "A title");
}

pub async fn a_list_goes_on_where_it_ended(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    for _ in 0..10 {
        scene.another().await;
    }
    let all = scene.list(&scene.listing()).await;
    assert_eq!(all.len(), 11);
    // Many of them at the same time: then greater ids come first.
    assert!(all.windows(2).all(|two| two[0].place > two[1].place));
    assert_eq!(pages(&scene, scene.listing()).await, scene.listed().await);
    // The place is one even if nobody is there.
    let after = |place: &ListPosition| ListRequest {
        after: Some(place.clone()),
        ..scene.listing()
    };
    let nowhere = ListPosition {
        updated: 0,
        session: scene.id.clone(),
    };
    assert_eq!(scene.list(&after(&nowhere)).await, []);
    let fourth = all[3].place.clone();
    let end = scene.last_command();
    let deleted = store.delete(&fourth.session, &scene.principal, &end).await;
    assert!(deleted.unwrap());
    assert_eq!(scene.list(&after(&fourth)).await, all[4..]);
    let none = ListRequest {
        limit: 0,
        ..scene.listing()
    };
    assert_eq!(scene.list(&none).await, []);
}

pub async fn a_list_may_be_of_one_directory(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    scene.talk("one").await;
    let mut there = Vec::new();
    for _ in 0..5 {
        later().await;
        let heir = scene.heir();
        let fork = ForkRequest {
            cwd: "/home/someone".into(),
            ..scene.fork(&heir)
        };
        scene.try_fork(&fork).await;
        there.insert(0, heir.id);
        scene.another().await;
    }
    let of = |cwd: &str| ListRequest {
        cwd: Some(cwd.into()),
        ..scene.listing()
    };
    assert_eq!(pages(&scene, of("/home/someone")).await, there);
    assert_eq!(pages(&scene, of(super::scene::CWD)).await.len(), 6);
    assert_eq!(pages(&scene, of("/home")).await, []);
    assert_eq!(pages(&scene, scene.listing()).await.len(), 11);
}

pub async fn nobody_sees_what_others_have(store: &Arc<dyn Store>) {
    let (one, other) = (Scene::created(store).await, Scene::created(store).await);
    one.lists_only(&one).await;
    other.lists_only(&other).await;
    // Not even if one name begins with the other.
    let longer = ListRequest {
        principal: format!("{}x", one.principal),
        ..one.listing()
    };
    let shorter = ListRequest {
        principal: one.principal[..one.principal.len() - 1].to_owned(),
        ..one.listing()
    };
    for listing in [longer, shorter] {
        assert_eq!(one.list(&listing).await, []);
    }
}

pub async fn a_list_tells_what_a_session_is_about(store: &Arc<dyn Store>) {
    let scene = Scene::planned(store);
    let new = NewSession {
        directories: "[\"/a\"]".into(),
        ..scene.new_session()
    };
    let key = scene.request(scene.first()).key;
    store.create(&new, &scene.first(), &key).await.unwrap();
    let fresh = scene.summary().await;
    assert_eq!((&*fresh.cwd, &*fresh.title), (&*new.cwd, ""));
    assert_eq!(
        (&fresh.directories[..], &fresh.usage[..]),
        (&b"[\"/a\"]"[..], &b""[..])
    );
    let token = scene.claim().await.token;
    let told = AppendRequest {
        title: Some("A title".into()),
        usage: Some("{\"used\":7}".into()),
        ..scene.append(&token, 1, Vec::new())
    };
    scene.write(&told).await;
    let mut load = scene.attach(&scene.creator, "1");
    load.setup.directories = Some("[\"/b\"]".into());
    store.attach(&load).await.unwrap();
    let summary = scene.summary().await;
    assert_eq!(
        (&*summary.title, &summary.usage[..]),
        ("A title", &b"{\"used\":7}"[..])
    );
    assert_eq!(summary.directories, "[\"/b\"]");
    assert_eq!(summary.place, fresh.place);
}

pub async fn what_is_gone_is_not_listed(store: &Arc<dyn Store>) {
    let kept = Scene::created(store).await;
    let (unused, deleted) = (kept.another().await, kept.another().await);
    unused.talk("one").await;
    deleted.talk("one").await;
    assert!(deleted.delete().await);
    let listed = kept.listed().await;
    assert!(!listed.contains(&deleted.id) && listed.len() == 2);
    unused.forget().await;
    deleted.forget().await;
    kept.lists_only(&kept).await;
    let here = ListRequest {
        cwd: Some(super::scene::CWD.into()),
        ..kept.listing()
    };
    assert_eq!(kept.list(&here).await.len(), 1);
}
