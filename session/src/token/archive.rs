//! Seals of archives: who exported a session, and that its lines are still those that were written
//! then. There are two, since an import has to know whose the session is before it has read it: one
//! in the head, which says whose, and one after the last event, which says what.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{KeyRing, TokenRefusal, unix_seconds};
use crate::id::SessionId;

pub(super) const HEAD: &str = "baton-archive+jwt";
pub(super) const END: &str = "baton-archive-end+jwt";
/// Archives are kept for long. A seal ends when its key is removed from the ring.
const LIFETIME: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

#[derive(Serialize, Deserialize)]
struct ArchiveOwner {
    sid: SessionId,
    prn: String,
}

#[derive(Serialize, Deserialize)]
struct ArchiveSeal {
    #[serde(flatten)]
    whose: ArchiveOwner,
    /// Of all lines before.
    dig: String,
}

impl ArchiveOwner {
    fn new(session: &SessionId, principal: &str) -> Self {
        Self {
            sid: session.clone(),
            prn: principal.to_owned(),
        }
    }

    fn check(&self, session: &SessionId, principal: &str) -> Result<(), TokenRefusal> {
        if self.sid == *session && self.prn == principal {
            Ok(())
        } else {
            Err(TokenRefusal::Archive)
        }
    }
}

/// No secrets: they open nothing.
impl KeyRing {
    pub fn seal_head(&self, session: &SessionId, principal: &str) -> String {
        self.seal(HEAD, ArchiveOwner::new(session, principal))
    }

    /// `digest`: of all lines, the head's with its seal included.
    pub fn seal_end(&self, session: &SessionId, principal: &str, digest: &str) -> String {
        let what = ArchiveSeal {
            whose: ArchiveOwner::new(session, principal),
            dig: digest.to_owned(),
        };
        self.seal(END, what)
    }

    fn seal(&self, kind: &str, claims: impl Serialize) -> String {
        let now = unix_seconds();
        let seal = self.sign(kind, claims, now, now + LIFETIME.as_secs());
        seal.expose().to_owned()
    }

    /// Whether this principal has exported this session.
    pub fn check_head(
        &self,
        seal: &str,
        session: &SessionId,
        principal: &str,
    ) -> Result<(), TokenRefusal> {
        let sealed = self.verify::<ArchiveOwner>(HEAD, seal, unix_seconds())?;
        sealed.claims.check(session, principal)
    }

    /// Whether it has exported these very lines.
    pub fn check_end(
        &self,
        seal: &str,
        session: &SessionId,
        principal: &str,
        digest: &str,
    ) -> Result<(), TokenRefusal> {
        let sealed = self
            .verify::<ArchiveSeal>(END, seal, unix_seconds())?
            .claims;
        sealed.whose.check(session, principal)?;
        if sealed.dig == digest {
            Ok(())
        } else {
            Err(TokenRefusal::Archive)
        }
    }

    /// Of whichever archive.
    pub(super) fn check_any_seal(&self, kind: &str, seal: &str) -> Result<(), TokenRefusal> {
        let now = unix_seconds();
        match kind {
            HEAD => self.verify::<ArchiveOwner>(kind, seal, now).map(drop),
            _ => self.verify::<ArchiveSeal>(kind, seal, now).map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::Algorithm;

    use super::*;
    use crate::id::Partition;
    use crate::token::generate;

    #[test]
    fn a_seal_is_good_for_its_session_its_principal_and_its_place() {
        for algorithm in [Algorithm::HS256, Algorithm::EdDSA, Algorithm::ES256] {
            let ring = KeyRing::parse(&generate(algorithm)).unwrap();
            let other = KeyRing::parse(&generate(algorithm)).unwrap();
            let [one, two] = [1, 2].map(|n| SessionId::mint(Partition(n)));
            let head = ring.seal_head(&one, "alice");
            assert_eq!(ring.check_head(&head, &one, "alice"), Ok(()));
            assert!(ring.check_head(&head, &two, "alice").is_err());
            assert!(ring.check_head(&head, &one, "bob").is_err());
            assert!(other.check_head(&head, &one, "alice").is_err());
            let end = ring.seal_end(&one, "alice", "digest");
            assert_eq!(ring.check_end(&end, &one, "alice", "digest"), Ok(()));
            assert!(ring.check_end(&end, &two, "alice", "digest").is_err());
            assert!(ring.check_end(&end, &one, "bob", "digest").is_err());
            assert!(ring.check_end(&end, &one, "alice", "another").is_err());
            assert!(other.check_end(&end, &one, "alice", "digest").is_err());
            // Neither passes for the other.
            assert!(ring.check_head(&end, &one, "alice").is_err());
            assert!(ring.check_end(&head, &one, "alice", "").is_err());
            for seal in [head, end] {
                assert_eq!(ring.verify_any(&seal), Ok("seal of an archive"));
            }
        }
    }
}
