use std::sync::Arc;
use std::time::Duration;

use baton_session::id::Partition;
use baton_session::revocation::RevocationCause;
use baton_session::store::{CredentialStore as _, MemoryStore};
use baton_session::token::{ConnectionToken, KeyRing, SigningKeys, generate};
use http_body_util::BodyExt as _;
use jsonwebtoken::Algorithm;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::*;
use crate::access::stream_authority::StreamAuthority;
use crate::app::{App, GatewayConfig, StopSignals};
use crate::auth::{ANONYMOUS, AuthMethod, Caller};
use crate::stream::feed::{GatherOutcome, MessageFeed, OutgoingMessage, StartPosition};
use crate::stream::sse;

fn principal(name: &str, before: u64) -> Revocation {
    Revocation {
        before,
        ..Revocation::at_once(RevocationSubject::Principal(name.into()))
    }
}

fn connection() -> ConnectionId {
    ConnectionId::mint(Partition(0))
}

#[test]
fn what_was_issued_before_is_refused_and_what_comes_after_is_not() {
    let (revocations, id, session) = (
        KnownRevocations::default(),
        connection(),
        SessionId::mint(Partition(1)),
    );
    let by = |name: &str, issued| revocations.is_revoked(name, Some((&id, issued)), None);
    assert!(!by("alice", 0));
    revocations.add(principal("alice", 100));
    assert!(by("alice", 99) && by("alice", 100));
    assert!(!by("alice", 101) && !by("bob", 99));
    assert!(revocations.is_revoked("alice", Some((&id, 101)), Some((&session, 100))));
    let mut of_session = Revocation::at_once(RevocationSubject::Session(session.clone()));
    of_session.before = 200;
    revocations.add(of_session);
    assert!(revocations.is_revoked("bob", None, Some((&session, 200))));
    assert!(!revocations.is_revoked("bob", None, Some((&session, 201))));
    revocations.add(Revocation::at_once(RevocationSubject::Connection(
        id.clone(),
    )));
    let now = seconds();
    assert!(revocations.is_revoked("bob", Some((&id, now + 30)), None));
    assert!(!revocations.is_revoked("bob", Some((&connection(), now)), None));
}

#[test]
fn after_a_restore_nothing_counts_that_was_issued_before() {
    let (revocations, id, session) = (
        KnownRevocations::default(),
        connection(),
        SessionId::mint(Partition(1)),
    );
    assert!(!revocations.predates_restore(0));
    let past = Revocation::of_the_past();
    let (restored, before) = (past.from, past.before);
    revocations.add(past);
    let of_connection = |issued| revocations.is_revoked("anybody", Some((&id, issued)), None);
    let of_session = |issued| revocations.is_revoked("anybody", None, Some((&session, issued)));
    let of_login = |issued| revocations.is_credential_revoked("anybody", issued, Some("family"));
    let of_ticket = |issued| revocations.is_credential_revoked("anybody", issued, None);
    let open_login = |issued| revocations.is_login_over("anybody", "family", issued);
    let refuses = |issued| {
        [
            of_connection(issued),
            of_session(issued),
            of_login(issued),
            of_ticket(issued),
            open_login(issued),
        ]
    };
    assert_eq!((refuses(0), refuses(before)), ([true; 5], [true; 5]));
    assert_eq!(refuses(before + 1), [false; 5]);
    // A token issued now is valid at once, also where a clock is a bit behind.
    let issued = [
        revocations.issue_time("anybody", None),
        revocations.issue_time("anybody", Some(&session)),
        revocations.login_time("anybody"),
    ];
    assert!(issued.iter().all(|issued| refuses(*issued) == [false; 5]));
    let most = restored + baton_session::token::MAX_SKEW;
    assert!(issued.iter().all(|issued| *issued < most));
    // Proofs are dated by those who make them.
    assert!(revocations.predates_restore(restored) && !revocations.predates_restore(restored + 1));
}

#[test]
fn what_is_issued_in_the_same_second_is_good() {
    let (revocations, id) = (KnownRevocations::default(), connection());
    revocations.add(principal("alice", seconds() + 5));
    let issued = revocations.issue_time("alice", None);
    assert!(!revocations.is_revoked("alice", Some((&id, issued)), None));
    assert!(revocations.is_revoked("alice", Some((&id, issued - 1)), None));
    assert!(revocations.issue_time("bob", None) < issued);
}

#[test]
fn the_later_one_stays() {
    let (revocations, id) = (KnownRevocations::default(), connection());
    for before in [200, 100] {
        revocations.add(principal("alice", before));
    }
    assert!(revocations.is_revoked("alice", Some((&id, 150)), None));
    assert_eq!(revocations.known().register.len(), 1);
}

#[test]
fn a_renewed_token_is_good_until_its_time_is_over() {
    let revocations = KnownRevocations::default();
    let below = |below, from| Revocation {
        from,
        ..Revocation::at_once(RevocationSubject::Family {
            family: "f".into(),
            below,
        })
    };
    let now = seconds();
    revocations.add(below(1, now - 10));
    revocations.add(below(2, now + 100));
    let generations = [0, 1, 2].map(|generation| revocations.is_family_revoked("f", generation));
    assert_eq!(generations, [true, false, false]);
    assert!(!revocations.is_family_revoked("g", 0));
}

fn logout(family: &str, principal: &str, issued: u64) -> Revocation {
    let subject = RevocationSubject::Family {
        family: family.into(),
        below: 1,
    };
    let revocation = Revocation {
        before: issued,
        ..Revocation::at_once(subject)
    };
    revocation.asked_by(RevocationCause::Logout, principal)
}

#[test]
fn f4_many_logouts_bring_no_login_back() {
    let revocations = KnownRevocations::default();
    let now = seconds();
    revocations.add(logout("hers", "alice", now - 100));
    revocations.add(principal("dave", now - 100));
    for number in 0..100_000 {
        revocations.add(logout(&number.to_string(), "bob", now - 50));
    }
    let over = |name: &str, family: &str, issued| revocations.is_login_over(name, family, issued);
    assert!(over("alice", "hers", now - 100));
    assert!(over("bob", "0", now - 50) && over("bob", "99999", now - 50));
    assert!(!over("alice", "other", now - 50) && !over("carol", "0", now - 50));
    assert!(revocations.is_revoked("dave", Some((&connection(), now - 100)), None));
    assert_eq!(revocations.known().register.len(), 3);
    // He may log in again, be it in the same second.
    let again = revocations.login_time("bob");
    assert!(!over("bob", "again", again) && again >= now);
}

#[test]
fn f4_when_room_ends_more_is_refused_and_nothing_let_in() {
    let revocations = KnownRevocations::with_room(10);
    let now = seconds();
    for number in 0..30 {
        revocations.add(principal(&format!("by an administrator {number}"), now));
        for which in 0..3 {
            let family = format!("{number} {which}");
            revocations.add(logout(&family, &format!("caller {number}"), now - 50));
        }
    }
    let register_holds = revocations.known().register.len();
    assert!(register_holds <= 30 + 2 * 10, "{register_holds}");
    for number in 0..30 {
        let (caller, admins) = (
            format!("caller {number}"),
            format!("by an administrator {number}"),
        );
        for which in 0..3 {
            let family = format!("{number} {which}");
            assert!(
                revocations.is_login_over(&caller, &family, now - 50),
                "{family}"
            );
        }
        assert!(revocations.is_revoked(&admins, Some((&connection(), now)), None));
    }
    // Everybody's from before is refused then, and what is made from here on is good.
    assert!(revocations.is_login_over("nobody of those", "x", now - 50));
    let fresh = revocations.login_time("nobody of those");
    assert!(!revocations.is_login_over("nobody of those", "x", fresh));
}

async fn is_woken(interest: &RevocationWatch, what: impl AsyncFnOnce()) -> bool {
    let mut woken = std::pin::pin!(interest.woken());
    woken.as_mut().enable();
    what().await;
    futures_util::FutureExt::now_or_never(woken).is_some()
}

#[tokio::test]
async fn whoever_listens_hears_of_news_and_only_of_news() {
    let (revocations, store) = (KnownRevocations::default(), MemoryStore::default());
    let interest = |name: &str| revocations.interest(vec![WatchedSubject::Principal(name.into())]);
    let (alice, bob) = (interest("alice"), interest("bob"));
    store.revoke(&principal("alice", 100)).await.unwrap();
    assert!(is_woken(&alice, async || revocations.refresh(&store).await).await);
    assert!(!is_woken(&alice, async || revocations.refresh(&store).await).await);
    // Announced before, and in effect by now.
    let again = async || {
        revocations.known.write().unwrap().checked_until = 0;
        revocations.refresh(&store).await;
    };
    assert!(is_woken(&alice, again).await);
    assert!(!is_woken(&bob, again).await);
}

#[tokio::test]
async fn after_a_loss_of_signals_nothing_is_renewed_until_all_is_read() {
    let (revocations, store) = (KnownRevocations::default(), MemoryStore::default());
    assert!(!revocations.may_be_incomplete());
    revocations.mark_incomplete();
    assert!(revocations.may_be_incomplete());
    revocations.refresh(&store).await;
    assert!(!revocations.may_be_incomplete());
}

async fn app(memory: &MemoryStore) -> Arc<App> {
    let keys = KeyRing::parse(&generate(Algorithm::HS256)).expect("a key");
    let store: Arc<dyn Store> = Arc::new(memory.clone());
    let (config, stop) = (GatewayConfig::default(), StopSignals::default());
    let app = App::new(
        config,
        store,
        SigningKeys::fixed(keys),
        AuthMethod::Open,
        stop,
    )
    .await;
    app.expect("the store works")
}

/// Time is paused, and goes on when everybody waits: nobody has.
#[tokio::test(start_paused = true)]
async fn a_gateway_knows_at_the_start_by_signal_and_after_a_loss_of_signals() {
    let (memory, id) = (MemoryStore::default(), connection());
    memory.revoke(&principal("alice", 100)).await.unwrap();
    let app = app(&memory).await;
    let knows = |name: &str| {
        app.issuer
            .revocations
            .is_revoked(name, Some((&id, 50)), None)
    };
    assert!(knows("alice") && !knows("bob"));
    // Between two of the regular looks, the first of which is at once.
    sleep(Duration::from_secs(1)).await;
    let start = Instant::now();
    let revocations = &app.issuer.revocations;
    let interest = revocations.interest(vec![WatchedSubject::Principal("bob".into())]);
    let mut woken = Box::pin(interest.woken());
    woken.as_mut().enable();
    memory.revoke(&principal("bob", 100)).await.unwrap();
    woken.await;
    assert!(knows("bob"));
    // As if nobody had told.
    *app.issuer.revocations.known.write().unwrap() = RevocationState::default();
    assert!(!knows("bob"));
    let mut woken = Box::pin(interest.woken());
    woken.as_mut().enable();
    memory.interrupt();
    woken.await;
    assert!(knows("alice") && knows("bob"));
    assert_eq!(start.elapsed(), Duration::ZERO);
}

/// Always has something to say.
struct Endless(Arc<Notify>);

impl MessageFeed for Endless {
    const KIND: &'static str = "endless";

    fn start(&self) -> StartPosition {
        let (cursor, reset) = ("0".into(), None);
        StartPosition { cursor, reset }
    }

    async fn gather(&mut self, out: &mut Vec<OutgoingMessage>) -> store::Result<GatherOutcome> {
        let (cursor, message) = ("1".into(), "{}".into());
        out.push(OutgoingMessage { cursor, message });
        Ok(GatherOutcome::Open)
    }

    fn wake(&self) -> &Arc<Notify> {
        &self.0
    }

    fn seems_busy(&self) -> bool {
        true
    }

    async fn is_busy(&mut self) -> store::Result<bool> {
        Ok(true)
    }
}

#[tokio::test]
async fn a_stream_that_never_pauses_ends_too() {
    let app = app(&MemoryStore::default()).await;
    let opened = ConnectionToken {
        id: connection(),
        principal: ANONYMOUS.into(),
        protocol_version: 1,
        client: Default::default(),
        agent: None,
        rights: None,
        issued: 50,
        expires: 0,
    };
    let standing = StreamAuthority::of(&Caller::anonymous()).on(&opened);
    let feed = Endless(Arc::default());
    let mut body = sse::respond(app.streams.clone(), feed, standing, None, None).into_body();
    for _ in 0..5 {
        assert!(body.frame().await.is_some());
    }
    app.issuer.revocations.add(principal(ANONYMOUS, 50));
    assert!(body.frame().await.is_none());
}
