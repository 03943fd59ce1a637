//! The answer to `session/new`, which a worker wrote: with a token that only a gateway can sign.

use baton_protocol::{Envelope, compose};
use bytes::Bytes;
use serde_json::{Value, json};

use super::SessionFeed;

/// Signed when it is delivered, so that no token is ever stored.
pub fn with_token(feed: &SessionFeed, answer: &Bytes) -> Bytes {
    // A session that only carries a login is opened to nobody.
    let read = Envelope::read(answer).ok();
    let result = read.and_then(|answer| answer.result);
    if !result.is_some_and(|result| result.get().contains("\"sessionId\"")) {
        return answer.clone();
    }
    let meta = || feed.issuer.meta(&feed.session, &feed.principal, feed.scope);
    add(answer, meta).unwrap_or_else(|| answer.clone())
}

/// `None` for an error, which opens nothing.
pub fn add(answer: &Bytes, meta: impl FnOnce() -> Option<Value>) -> Option<Bytes> {
    let answer = Envelope::read(answer).ok()?;
    let result = with_meta(answer.result?.get().as_bytes(), &meta()?);
    Some(compose::result(answer.id()?, &result))
}

/// An object with more fields in its `_meta`.
pub fn with_meta(result: &[u8], meta: &Value) -> Bytes {
    let mut whole: Value = serde_json::from_slice(result).unwrap_or_default();
    if !whole.is_object() {
        whole = json!({});
    }
    let kept = &mut whole["_meta"];
    match (kept.as_object_mut(), meta.as_object()) {
        (Some(kept), Some(meta)) => kept.extend(meta.clone()),
        _ => *kept = meta.clone(),
    }
    whole.to_string().into()
}
