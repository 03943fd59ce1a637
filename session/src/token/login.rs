//! The login: stands for a credential in the cookie of a browser.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{KeyRing, TokenRefusal, unix_seconds};
use crate::id::random_text;
use crate::secret::Secret;

pub const LOGIN_LIFETIME: Duration = Duration::from_secs(12 * 3600);

pub(super) const TYPE: &str = "baton-login+jwt";
/// Longer than that of a session token: no login has the family of one.
const FAMILY_CHARS: usize = 16;

/// The content of a verified login. Times are in seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginToken {
    pub principal: String,
    /// The family by which it is revoked.
    pub family: String,
    /// The credential that it was made of, as far as gateways need to know it again.
    pub source: Option<String>,
    pub issued: u64,
    pub expires: u64,
}

#[derive(Serialize, Deserialize)]
struct LoginClaims {
    prn: String,
    fam: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    src: Option<String>,
}

impl LoginToken {
    /// `credential`: when that is over which it stands for.
    pub fn new(principal: String, issued: u64, credential: Option<u64>) -> Self {
        let expires = issued.saturating_add(LOGIN_LIFETIME.as_secs());
        Self {
            principal,
            family: random_text(FAMILY_CHARS),
            source: None,
            issued,
            expires: credential.map_or(expires, |credential| expires.min(credential)),
        }
    }
}

impl KeyRing {
    pub fn sign_login(&self, login: &LoginToken) -> Secret {
        let claims = LoginClaims {
            prn: login.principal.clone(),
            fam: login.family.clone(),
            src: login.source.clone(),
        };
        self.sign(TYPE, claims, login.issued, login.expires)
    }

    pub fn verify_login(&self, token: &str) -> Result<LoginToken, TokenRefusal> {
        let timed = self.verify::<LoginClaims>(TYPE, token, unix_seconds())?;
        Ok(LoginToken {
            principal: timed.claims.prn,
            family: timed.claims.fam,
            source: timed.claims.src,
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
    fn a_login_says_whose_it_is_and_does_not_outlive_the_credential() {
        let now = unix_seconds();
        for algorithm in [Algorithm::HS256, Algorithm::EdDSA, Algorithm::ES256] {
            let ring = KeyRing::parse(&generate(algorithm)).unwrap();
            let day = 24 * 3600;
            for (credential, life) in [(None, day / 2), (Some(day), day / 2), (Some(60), 60)] {
                let credential = credential.map(|left| now + left);
                let login = LoginToken::new("somebody".into(), now, credential);
                assert_eq!(login.expires, now + life);
                let token = ring.sign_login(&login);
                assert_eq!(ring.verify_login(token.expose()).unwrap(), login);
                assert_eq!(ring.verify_any(token.expose()), Ok("login"));
            }
        }
    }
}
