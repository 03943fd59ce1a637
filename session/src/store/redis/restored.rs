//! A Redis that was restored from a backup: what was handed out after that backup is not known
//! here, and must not be handed out again. Logs and inboxes have nonces for that. Tokens are
//! refused if they were issued before, and what is named by numbers alone gets a nonce from here
//! on.

use super::RedisStore;
use super::client::RedisClient;
use super::fault;
use super::scripts::{ScriptCall, scripts};
use crate::id::Nonce;
use crate::revocation::Revocation;
use crate::store::{Error, Result};

impl RedisStore {
    /// To be called after a restore, before gateways and workers start. It may be called again:
    /// then what was issued meanwhile is refused as well.
    pub async fn mark_restored(&self) -> Result<()> {
        let drawn = Nonce::random().to_string();
        let call = ScriptCall::new(&scripts().restored)
            .key(self.keys.restored())
            .arg(&drawn);
        self.run_durably(call).await?;
        self.revoke_subject(&Revocation::of_the_past()).await?;
        Ok(())
    }
}

/// Reads the nonce of the last restore. It is the same as long as this process runs: a restore is
/// made while none does.
pub(super) async fn read(client: &RedisClient, key: String) -> Result<Option<Nonce>> {
    let mut get = redis::cmd("GET");
    get.arg(&key);
    let drawn = match client.query(&get).await {
        Ok(found) => found.optional_text()?,
        // As of a user with the rules of an earlier version, of which the check of the format has
        // told.
        Err(Error::Broken(text)) if text.starts_with(fault::LACKS_PERMISSION) => None,
        Err(error) => return Err(error),
    };
    let drawn = drawn.and_then(|drawn| u32::from_str_radix(&drawn, 16).ok());
    Ok(drawn.map(Nonce))
}
