//! The store's part in refusing credentials: revocations, and what may be used once.

use std::time::Duration;

use async_trait::async_trait;

use super::Result;
use crate::revocation::Revocation;

/// Revocations, and what may be used once.
#[async_trait]
pub trait CredentialStore: Send + Sync + 'static {
    /// From here on it is listed and everybody who listens is told. For one subject the later
    /// `before` wins. Callers have budgets for what they ask for, see
    /// [`RevocationCause`](crate::revocation::RevocationCause): too many logouts become one for all
    /// logins of the principal. False if it was not taken for lack of budget.
    async fn revoke(&self, revocation: &Revocation) -> Result<bool>;

    /// All that still matter; what has ended is forgotten on the way.
    async fn revocations(&self) -> Result<Vec<Revocation>>;

    /// True for the first caller of all, false for everybody after it while it `lasts`: through
    /// restarts, on whichever replica. A caller that saw no reply and calls again gets false; that
    /// is safe.
    async fn spend(&self, name: &str, lasts: Duration) -> Result<bool>;
}
