//! The events of a connection that is attached while the session is written to.

use std::sync::Arc;
use std::time::Duration;

use baton_session::conformance::scene::{Scene, begin, update, updates};
use baton_session::event::Event;
use baton_session::id::{ConnectionId, LogId};
use baton_session::route::DeliveryPath;
use baton_session::store::{AttachOutcome, MemoryStore, Store};
use baton_session::token::{KeyRing, SigningKeys, TokenScope, generate};
use jsonwebtoken::Algorithm;
use tokio::sync::Notify;

use super::refresh::RefreshOutcome;
use super::{FeedReader, FeedStart, SessionFeed};
use crate::app::{App, GatewayConfig, StopSignals};
use crate::auth::AuthMethod;
use crate::stream::feed::MessageFeed as _;
use crate::stream::log_tail::LogTail;
use crate::stream::tailed_log::LogLookup;

/// A feed that reads a session which its connection has not joined, up to event 2.
async fn outsider() -> (Arc<App>, Scene, ConnectionId, SessionFeed) {
    let (_, app, scene, connection, feed) = outsider_of(MemoryStore::default()).await;
    (app, scene, connection, feed)
}

type Outsider = (MemoryStore, Arc<App>, Scene, ConnectionId, SessionFeed);

async fn outsider_of(memory: MemoryStore) -> Outsider {
    let store: Arc<dyn Store> = Arc::new(memory.clone());
    let keys = KeyRing::parse(&generate(Algorithm::HS256)).expect("a key");
    let keys = SigningKeys::fixed(keys);
    let app = App::new(
        GatewayConfig::default(),
        store.clone(),
        keys,
        AuthMethod::Open,
        StopSignals::default(),
    )
    .await;
    let app = app.expect("the store works");
    let scene = Scene::created(&store).await;
    let connection = ConnectionId::mint(scene.id.partition());
    let log = LogId::Session(scene.id.clone());
    let tail = LogTail::open(&app.streams, &log, Arc::new(Notify::new())).await;
    let tail = tail.expect("the store works");
    let attachment = store.attachment(&scene.id, &connection, &scene.principal);
    let attachment = attachment.await.expect("the store works");
    let reader = FeedReader {
        session: scene.id.clone(),
        connection: connection.clone(),
        principal: scene.principal.clone(),
        scope: TokenScope::Control,
        via: DeliveryPath::Connection,
        turn_notices: false,
        holder: None,
    };
    let attachment = attachment.expect("a session");
    let feed = SessionFeed::open(&app.streams, reader, tail, attachment, FeedStart::Joined);
    let feed = feed.await.expect("the store works");
    (memory, app, scene, connection, feed)
}

async fn texts(feed: &mut SessionFeed) -> Vec<String> {
    let mut out = Vec::new();
    feed.collect(&mut out).await.expect("the store works");
    let text = |message: &bytes::Bytes| String::from_utf8_lossy(message).into_owned();
    out.iter().map(|(_, message)| text(message)).collect()
}

#[tokio::test]
async fn what_is_written_right_after_the_attachment_is_not_passed_over() {
    let (_app, scene, connection, mut feed) = outsider().await;
    let token = scene.claim().await.token;
    let words = |words: &[&str]| words.iter().map(|word| update(word)).collect();
    scene
        .write(&scene.append(&token, 1, words(&["one", "two"])))
        .await;
    // The feed has looked for notices, and goes on to look for events.
    assert!(!feed.was_truncated().await.expect("the store works"));
    let attach = scene.attach(&connection, "7");
    let attached = scene.store.attach(&attach).await.expect("the store works");
    assert!(matches!(attached, AttachOutcome::Done(_)), "{attached:?}");
    scene
        .write(&scene.append(&token, 3, words(&["three"])))
        .await;
    while matches!(feed.tail.tailed().look(3), LogLookup::UpToDate) {
        tokio::task::yield_now().await;
    }
    let texts = texts(&mut feed).await;
    let place = |word: &str| texts.iter().position(|text| text.contains(word));
    let places = [
        place("one"),
        place("two"),
        place("\"id\":7"),
        place("three"),
    ];
    assert!(
        places.iter().all(Option::is_some) && places.is_sorted(),
        "{texts:?}"
    );
    assert_eq!(texts.len(), 4, "{texts:?}");
}

/// An event that was passed over is lost by a failover, written again, and was not there when the
/// connection was attached.
#[tokio::test]
async fn what_was_passed_over_and_lost_is_told_when_it_comes_again() {
    let (memory, _app, scene, connection, mut feed) = outsider_of(MemoryStore::default()).await;
    let token = scene.claim().await.token;
    let append = |first, word| scene.append(&token, first, vec![update(word)]);
    scene.write(&append(1, "one")).await;
    let replica = memory
        .replica(&scene.id)
        .expect("the store works")
        .expect("a session");
    scene.write(&append(2, "two")).await;
    while matches!(feed.tail.tailed().look(2), LogLookup::UpToDate) {
        tokio::task::yield_now().await;
    }
    assert_eq!(texts(&mut feed).await, Vec::<String>::new());
    memory.promote(&replica).expect("the store works");
    let attach = scene.attach(&connection, "7");
    scene.store.attach(&attach).await.expect("the store works");
    scene.write(&append(2, "two")).await;
    scene.write(&append(3, "three")).await;
    let mut said = Vec::new();
    while !said.iter().any(|text: &String| text.contains("three")) {
        tokio::task::yield_now().await;
        feed.was_truncated().await.expect("the store works");
        said.extend(texts(&mut feed).await);
    }
    let count = |word: &str| said.iter().filter(|text| text.contains(word)).count();
    let counts = ["one", "\"id\":7", "two", "three"].map(count);
    assert_eq!(counts, [1, 1, 1, 1], "{said:?}");
}

/// The begin of a turn says on which stream the turn is told. A failover loses it together with the
/// route, somebody is attached, and its writer brings the begin back: no event may be told on two
/// streams.
#[tokio::test]
async fn a_turn_stays_on_its_stream_when_its_begin_was_lost_and_came_again() {
    let (memory, _app, scene, connection, mut feed) = outsider_of(MemoryStore::default()).await;
    let attach = scene.attach(&connection, "7");
    scene.store.attach(&attach).await.expect("the store works");
    let claim = scene.claim().await;
    let append = |first, events| scene.append(&claim.token, first, events);
    scene.write(&append(1, vec![update("before")])).await;
    let until = async |feed: &mut SessionFeed, next: u64| {
        let mut said = Vec::new();
        while feed.tail.next() < next {
            tokio::task::yield_now().await;
            assert!(!feed.was_truncated().await.expect("the store works"));
            said.extend(texts(feed).await);
        }
        said
    };
    until(&mut feed, 2).await;
    let replica = memory.replica(&scene.id).expect("the store works");
    let turn = begin(claim.inbox[0].id, &connection, DeliveryPath::Session);
    let begun = append(2, vec![turn, update("one")]);
    scene.write(&begun).await;
    assert_eq!(until(&mut feed, 4).await, Vec::<String>::new());
    memory
        .promote(&replica.expect("a session"))
        .expect("the store works");
    // Whichever signals the feed gets meanwhile, it reads a session that knows nothing of the turn.
    let other = ConnectionId::mint(scene.id.partition());
    let attach = scene.attach(&other, "8");
    scene.store.attach(&attach).await.expect("the store works");
    for _ in 0..20 {
        tokio::task::yield_now().await;
        assert!(!feed.was_truncated().await.expect("the store works"));
        assert_eq!(texts(&mut feed).await, Vec::<String>::new());
    }
    scene.write(&begun).await;
    scene.write(&append(4, vec![update("two")])).await;
    assert_eq!(until(&mut feed, 5).await, Vec::<String>::new());
}

#[tokio::test]
async fn who_takes_over_before_it_has_read_a_question_is_asked_once() {
    let (app, scene, connection, mut feed) = outsider().await;
    let attach = scene.attach(&connection, "1");
    app.store.attach(&attach).await.expect("the store works");
    texts(&mut feed).await;
    let token = scene.claim().await.token;
    let question = Event::Request {
        id: "the question".into(),
        message: r#"{"id":"the question"}"#.into(),
    };
    let mut asks = scene.append(&token, 1, vec![update("before"), question]);
    asks.pending = Some(vec![2]);
    scene.write(&asks).await;
    // The feed has not come to that yet, and finds both at once.
    let takes_over = scene.attach(&connection, "2");
    let attached = app.store.attach(&takes_over).await;
    assert!(
        matches!(attached, Ok(AttachOutcome::Done(_))),
        "{attached:?}"
    );
    let mut said = Vec::new();
    while !said.iter().any(|text: &String| text.contains("\"id\":2")) {
        tokio::task::yield_now().await;
        assert!(!feed.was_truncated().await.expect("the store works"));
        said.extend(texts(&mut feed).await);
    }
    said.extend(texts(&mut feed).await);
    let open_requests = said.iter().filter(|text| text.contains("the question"));
    assert_eq!(open_requests.count(), 1, "{said:?}");
}

#[tokio::test]
async fn what_was_deleted_and_forgotten_is_no_loss() {
    let (app, scene, connection, mut feed) = outsider().await;
    let attach = scene.attach(&connection, "1");
    app.store.attach(&attach).await.expect("the store works");
    texts(&mut feed).await;
    let claim = scene.claim().await;
    let said = scene.append(&claim.token, 1, updates(3));
    scene.write(&said).await;
    feed.tail.tailed().grow(3);
    texts(&mut feed).await;
    scene.finish(&claim.token).await;
    assert!(scene.delete().await);
    while !feed.attachment.deleted {
        feed.wake().notified().await;
        assert!(!feed.was_truncated().await.expect("the store works"));
        texts(&mut feed).await;
    }
    scene.forget().await;
    // As the hub does when it compares the ends of logs.
    feed.tail.tailed().shrink(0);
    tokio::time::pause();
    for _ in 0..3 {
        assert!(!feed.was_truncated().await.expect("the store works"));
        assert_eq!(texts(&mut feed).await, Vec::<String>::new());
        // Longer than a log gets to come back.
        tokio::time::advance(Duration::from_secs(6)).await;
    }
}

#[tokio::test]
async fn a_log_that_is_only_kept_for_forks_is_passed_over() {
    let (_app, scene, _, mut feed) = outsider().await;
    let token = scene.claim().await.token;
    scene.write(&scene.append(&token, 1, updates(3))).await;
    feed.tail.tailed().grow(3);
    // Not kept here any more, so it is read from the store.
    feed.tail.tailed().rest();
    feed.tail.tailed().rest();
    assert!(matches!(feed.tail.tailed().look(1), LogLookup::InStore));
    // There is a log, and no such session for anybody.
    feed.principal = "nobody".into();
    let refreshed = feed.refresh().await.expect("the store works");
    assert_eq!(refreshed, RefreshOutcome::NoSession);
    assert_eq!(texts(&mut feed).await, Vec::<String>::new());
    assert_eq!(feed.tail.next(), 4);
}
