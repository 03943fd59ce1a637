//! Revocations on Redis, in a slot of their own.

use super::RedisStore;
use super::scripts::{ScriptCall, scripts};
use crate::clock::unix_millis;
use crate::revocation::Revocation;
use crate::store::Result;

/// So many are read in one step.
const PAGE: u64 = 1000;

impl RedisStore {
    pub(super) async fn revoke_subject(&self, revocation: &Revocation) -> Result<bool> {
        let (subject, text) = (revocation.subject.to_string(), revocation.text());
        let asker = revocation.asker.as_ref();
        let asked = asker.map(|asker| asker.asked.letter().to_string());
        let asked = asked.unwrap_or_default();
        let principal = asker.map_or("", |asker| &asker.principal);
        let budget = asker.map_or(0, |asker| asker.asked.budget());
        let call = ScriptCall::new(&scripts().revoke)
            .key(self.keys.revoked())
            .key(self.keys.revoked_until())
            .key(self.keys.revoked_by(&asked, principal))
            .arg(&subject)
            .arg(&text)
            .num(revocation.before)
            .num(revocation.from)
            .num(revocation.until)
            .num(unix_millis() / 1000)
            .arg(&asked)
            .arg(principal)
            .num(budget as u64);
        Ok(self.run_durably(call).await?.optional_number()? == 1)
    }

    pub(super) async fn all_revocations(&self) -> Result<Vec<Revocation>> {
        let now = unix_millis() / 1000;
        let mut found = Vec::new();
        let mut cursor = "0".to_owned();
        loop {
            let call = ScriptCall::new(&scripts().revocations)
                .key(self.keys.revoked())
                .key(self.keys.revoked_until())
                .arg(&cursor)
                .num(PAGE);
            let mut items = self.run(call).await?.items()?;
            let next = items.text()?;
            while let Some(text) = items.next_text()? {
                let read = Revocation::from_text(&text);
                found.extend(read.filter(|revocation| revocation.until > now));
            }
            if next == "0" {
                return Ok(found);
            }
            cursor = next;
        }
    }
}
