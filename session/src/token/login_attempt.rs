//! An attempt to log in at the page of an identity provider: what the gateway has to know that
//! finishes it. It travels in a cookie of the browser that began it. So any gateway finishes it,
//! and no other browser.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{KeyRing, TokenRefusal, unix_seconds};
use crate::id::random_text;
use crate::secret::Secret;

pub const ATTEMPT_LIFETIME: Duration = Duration::from_secs(600);

pub(super) const TYPE: &str = "baton-attempt+jwt";
const STATE_CHARS: usize = 22;
/// As RFC 7636 asks for at least.
const VERIFIER_CHARS: usize = 43;

/// The content of a verified attempt. Times are in seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginAttempt {
    /// Comes back from the provider, and shows that the answer is to this attempt.
    pub state: String,
    /// Comes back in the ID token.
    pub nonce: String,
    /// Shows that who redeems the code has begun the attempt (PKCE).
    pub verifier: String,
    /// The page's own, where the provider sends the browser back to.
    pub origin: String,
    pub issued: u64,
    pub expires: u64,
}

#[derive(Serialize, Deserialize)]
struct AttemptClaims {
    sta: String,
    non: String,
    ver: String,
    org: String,
}

impl LoginAttempt {
    pub fn begin(origin: String) -> Self {
        let issued = unix_seconds();
        Self {
            state: random_text(STATE_CHARS),
            nonce: random_text(STATE_CHARS),
            verifier: random_text(VERIFIER_CHARS),
            origin,
            issued,
            expires: issued.saturating_add(ATTEMPT_LIFETIME.as_secs()),
        }
    }
}

impl KeyRing {
    pub fn sign_attempt(&self, attempt: &LoginAttempt) -> Secret {
        let claims = AttemptClaims {
            sta: attempt.state.clone(),
            non: attempt.nonce.clone(),
            ver: attempt.verifier.clone(),
            org: attempt.origin.clone(),
        };
        self.sign(TYPE, claims, attempt.issued, attempt.expires)
    }

    pub fn verify_attempt(&self, token: &str) -> Result<LoginAttempt, TokenRefusal> {
        let timed = self.verify::<AttemptClaims>(TYPE, token, unix_seconds())?;
        Ok(LoginAttempt {
            state: timed.claims.sta,
            nonce: timed.claims.non,
            verifier: timed.claims.ver,
            origin: timed.claims.org,
            issued: timed.iat,
            expires: timed.exp,
        })
    }
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::Algorithm;

    use super::*;
    use crate::token::generate;

    #[test]
    fn an_attempt_comes_back_as_it_was_and_is_like_no_other() {
        for algorithm in [Algorithm::HS256, Algorithm::EdDSA, Algorithm::ES256] {
            let ring = KeyRing::parse(&generate(algorithm)).unwrap();
            let begin = || LoginAttempt::begin("https://baton.example".into());
            let (one, other) = (begin(), begin());
            assert_eq!(one.expires, one.issued + 600);
            for differs in [
                |attempt: &LoginAttempt| attempt.state.clone(),
                |attempt: &LoginAttempt| attempt.nonce.clone(),
                |attempt: &LoginAttempt| attempt.verifier.clone(),
            ] {
                assert_ne!(differs(&one), differs(&other));
            }
            let token = ring.sign_attempt(&one);
            assert_eq!(ring.verify_attempt(token.expose()).unwrap(), one);
            assert_eq!(ring.verify_any(token.expose()), Ok("login attempt"));
            assert!(ring.verify_login(token.expose()).is_err());
            let over = LoginAttempt {
                expires: one.issued,
                ..one
            };
            let over = ring.sign_attempt(&over);
            assert!(ring.verify_attempt(over.expose()).is_err());
        }
    }
}
