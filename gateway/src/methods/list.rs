//! `session/list`: the caller's own sessions, newest first, a page at a time.

use std::time::{Duration, UNIX_EPOCH};

use baton_protocol::{LOGIN_DIRECTORY, compose, meta};
use baton_session::store::{ListRequest, SessionSummary};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::{MethodCall, MethodError, MethodOutcome, invalid, params};

const PAGE: usize = 50;

impl MethodCall<'_> {
    pub(super) async fn list(&self) -> Result<MethodOutcome, MethodError> {
        let page = params::page(self.message.inbound)?;
        self.check_outbox().await?;
        let principal = &self.connection.principal;
        let scope = scope(principal, page.cwd.as_deref());
        let after = match page.cursor {
            None => None,
            Some(cursor) => {
                let place = self
                    .services
                    .issuer
                    .keys
                    .ring()
                    .verify_list_position(&cursor, &scope);
                Some(place.map_err(|_| {
                    invalid(
                        "params.cursor is not the nextCursor of a page of this list: start again \
                         without it",
                    )
                })?)
            }
        };
        let listing = ListRequest {
            principal: principal.clone(),
            cwd: page.cwd,
            after,
            // One more tells whether there is another page.
            limit: PAGE + 1,
        };
        let mut found = self.services.store.list(&listing).await?;
        let more = found.len() > PAGE;
        found.truncate(PAGE);
        let mut entries = Vec::new();
        // One that carries a login is nothing to list.
        let listed = found
            .iter()
            .filter(|summary| summary.cwd != LOGIN_DIRECTORY);
        for summary in listed {
            if self.may_use(&summary.place.session).await? {
                entries.push(entry(summary));
            }
        }
        let mut result = json!({ "sessions": entries });
        if let Some(last) = found.last().filter(|_| more) {
            result["nextCursor"] = json!(
                self.services
                    .issuer
                    .keys
                    .ring()
                    .sign_list_position(&last.place, &scope)
            );
        }
        Ok(self.answer_now(compose::result(self.id(), result.to_string().as_bytes())))
    }
}

/// A cursor is good for the list it came from and no other.
fn scope(principal: &str, cwd: Option<&str>) -> String {
    format!("{principal}\n{}", cwd.unwrap_or_default())
}

/// 9999-12-31T23:59:59.999Z: no later moment can be written.
const LAST_MOMENT: u64 = 253_402_300_799_999;

fn entry(summary: &SessionSummary) -> Value {
    let updated = summary.place.updated.min(LAST_MOMENT);
    let updated = UNIX_EPOCH + Duration::from_millis(updated);
    let mut entry = json!({
        "sessionId": summary.place.session,
        "cwd": summary.cwd,
        "updatedAt": humantime::format_rfc3339_millis(updated).to_string(),
    });
    if !summary.title.is_empty() {
        entry["title"] = json!(summary.title);
    }
    if let Some(directories) = given(&summary.directories) {
        entry["additionalDirectories"] = directories;
    }
    if let Some(usage) = given(&summary.usage) {
        entry["_meta"] = Value::Object(Map::from_iter([(meta::USAGE.to_owned(), usage)]));
    }
    entry
}

fn given(json: &[u8]) -> Option<Value> {
    let raw: &RawValue = serde_json::from_slice(json).ok()?;
    serde_json::from_str(raw.get()).ok()
}

#[cfg(test)]
mod tests {
    use baton_session::id::{Partition, SessionId};
    use baton_session::store::ListPosition;

    use super::*;

    #[test]
    fn every_moment_can_be_written() {
        for (updated, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (LAST_MOMENT, "9999-12-31T23:59:59.999Z"),
            (LAST_MOMENT + 1, "9999-12-31T23:59:59.999Z"),
            (u64::MAX, "9999-12-31T23:59:59.999Z"),
        ] {
            let session = SessionId::mint(Partition(0));
            let entry = entry(&SessionSummary {
                place: ListPosition { updated, session },
                cwd: "/tmp".into(),
                title: String::new(),
                directories: Default::default(),
                usage: Default::default(),
            });
            assert_eq!(entry["updatedAt"], expected);
        }
    }
}
