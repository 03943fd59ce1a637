//! All pages of a list, from the first to the last.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::client::OneShot;

pub struct Walk {
    pub entries: Vec<Entry>,
    /// Per page.
    pub times: Vec<Duration>,
}

pub struct Entry {
    session: String,
    /// RFC 3339 with milliseconds, in UTC: the order of the texts is that of the times.
    updated: String,
}

pub async fn walk(client: &mut OneShot) -> Result<Walk> {
    let (mut entries, mut times) = (Vec::new(), Vec::new());
    let mut params = json!({});
    loop {
        let page = client.ask("session/list", params).await?;
        times.push(page.took);
        let sessions = page.result["sessions"].as_array();
        for entry in sessions.context("a page without sessions")? {
            entries.push(Entry {
                session: text(entry, "sessionId")?,
                updated: text(entry, "updatedAt")?,
            });
        }
        match page.result.get("nextCursor") {
            Some(cursor) => params = json!({"cursor": cursor}),
            None => return Ok(Walk { entries, times }),
        }
    }
}

/// The first thing that is not as it should be: each known session once, nothing else, the latest first.
pub fn fault(entries: &[Entry], known: &HashSet<String>) -> Option<String> {
    let mut seen = HashSet::new();
    for (at, Entry { session, updated }) in entries.iter().enumerate() {
        if !known.contains(session) {
            return Some(format!("{session} is listed and nobody made it"));
        }
        if !seen.insert(session) {
            return Some(format!("{session} is listed twice"));
        }
        let before = at.checked_sub(1).map(|before| &entries[before]);
        if let Some(before) = before.filter(|before| before.updated < *updated) {
            return Some(format!(
                "{session} of {updated} comes after {} of {}",
                before.session, before.updated
            ));
        }
    }
    let missing = known.len() - seen.len();
    (missing > 0).then(|| format!("{missing} of {} sessions are not listed", known.len()))
}

fn text(entry: &Value, field: &str) -> Result<String> {
    let text = entry[field].as_str();
    let text = text.with_context(|| format!("an entry without {field}: {entry}"))?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_faulty(listed: &[(&str, &str)]) -> bool {
        let known = ["a", "b", "c"].map(str::to_owned).into();
        let entry = |(session, updated): &(&str, &str)| Entry {
            session: session.to_string(),
            updated: updated.to_string(),
        };
        let entries: Vec<_> = listed.iter().map(entry).collect();
        fault(&entries, &known).is_some()
    }

    #[test]
    fn every_session_once_and_the_latest_first_is_no_fault() {
        assert!(!is_faulty(&[("b", "3"), ("a", "2"), ("c", "2")]));
    }

    #[test]
    fn a_hole_a_repeat_a_stranger_and_a_wrong_order_are_faults() {
        assert!(is_faulty(&[("b", "3"), ("a", "2")]));
        assert!(is_faulty(&[("b", "3"), ("a", "2"), ("a", "2"), ("c", "1")]));
        assert!(is_faulty(&[("b", "3"), ("a", "2"), ("c", "2"), ("d", "1")]));
        assert!(is_faulty(&[("b", "2"), ("a", "3"), ("c", "1")]));
    }
}
