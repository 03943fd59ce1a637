//! The session token: who may do what with which session, and until when. It plays the part of a
//! cookie, see [`super::carriers`].

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{KeyRing, TokenRefusal, unix_seconds};
use crate::id::{SessionId, random_text};
use crate::secret::Secret;

pub const SESSION_LIFETIME: Duration = Duration::from_secs(3600);
/// How long a token may be renewed: whoever goes on after that opens the session again.
pub const FAMILY_LIFETIME: Duration = Duration::from_secs(24 * 3600);

pub(super) const TYPE: &str = "baton-session+jwt";
const FAMILY_CHARS: usize = 8;

/// The holder's rights. One letter in the token, which keeps it short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TokenScope {
    /// Everything: prompt, cancel, answer, close.
    #[serde(rename = "c")]
    Control,
    /// Read along.
    #[serde(rename = "o")]
    Observe,
}

/// The content of a verified session token. Times are in seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionGrant {
    pub session: SessionId,
    /// The principal that may use it.
    pub principal: String,
    /// The owner of the session, if that is another principal.
    pub owner: Option<String>,
    pub scope: TokenScope,
    /// The same for all renewals of one token, so that they can be revoked together.
    pub family: String,
    /// How often it was renewed.
    pub generation: u32,
    /// The first of its family: a renewal is as old as that, so what was revoked since is not good
    /// again.
    pub issued: u64,
    pub expires: u64,
}

#[derive(Serialize, Deserialize)]
struct SessionClaims {
    sid: SessionId,
    prn: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    own: Option<String>,
    scp: TokenScope,
    fam: String,
    r#gen: u32,
}

impl SessionGrant {
    pub fn new(
        session: SessionId,
        principal: String,
        scope: TokenScope,
        lifetime: Duration,
    ) -> Self {
        let issued = unix_seconds();
        Self {
            session,
            principal,
            owner: None,
            scope,
            family: random_text(FAMILY_CHARS),
            generation: 0,
            issued,
            expires: issued.saturating_add(lifetime.as_secs()),
        }
    }

    /// The principal that the session is kept under.
    pub fn owner(&self) -> &str {
        self.owner.as_deref().unwrap_or(&self.principal)
    }

    /// Past half of its life. A token that is only used now and then still gets its chance, and one
    /// in steady use is not renewed with every request.
    pub fn wants_renewal(&self, now: u64) -> bool {
        let lifetime = self.expires.saturating_sub(self.issued);
        let lifetime = lifetime.min(SESSION_LIFETIME.as_secs());
        now >= self.expires.saturating_sub(lifetime / 2) && self.expires < self.last()
    }

    /// No renewal is good longer.
    fn last(&self) -> u64 {
        self.issued.saturating_add(FAMILY_LIFETIME.as_secs())
    }

    pub fn renewed(&self, now: u64, lifetime: Duration) -> Self {
        Self {
            generation: self.generation.saturating_add(1),
            expires: now.saturating_add(lifetime.as_secs()).min(self.last()),
            ..self.clone()
        }
    }
}

impl KeyRing {
    pub fn sign_session(&self, grant: &SessionGrant) -> Secret {
        let claims = SessionClaims {
            sid: grant.session.clone(),
            prn: grant.principal.clone(),
            own: grant.owner.clone(),
            scp: grant.scope,
            fam: grant.family.clone(),
            r#gen: grant.generation,
        };
        self.sign(TYPE, claims, grant.issued, grant.expires)
    }

    pub fn verify_session(&self, token: &str) -> Result<SessionGrant, TokenRefusal> {
        self.verify_session_at(token, unix_seconds())
    }

    /// As the clock stands at `now`.
    pub fn verify_session_at(&self, token: &str, now: u64) -> Result<SessionGrant, TokenRefusal> {
        let timed = self.verify::<SessionClaims>(TYPE, token, now)?;
        let claims = timed.claims;
        if claims.own.is_some() && claims.scp == TokenScope::Control {
            return Err(TokenRefusal::Control);
        }
        Ok(SessionGrant {
            session: claims.sid,
            principal: claims.prn,
            owner: claims.own,
            scope: claims.scp,
            family: claims.fam,
            generation: claims.r#gen,
            issued: timed.iat,
            expires: timed.exp,
        })
    }
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::Algorithm;

    use super::*;
    use crate::id::Partition;
    use crate::token::generate;

    fn grant(scope: TokenScope) -> SessionGrant {
        let session = SessionId::mint(Partition(3));
        SessionGrant::new(session, "somebody".into(), scope, SESSION_LIFETIME)
    }

    #[test]
    fn a_token_says_what_was_granted() {
        for algorithm in [Algorithm::HS256, Algorithm::EdDSA, Algorithm::ES256] {
            let ring = KeyRing::parse(&generate(algorithm)).unwrap();
            for scope in [TokenScope::Control, TokenScope::Observe] {
                let grant = grant(scope);
                let token = ring.sign_session(&grant);
                assert_eq!(ring.verify_session(token.expose()).unwrap(), grant);
                assert!(ring.verify_connection(token.expose()).is_err());
            }
        }
    }

    #[test]
    fn it_is_renewed_past_half_of_its_life_and_stays_in_its_family() {
        let first = grant(TokenScope::Observe);
        let half = first.issued + 1800;
        assert!(!first.wants_renewal(half - 1) && first.wants_renewal(half));
        let second = first.renewed(half, SESSION_LIFETIME);
        assert_eq!((second.issued, second.expires), (first.issued, half + 3600));
        assert_eq!(second.generation, 1);
        let same = SessionGrant {
            generation: 0,
            expires: first.expires,
            ..second.clone()
        };
        assert_eq!(same, first);
        assert!(!second.wants_renewal(half));
        assert_eq!(first.family.len(), 8);
        assert_ne!(first.family, grant(TokenScope::Observe).family);
    }

    #[test]
    fn renewals_end_a_day_after_the_first() {
        let first = grant(TokenScope::Control);
        let mut token = first.clone();
        let end = first.issued + 24 * 3600;
        while token.expires < end {
            let now = token.expires - 1800;
            assert!(!token.wants_renewal(now - 1) && token.wants_renewal(now));
            token = token.renewed(now, SESSION_LIFETIME);
        }
        assert_eq!((token.expires, token.issued), (end, first.issued));
        assert!(!token.wants_renewal(end - 1));
    }

    #[test]
    fn a_session_is_its_owners_and_control_is_not_shared() {
        let ring = KeyRing::parse(&generate(Algorithm::HS256)).unwrap();
        let own = grant(TokenScope::Control);
        assert_eq!(own.owner(), "somebody");
        let shared = |scope: TokenScope| SessionGrant {
            owner: Some("the owner".into()),
            ..grant(scope)
        };
        assert_eq!(shared(TokenScope::Observe).owner(), "the owner");
        let verified =
            |grant: &SessionGrant| ring.verify_session(ring.sign_session(grant).expose());
        let view = shared(TokenScope::Observe);
        assert_eq!(verified(&view).as_ref(), Ok(&view));
        assert!(verified(&shared(TokenScope::Control)).is_err());
    }
}
