use super::*;
use crate::id::Partition;

const NOW: u64 = 1_800_000_000;

fn family(name: &str, asked: RevocationCause, principal: &str) -> Revocation {
    let subject = RevocationSubject::Family {
        family: name.to_owned(),
        below: 1,
    };
    let revocation = Revocation {
        subject,
        before: NOW - 10,
        from: NOW - 70,
        until: NOW + 1000,
        asker: None,
    };
    revocation.asked_by(asked, principal)
}

fn names(asked: RevocationCause) -> impl Iterator<Item = String> {
    (0..=asked.budget()).map(|number| format!("f{number}"))
}

#[test]
fn many_logouts_of_one_caller_become_one_and_leave_the_others_alone() {
    let mut register = RevocationRegister::default();
    let hers = family("hers", RevocationCause::Logout, "alice");
    register.apply(&hers, NOW);
    let mut last = RevokeOutcome::Known;
    for _ in 0..5 {
        for name in names(RevocationCause::Logout) {
            last = register.apply(&family(&name, RevocationCause::Logout, "bob"), NOW);
        }
        assert!(register.len() <= RevocationCause::Logout.budget() + 2);
    }
    assert_eq!(last, RevokeOutcome::Covered);
    assert_eq!(register.find(&hers.subject), Some(&hers));
    let his = register.logins.get("bob").expect("one for all");
    assert_eq!((his.before, his.until), (NOW, NOW + 1000));
    assert_eq!((register.len(), register.logouts()), (2, 1));
    // Somebody who logs in later and out again is one of his own.
    let mut later = family("later", RevocationCause::Logout, "bob");
    later.before = NOW + 5;
    assert!(matches!(
        register.apply(&later, NOW + 9),
        RevokeOutcome::Done(..)
    ));
    assert_eq!(register.len(), 3);
    assert_eq!(register.forget(NOW + 1000).len(), 3);
    assert!(register.is_empty() && register.asked.is_empty());
}

#[test]
fn beyond_its_budget_nobody_renews_and_the_first_that_were_given_up_go() {
    let mut register = RevocationRegister::default();
    let mut last = RevokeOutcome::Known;
    for name in names(RevocationCause::Renewal) {
        last = register.apply(&family(&name, RevocationCause::Renewal, "bob"), NOW);
    }
    assert_eq!(last, RevokeOutcome::Full);
    let hers = family("hers", RevocationCause::Renewal, "alice");
    assert!(matches!(
        register.apply(&hers, NOW),
        RevokeOutcome::Done(..)
    ));
    let ended = |principal: &str, until| {
        let id = ConnectionId::mint(Partition(0));
        let ended = Revocation::of_ended(id, principal);
        Revocation { until, ..ended }
    };
    let (first, hers) = (ended("bob", NOW + 1), ended("alice", NOW + 1));
    register.apply(&first, NOW);
    register.apply(&hers, NOW);
    for number in 0..RevocationCause::Ended.budget() as u64 {
        register.apply(&ended("bob", NOW + 2 + number), NOW);
    }
    assert_eq!(register.find(&first.subject), None);
    assert!(register.find(&hers.subject).is_some());
}

#[test]
fn an_administrator_has_no_budget() {
    let mut register = RevocationRegister::default();
    for number in 0..30_000 {
        let subject = RevocationSubject::Principal(number.to_string());
        let revocation = Revocation {
            subject,
            asker: None,
            ..family("", RevocationCause::Logout, "")
        };
        register.apply(&revocation, NOW);
    }
    assert_eq!(register.principals.len(), 30_000);
}

#[test]
fn those_of_the_caller_with_the_most_become_one() {
    let mut register = RevocationRegister::default();
    for (principal, count) in [("alice", 3), ("bob", 5), ("carol", 4)] {
        for number in 0..count {
            let mut logout = family(
                &format!("{principal} {number}"),
                RevocationCause::Logout,
                principal,
            );
            // Bob's end one by one.
            logout.until += if principal == "bob" { number } else { 10 };
            register.apply(&logout, NOW);
            // The same again, and a later word on it, are still one.
            register.apply(&logout, NOW);
            logout.before += 1;
            register.apply(&logout, NOW);
        }
    }
    assert_eq!(register.logouts(), 12);
    register.forget(NOW + 1001);
    assert_eq!(register.logouts(), 10);
    let mut collapsed = Vec::new();
    while let Some(one) = register.collapse_largest(NOW) {
        collapsed.push((one.subject, register.logouts()));
    }
    let expected = [("carol", 6), ("bob", 3), ("alice", 0)];
    let expected = expected.map(|(name, left)| (RevocationSubject::Logins(name.into()), left));
    assert_eq!(collapsed, expected);
    assert!(register.by_logouts.is_empty() && register.asked.is_empty());
}
