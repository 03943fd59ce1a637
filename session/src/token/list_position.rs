//! Cursors of lists: a place, signed, so that it names nothing its holder was not shown.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{CONNECTION_LIFETIME, KeyRing, TokenRefusal, unix_seconds};
use crate::list_position::ListPosition;

pub(super) const TYPE: &str = "baton-place+jwt";

#[derive(Serialize, Deserialize)]
struct ListPositionClaims {
    /// The list it belongs to.
    of: String,
    #[serde(flatten)]
    place: ListPosition,
}

impl KeyRing {
    /// `scope` tells lists apart: whose it is and what it was asked for. No secret: it opens
    /// nothing.
    pub fn sign_list_position(&self, place: &ListPosition, scope: &str) -> String {
        let now = unix_seconds();
        let claims = ListPositionClaims {
            of: digest(scope),
            place: place.clone(),
        };
        let expires = now + CONNECTION_LIFETIME.as_secs();
        self.sign(TYPE, claims, now, expires).expose().to_owned()
    }

    pub fn verify_list_position(
        &self,
        cursor: &str,
        scope: &str,
    ) -> Result<ListPosition, TokenRefusal> {
        let claims = self
            .verify::<ListPositionClaims>(TYPE, cursor, unix_seconds())?
            .claims;
        if claims.of == digest(scope) {
            Ok(claims.place)
        } else {
            Err(TokenRefusal::List)
        }
    }

    /// Of whichever list.
    pub(super) fn verify_any_list_position(&self, cursor: &str) -> Result<(), TokenRefusal> {
        self.verify::<ListPositionClaims>(TYPE, cursor, unix_seconds())
            .map(|_| ())
    }
}

fn digest(scope: &str) -> String {
    let hash = Sha256::digest(scope);
    hash[..12]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::Algorithm;

    use super::*;
    use crate::id::{Partition, SessionId};
    use crate::token::generate;

    #[test]
    fn a_place_is_good_for_its_own_list_and_as_it_was_signed() {
        let ring = KeyRing::parse(&generate(Algorithm::HS256)).unwrap();
        let place = ListPosition {
            updated: 1_700_000_000_123,
            session: SessionId::mint(Partition(3)),
        };
        let cursor = ring.sign_list_position(&place, "me");
        assert_eq!(ring.verify_list_position(&cursor, "me").unwrap(), place);
        assert!(ring.verify_list_position(&cursor, "somebody else").is_err());
        assert!(ring.verify_connection(&cursor).is_err());
    }
}
