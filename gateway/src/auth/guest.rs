//! Guests: who opens a link that shares a session may watch that one, and nothing else, until the
//! link ends or its owner takes all links of the session back. The link is a session token for a
//! principal that nobody can log in as: all guests of one session are that principal.

use baton_session::clock::unix_seconds;
use baton_session::id::SessionId;
use baton_session::token::{LOGIN_LIFETIME, LoginToken, SessionGrant, TokenScope};

use super::rights::CallerRights;
use super::{Caller, CallerCredential};

/// No credential has such a principal: those of keys and tokens begin otherwise.
const PREFIX: &str = "share:";
const SOURCE: &str = "share";

/// The guests of a session.
pub fn principal(session: &SessionId) -> String {
    format!("{PREFIX}{session}")
}

/// The session that a principal is a guest of.
pub fn session_of(principal: &str) -> Option<SessionId> {
    SessionId::parse(principal.strip_prefix(PREFIX)?)
}

/// The grant of a link lets its guests watch its session, and is of no other kind.
pub fn is_link(grant: &SessionGrant) -> bool {
    grant.scope == TokenScope::Observe
        && grant.owner.is_some()
        && grant.principal == principal(&grant.session)
}

/// As old as the link, so that what takes back the link takes back the login.
pub fn login(grant: &SessionGrant) -> LoginToken {
    let today = unix_seconds().saturating_add(LOGIN_LIFETIME.as_secs());
    let expires = grant.expires.min(today);
    LoginToken {
        source: Some(SOURCE.into()),
        ..LoginToken::new(grant.principal.clone(), grant.issued, Some(expires))
    }
}

/// `None` if the login is none of a guest.
pub fn recall(login: &LoginToken) -> Option<Caller> {
    let is_guest = login.source.as_deref() == Some(SOURCE);
    session_of(&login.principal).filter(|_| is_guest)?;
    let credential = CallerCredential {
        name: SOURCE.into(),
        source: SOURCE.into(),
        rights: CallerRights {
            observe: true,
            ..CallerRights::default()
        },
        ..CallerCredential::default()
    };
    Some(Caller {
        credential: credential.into(),
        ..Caller::new(login.principal.as_str().into(), Some(login.expires))
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use baton_session::id::Partition;

    use super::*;

    #[test]
    fn a_guest_watches_one_session_and_is_nobody_else() {
        let session = SessionId::mint(Partition(3));
        let hour = Duration::from_secs(3600);
        let mut grant = SessionGrant::new(
            session.clone(),
            principal(&session),
            TokenScope::Observe,
            hour,
        );
        assert!(!is_link(&grant), "it has no owner");
        grant.owner = Some("key:alice".into());
        assert!(is_link(&grant));
        let login = login(&grant);
        assert_eq!(login.expires, grant.expires);
        let guest = recall(&login).unwrap();
        assert!(guest.rights().observe && !guest.rights().admin);
        assert_eq!(session_of(&guest.principal), Some(session.clone()));
        for other in ["key:alice", "share:", "share:x", "jwt:share:1"] {
            assert_eq!(session_of(other), None, "{other}");
        }
        let keys = LoginToken {
            source: Some("0123".into()),
            ..login.clone()
        };
        assert!(recall(&keys).is_none());
        let foreign = SessionGrant {
            session: SessionId::mint(Partition(3)),
            ..grant.clone()
        };
        let control = SessionGrant {
            scope: TokenScope::Control,
            ..grant
        };
        assert!(!is_link(&foreign) && !is_link(&control));
    }
}
