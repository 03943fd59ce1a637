//! The ticket: stands for a credential once, where a caller cannot send headers of its own.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{KeyRing, TokenRefusal, unix_seconds};
use crate::id::random_text;
use crate::secret::Secret;

pub const TICKET_LIFETIME: Duration = Duration::from_secs(30);

pub(super) const TYPE: &str = "baton-ticket+jwt";
const ID_CHARS: usize = 16;

/// The content of a verified ticket. Times are in seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    pub principal: String,
    /// By which it is known whether it was used.
    pub id: String,
    /// When the credential that it was asked for with is over; what it opens ends then.
    pub credential: Option<u64>,
    /// The login that it was asked for with, which may be ended before its time.
    pub login: Option<String>,
    /// That credential, as far as gateways need to know it again.
    pub source: Option<String>,
    pub issued: u64,
    pub expires: u64,
}

#[derive(Serialize, Deserialize)]
struct TicketClaims {
    prn: String,
    jti: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    cre: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fam: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    src: Option<String>,
}

impl Ticket {
    /// No longer good than what it stands for.
    pub fn new(principal: String, issued: u64, credential: Option<u64>) -> Self {
        let expires = issued.saturating_add(TICKET_LIFETIME.as_secs());
        Self {
            principal,
            id: random_text(ID_CHARS),
            credential,
            login: None,
            source: None,
            issued,
            expires: credential.map_or(expires, |credential| expires.min(credential)),
        }
    }
}

impl KeyRing {
    pub fn sign_ticket(&self, ticket: &Ticket) -> Secret {
        let claims = TicketClaims {
            prn: ticket.principal.clone(),
            jti: ticket.id.clone(),
            cre: ticket.credential,
            fam: ticket.login.clone(),
            src: ticket.source.clone(),
        };
        self.sign(TYPE, claims, ticket.issued, ticket.expires)
    }

    /// Whether it was used is for the store to say.
    pub fn verify_ticket(&self, token: &str) -> Result<Ticket, TokenRefusal> {
        let timed = self.verify::<TicketClaims>(TYPE, token, unix_seconds())?;
        Ok(Ticket {
            principal: timed.claims.prn,
            id: timed.claims.jti,
            credential: timed.claims.cre,
            login: timed.claims.fam,
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
    fn a_ticket_says_what_it_stands_for_and_is_good_for_half_a_minute() {
        let now = unix_seconds();
        for algorithm in [Algorithm::HS256, Algorithm::EdDSA, Algorithm::ES256] {
            let ring = KeyRing::parse(&generate(algorithm)).unwrap();
            for (credential, login) in [(None, None), (Some(now + 600), Some("abc".to_owned()))] {
                let ticket = Ticket {
                    source: login.clone(),
                    login,
                    ..Ticket::new("somebody".into(), now, credential)
                };
                assert_eq!(ticket.expires, now + 30);
                let token = ring.sign_ticket(&ticket);
                assert_eq!(ring.verify_ticket(token.expose()).unwrap(), ticket);
                assert_eq!(ring.verify_any(token.expose()), Ok("ticket"));
            }
        }
    }

    #[test]
    fn it_does_not_outlive_the_credential() {
        let ring = KeyRing::parse(&generate(Algorithm::HS256)).unwrap();
        let now = unix_seconds();
        let ticket = Ticket::new("somebody".into(), now, Some(now + 7));
        assert_eq!(ticket.expires, now + 7);
        let over = Ticket::new("somebody".into(), now, Some(now));
        assert!(
            ring.verify_ticket(ring.sign_ticket(&over).expose())
                .is_err()
        );
    }
}
