use super::*;
use baton_session::id::Partition;
use baton_session::store::MemoryStore;

fn principal(name: &str, before: u64) -> Revocation {
    Revocation {
        before,
        ..Revocation::at_once(Subject::Principal(name.into()))
    }
}

fn connection() -> ConnectionId {
    ConnectionId::mint(Partition(0))
}

#[test]
fn what_was_issued_before_is_refused_and_what_comes_after_is_not() {
    let (revoked, id, session) = (
        Revoked::default(),
        connection(),
        SessionId::mint(Partition(1)),
    );
    let by = |name: &str, issued| revoked.is_revoked(name, Some((&id, issued)), None);
    assert!(!by("alice", 0));
    revoked.add(principal("alice", 100));
    assert!(by("alice", 99) && by("alice", 100));
    assert!(!by("alice", 101) && !by("bob", 99));
    assert!(revoked.is_revoked("alice", Some((&id, 101)), Some((&session, 100))));
    let mut of_session = Revocation::at_once(Subject::Session(session.clone()));
    of_session.before = 200;
    revoked.add(of_session);
    assert!(revoked.is_revoked("bob", None, Some((&session, 200))));
    assert!(!revoked.is_revoked("bob", None, Some((&session, 201))));
    revoked.add(Revocation::at_once(Subject::Connection(id.clone())));
    let now = seconds();
    assert!(revoked.is_revoked("bob", Some((&id, now + 30)), None));
    assert!(!revoked.is_revoked("bob", Some((&connection(), now)), None));
}

#[test]
fn what_is_issued_in_the_same_second_is_good() {
    let (revoked, id) = (Revoked::default(), connection());
    revoked.add(principal("alice", seconds() + 5));
    let issued = revoked.issue_time("alice");
    assert!(!revoked.is_revoked("alice", Some((&id, issued)), None));
    assert!(revoked.is_revoked("alice", Some((&id, issued - 1)), None));
    assert!(revoked.issue_time("bob") < issued);
}

#[test]
fn the_later_one_stays() {
    let (revoked, id) = (Revoked::default(), connection());
    for before in [200, 100] {
        revoked.add(principal("alice", before));
    }
    assert!(revoked.is_revoked("alice", Some((&id, 150)), None));
    assert_eq!(revoked.known().ends.len(), 1);
}

#[test]
fn a_renewed_token_is_good_until_its_time_is_over() {
    let revoked = Revoked::default();
    let below = |below, from| Revocation {
        from,
        ..Revocation::at_once(Subject::Family {
            family: "f".into(),
            below,
        })
    };
    let now = seconds();
    revoked.add(below(1, now - 10));
    revoked.add(below(2, now + 100));
    let generations = [0, 1, 2].map(|generation| revoked.is_family_revoked("f", generation));
    assert_eq!(generations, [true, false, false]);
    assert!(!revoked.is_family_revoked("g", 0));
}

#[test]
fn there_is_a_bound_and_what_ends_first_goes_first() {
    let (revoked, id) = (Revoked::with_room(10), connection());
    let lasting = |number: u64| Revocation {
        until: seconds() + 1000 + number,
        ..principal(&number.to_string(), 100)
    };
    revoked.add_all((0..25).map(lasting));
    revoked.add(lasting(2));
    assert_eq!(revoked.known().ends.len(), 10);
    assert_eq!(revoked.known().principals.len(), 10);
    for number in 0..25_u64 {
        let refused = revoked.is_revoked(&number.to_string(), Some((&id, 50)), None);
        assert_eq!(refused, number >= 15, "{number}");
    }
    let ended = Revocation {
        until: seconds(),
        ..principal("ended", 100)
    };
    revoked.add(ended);
    assert!(!revoked.is_revoked("ended", Some((&id, 50)), None));
}

#[tokio::test]
async fn whoever_listens_hears_of_news_and_only_of_news() {
    let (revoked, store) = (Revoked::default(), MemoryStore::default());
    let mut news = revoked.news();
    store.revoke(&principal("alice", 100)).await.unwrap();
    revoked.refresh(&store).await;
    assert!(news.has_changed().unwrap());
    news.borrow_and_update();
    revoked.refresh(&store).await;
    assert!(!news.has_changed().unwrap());
    // Announced before, and in effect by now.
    revoked.known.write().unwrap().looked = 0;
    revoked.refresh(&store).await;
    assert!(news.has_changed().unwrap());
}
