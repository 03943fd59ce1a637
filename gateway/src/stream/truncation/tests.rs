//! Streams on a store that fails over to a replica that lagged. Time is paused: it goes on by
//! itself whenever everybody waits.

mod outboxes;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Response;
use baton_session::command::IdempotencyKey;
use baton_session::conformance::scene::{LONG, Scene, begin, end, update};
use baton_session::cursor::Cursor;
use baton_session::event::Event;
use baton_session::id::{LogId, Nonce};
use baton_session::route::DeliveryPath;
use baton_session::store::{
    AppendRequest, ClaimToken, MemoryStore, PostOutcome, SessionReplica, Store, StreamId,
};
use baton_session::token::{ConnectionToken, KeyRing, SigningKeys, TokenScope, generate};
use http_body_util::BodyExt as _;
use jsonwebtoken::Algorithm;
use tokio::sync::Notify;

use crate::access::stream_authority::StreamAuthority;
use crate::app::{App, GatewayConfig, StopSignals};
use crate::auth::{AuthMethod, Caller};
use crate::stream::connection_feed::ConnectionFeed;
use crate::stream::log_tail::LogTail;
use crate::stream::one_shot::{FollowedRequest, OneShotFeed};
use crate::stream::session_feed::{FeedReader, FeedStart, SessionFeed};
use crate::stream::sse;

fn anybody() -> StreamAuthority {
    StreamAuthority::of(&Caller::anonymous())
}

struct Stage {
    memory: MemoryStore,
    app: Arc<App>,
    scene: Scene,
    token: ClaimToken,
    nonce: Nonce,
}

/// A turn of the session's creator, read by `via`, that has begun as event 1.
async fn stage(via: DeliveryPath) -> Stage {
    let memory = MemoryStore::default();
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
    let scene = Scene::created(&store).await;
    let claim = scene.claim().await;
    let stage = Stage {
        memory,
        app: app.expect("the store works"),
        token: claim.token,
        nonce: Nonce::random(),
        scene,
    };
    let begin = begin(1, &stage.scene.creator, via);
    stage.write(1, vec![begin]).await;
    stage
}

impl Stage {
    fn append(&self, first: u64, events: Vec<Event>) -> AppendRequest {
        AppendRequest {
            nonce: self.nonce,
            ..self.scene.append(&self.token, first, events)
        }
    }

    async fn write(&self, first: u64, events: Vec<Event>) {
        self.scene.write(&self.append(first, events)).await;
    }

    async fn say(&self, first: u64, words: &[&str]) {
        let events = words.iter().map(|word| update(word)).collect();
        self.write(first, events).await;
    }

    fn replica(&self) -> SessionReplica {
        let replica = self.memory.replica(&self.scene.id);
        replica.expect("the store works").expect("a session")
    }

    /// Somebody else holds the session now.
    async fn successor(&mut self) {
        self.scene
            .store
            .release(&self.scene.id, &self.token)
            .await
            .expect("the store works");
        let claim = self.scene.try_claim(&self.scene.claimant(LONG)).await;
        self.token = claim.expect("nobody holds it").token;
        self.nonce = Nonce::random();
    }

    async fn session_stream(&self) -> StreamText {
        self.session_stream_from(FeedStart::Joined).await
    }

    async fn session_stream_from(&self, from: FeedStart) -> StreamText {
        let connection = self.scene.creator.clone();
        let stream = StreamId {
            connection: connection.clone(),
            session: Some(self.scene.id.clone()),
        };
        let log = LogId::Session(self.scene.id.clone());
        let tail = LogTail::open(&self.app.streams, &log, Arc::new(Notify::new())).await;
        let holder = self.app.streams.stream_registry.hold(stream);
        let attachment = self.scene.attachment(&connection).await;
        let reader = FeedReader {
            session: self.scene.id.clone(),
            connection,
            principal: self.scene.principal.clone(),
            scope: TokenScope::Control,
            via: DeliveryPath::Session,
            turn_notices: false,
            holder: Some(holder.name.clone()),
        };
        let tail = tail.expect("the store works");
        let feed = SessionFeed::open(&self.app.streams, reader, tail, attachment, from);
        let feed = feed.await.expect("the store works");
        StreamText::new(sse::respond(
            self.app.streams.clone(),
            feed,
            anybody(),
            Some(holder),
            None,
        ))
    }

    async fn connection_stream(&self) -> StreamText {
        let session = self.scene.id.clone();
        self.post(Event::Watch { session, after: 0 }).await;
        self.resumed(None).await
    }

    async fn post(&self, event: Event) {
        let to = &self.scene.creator;
        let key = IdempotencyKey::of(to, None, b"");
        let posted = self.scene.store.post(to, event, &key);
        assert!(matches!(
            posted.await.expect("the store works"),
            PostOutcome::New { .. }
        ));
    }

    async fn resumed(&self, cursor: Option<&str>) -> StreamText {
        let id = self.scene.creator.clone();
        let outbox = LogId::Outbox(id.clone());
        let outbox = LogTail::open(&self.app.streams, &outbox, Arc::new(Notify::new())).await;
        let outbox = outbox.expect("the store works");
        let connection = ConnectionToken {
            id,
            principal: self.scene.principal.clone(),
            protocol_version: 1,
            client: Default::default(),
            agent: None,
            rights: None,
            issued: 0,
            expires: 0,
        };
        let feed = ConnectionFeed::open(
            self.app.streams.clone(),
            connection,
            TokenScope::Control,
            "holder".into(),
            outbox,
            cursor,
        );
        let feed = feed.await.expect("the store works");
        StreamText::new(sse::respond(
            self.app.streams.clone(),
            feed,
            anybody(),
            None,
            None,
        ))
    }

    async fn one_shot(&self) -> StreamText {
        let follow = FollowedRequest {
            session: self.scene.id.clone(),
            connection: self.scene.creator.clone(),
            request: "7".into(),
            command: Some(1.into()),
            head: 0,
            principal: String::new(),
            created: None,
        };
        let feed = OneShotFeed::open(&self.app.streams, follow, None).await;
        let feed = feed.expect("the store works");
        StreamText::new(sse::respond(
            self.app.streams.clone(),
            feed,
            anybody(),
            None,
            None,
        ))
    }
}

/// The messages that a client gets.
struct StreamText(Body, String);

impl StreamText {
    fn new(response: Response<Body>) -> Self {
        Self(response.into_body(), String::new())
    }

    /// Reads on until `text` was told; fails if `never` was told before.
    async fn until(&mut self, text: &str, never: &str) {
        let read = self.all_until(text).await;
        assert!(!read.contains(never), "{never} in {read}");
    }

    /// Reads on until the last of these was told; fails if they were told in another order.
    async fn in_order(&mut self, texts: &[&str]) {
        let read = self.all_until(texts.last().expect("something")).await;
        let places: Vec<_> = texts.iter().map(|text| read.find(text)).collect();
        assert!(
            places.is_sorted() && places.iter().all(Option::is_some),
            "{texts:?} in {read}"
        );
    }

    async fn all_until(&mut self, text: &str) -> String {
        let reading = async {
            while !self.1.contains(text) {
                let frame = self.0.frame().await;
                let frame = frame.unwrap_or_else(|| panic!("no {text} in {}", self.1));
                let data = frame.expect("a body").into_data().expect("no trailers");
                self.1.push_str(std::str::from_utf8(&data).expect("text"));
            }
        };
        let read = tokio::time::timeout(Duration::from_secs(60), reading).await;
        assert!(read.is_ok(), "no {text} in {}", self.1);
        std::mem::take(&mut self.1)
    }

    async fn ends(&mut self) {
        assert!(self.0.frame().await.is_none(), "the body has ended");
    }
}

const RESET: &str = "event: reset";

#[tokio::test(start_paused = true)]
async fn a_client_that_holds_events_which_are_gone_is_told() {
    for via in [
        DeliveryPath::Session,
        DeliveryPath::Connection,
        DeliveryPath::OneShot,
    ] {
        let mut stage = stage(via).await;
        let mut told = match via {
            DeliveryPath::Session => stage.session_stream().await,
            DeliveryPath::Connection => stage.connection_stream().await,
            DeliveryPath::OneShot => stage.one_shot().await,
        };
        stage.say(2, &["one"]).await;
        told.until("one", RESET).await;
        let replica = stage.replica();
        stage.say(3, &["lost", "gone"]).await;
        told.until("gone", RESET).await;
        stage.memory.promote(&replica).expect("the store works");
        told.until(RESET, "never").await;
        // From there on it is a stream like any other, except for a request that may be lost
        // itself.
        if via == DeliveryPath::OneShot {
            told.ends().await;
            continue;
        }
        stage.successor().await;
        stage.say(3, &["two"]).await;
        told.until("two", "lost").await;
        assert!(stage.app.metrics.resets.get() == 1);
    }
}

#[tokio::test(start_paused = true)]
async fn frames_that_come_back_as_they_were_need_no_reset() {
    for interrupted in [false, true] {
        let stage = stage(DeliveryPath::Session).await;
        let mut told = stage.session_stream().await;
        stage.say(2, &["one"]).await;
        let replica = stage.replica();
        stage.say(3, &["two"]).await;
        stage.say(4, &["three"]).await;
        told.until("three", RESET).await;
        stage.memory.promote(&replica).expect("the store works");
        if interrupted {
            stage.memory.interrupt();
        }
        // Long enough to be noticed, not so long as to be given up.
        while stage.app.metrics.lost_tails.get() == 0 {
            let moment = Duration::from_millis(100);
            let waited = tokio::time::timeout(moment, told.0.frame()).await;
            assert!(waited.is_err(), "{waited:?} is said before it is settled");
        }
        stage.say(3, &["two"]).await;
        stage.say(4, &["three"]).await;
        stage.say(5, &["four"]).await;
        told.until("four", RESET).await;
    }
}

/// A client that comes back while the end of the log is missing is no worse off than one that
/// stayed.
#[tokio::test(start_paused = true)]
async fn who_resumes_beyond_the_end_waits_for_what_may_come_back() {
    for comes_back in [true, false] {
        let mut stage = stage(DeliveryPath::Session).await;
        stage.say(2, &["one"]).await;
        let replica = stage.replica();
        stage.say(3, &["two"]).await;
        stage.say(4, &["three"]).await;
        stage.memory.promote(&replica).expect("the store works");
        let cursor = Cursor::live(4, stage.nonce);
        let mut told = stage.session_stream_from(FeedStart::After(cursor)).await;
        let moment = Duration::from_secs(1);
        let hint = tokio::time::timeout(moment, told.until(RESET, "never")).await;
        assert!(hint.is_err(), "it is not known yet whether it is lost");
        if comes_back {
            stage.say(3, &["two"]).await;
            stage.say(4, &["three"]).await;
            stage.say(5, &["four"]).await;
            told.until("four", RESET).await;
        } else {
            stage.successor().await;
            stage.say(3, &["else"]).await;
            told.until(RESET, "else").await;
        }
    }
}

/// The same for a stream that carries all sessions of a connection.
#[tokio::test(start_paused = true)]
async fn a_connection_that_resumes_at_what_is_lost_misses_no_answer() {
    let mut stage = stage(DeliveryPath::Connection).await;
    let mut told = stage.connection_stream().await;
    stage.say(2, &["one"]).await;
    told.until("one", RESET).await;
    let replica = stage.replica();
    stage.say(3, &["lost"]).await;
    let read = told.all_until("data: lost").await;
    let cursor = read
        .lines()
        .filter_map(|line| line.strip_prefix("id: "))
        .next_back();
    stage.memory.promote(&replica).expect("the store works");
    stage.successor().await;
    stage.say(3, &["two"]).await;
    let end = end(&stage.scene.creator, DeliveryPath::Connection);
    stage.write(4, vec![end]).await;
    let mut told = stage.resumed(cursor).await;
    told.in_order(&[RESET, "data: two", "result"]).await;
}

/// The log has nothing of the claim whose words the client saw last.
#[tokio::test(start_paused = true)]
async fn who_saw_a_claim_that_is_gone_is_told_its_turn_again() {
    let mut stage = stage(DeliveryPath::Session).await;
    let mut told = stage.session_stream().await;
    stage.say(2, &["one"]).await;
    told.until("one", RESET).await;
    let (replica, first) = (stage.replica(), stage.token.clone());
    stage.successor().await;
    stage.say(3, &["lost"]).await;
    told.until("data: lost", RESET).await;
    stage.memory.promote(&replica).expect("the store works");
    stage.token = first;
    stage.successor().await;
    let end = end(&stage.scene.creator, DeliveryPath::Session);
    stage.write(3, vec![end]).await;
    told.in_order(&[RESET, "data: one", "result"]).await;
}

/// A client that gets a reset still gets everything that was written instead, answers above all.
#[tokio::test(start_paused = true)]
async fn after_a_reset_nothing_is_passed_over() {
    for stays in [true, false] {
        let mut stage = stage(DeliveryPath::Session).await;
        let mut told = stage.session_stream().await;
        stage.say(2, &["one"]).await;
        let replica = stage.replica();
        stage.say(3, &["lost"]).await;
        stage.say(4, &["gone"]).await;
        told.until("gone", RESET).await;
        let cursor = Cursor::live(4, stage.nonce);
        if !stays {
            drop(told);
            told = StreamText::new(Response::new(Body::empty()));
        }
        stage.memory.promote(&replica).expect("the store works");
        stage.successor().await;
        stage.say(3, &["two"]).await;
        stage.say(4, &["three"]).await;
        stage.say(5, &["four"]).await;
        if !stays {
            told = stage.session_stream_from(FeedStart::After(cursor)).await;
        }
        let instead = ["data: two", "data: three", "data: four"];
        told.in_order(&[&[RESET], &instead[..]].concat()).await;
        assert_eq!(stage.app.metrics.resets.get(), 1);
        stage.say(6, &["five"]).await;
        told.until("five", "two").await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_written_instead_is_never_mixed_in() {
    for interrupted in [false, true] {
        let mut stage = stage(DeliveryPath::Session).await;
        let mut told = stage.session_stream().await;
        stage.say(2, &["one"]).await;
        let replica = stage.replica();
        stage.say(3, &["lost"]).await;
        stage.say(4, &["gone"]).await;
        told.until("gone", RESET).await;
        stage.memory.promote(&replica).expect("the store works");
        if interrupted {
            stage.memory.interrupt();
        }
        // At once, and further than before.
        stage.successor().await;
        stage.say(3, &["other"]).await;
        stage.say(4, &["than", "before"]).await;
        let end = end(&stage.scene.creator, DeliveryPath::Session);
        stage.write(6, vec![end]).await;
        told.in_order(&[RESET, "data: other", "data: before", "result"])
            .await;
    }
}
