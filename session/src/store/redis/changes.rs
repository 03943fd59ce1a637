//! The changes of an append beside the log, as the script takes them, and whether it must be
//! durable.

use bytes::Bytes;

use crate::command::IdempotencyKey;
use crate::event::Event;
use crate::settings_history;
use crate::store::{AnsweredRequest, AppendRequest, REMEMBERED_KEYS_IN_ALL};

pub(super) fn changes(append: &AppendRequest) -> Vec<(&'static str, Bytes)> {
    let mut changes = Vec::new();
    for (seq, event) in (append.first..).zip(&append.events) {
        match event {
            Event::Begin(begin) => {
                let value = format!(
                    "{seq} {} {} {}",
                    begin.command,
                    begin.connection,
                    begin.via.letter()
                );
                changes.push(("begin", value.into()));
            }
            Event::Response { to, turn: true, .. } => {
                changes.push(("end", format!("{seq} {}", to.connection).into()));
            }
            Event::Control { by, via, .. } => {
                changes.push(("control", format!("{seq} {by} {}", via.letter()).into()));
            }
            _ => {}
        }
    }
    let requests = append.requests.iter();
    changes.extend(requests.map(|request| ("request", packed(request))));
    let shown = settings_history::added((append.first..).zip(&append.events));
    if !shown.is_empty() {
        changes.push(("shown", shown.into()));
    }
    changes.extend(append.state.clone().map(|state| ("state", state)));
    changes.extend(append.view.clone().map(|view| ("view", view)));
    changes.extend(append.title.clone().map(|title| ("title", title.into())));
    changes.extend(append.usage.clone().map(|usage| ("usage", usage)));
    changes.extend(append.bound.clone().map(|bound| ("bound", bound)));
    changes.extend(append.pending.as_ref().map(|pending| {
        let numbers: Vec<String> = pending.iter().map(u64::to_string).collect();
        ("pend", numbers.join(",").into())
    }));
    changes
}

/// As `append.lua` unpacks it.
fn packed(request: &AnsweredRequest) -> Bytes {
    let key = IdempotencyKey::key_bytes(&request.key.key).unwrap_or_default();
    let mut packed = Vec::with_capacity(35);
    packed.extend(key);
    packed.extend(request.key.fingerprint_bytes());
    packed.extend(request.via.letter().bytes());
    packed.extend(request.connection.key_owner().to_be_bytes());
    packed.extend(request.command.nonce.to_be_bytes());
    packed.extend(&request.command.number.to_be_bytes()[2..]);
    packed.extend((REMEMBERED_KEYS_IN_ALL as u32).to_be_bytes());
    packed.into()
}

/// Whether others act on it: what a turn answered or asks, that it began, that a command is done,
/// what has to be released in the end. The words in between are written again by whoever takes the
/// turn over.
pub(super) fn must_last(append: &AppendRequest) -> bool {
    let lasting = |event: &Event| {
        matches!(
            event,
            Event::Begin(_) | Event::Request { .. } | Event::Response { .. }
        )
    };
    append.confirmed
        || !append.acks.is_empty()
        || append.bound.is_some()
        || append.events.iter().any(lasting)
}
