//! Under what a session is listed.

use sha2::{Digest as _, Sha256};

use super::session::StoredSession;

/// A principal's sessions, or those of them in one directory. Names of any length become keys of
/// one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ListKey(pub [u8; 32]);

impl ListKey {
    pub fn new(principal: &str, cwd: Option<&str>) -> Self {
        let mut name = Sha256::new();
        name.update((principal.len() as u64).to_be_bytes());
        name.update(principal);
        if let Some(cwd) = cwd {
            // So that even an empty directory is another heading than none.
            name.update("/");
            name.update(cwd);
        }
        Self(name.finalize().into())
    }

    pub fn all_of(session: &StoredSession) -> [Self; 2] {
        let (principal, cwd) = (&session.principal, session.cwd());
        [Self::new(principal, None), Self::new(principal, Some(cwd))]
    }
}
