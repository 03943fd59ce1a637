//! Single-use names on Redis.

use std::time::Duration;

use super::RedisStore;
use super::scripts::{ScriptCall, scripts};
use crate::id::random_text;
use crate::store::Result;

impl RedisStore {
    pub(super) async fn spend_name(&self, name: &str, lasts: Duration) -> Result<bool> {
        // The link repeats what was cut off: the first caller is recognised, and nobody else is.
        let caller = random_text(12);
        let call = ScriptCall::new(&scripts().spend)
            .key(self.keys.spent(name, self.client.partitions()))
            .arg(&caller)
            .num((lasts.as_millis() as u64).max(1));
        Ok(self.run_durably(call).await?.optional_number()? == 1)
    }
}
