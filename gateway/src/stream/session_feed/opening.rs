//! The answer to `session/new`, which a worker wrote: with a token that only a gateway can sign.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::SessionFeed;
use crate::rpc;

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow)]
    result: &'a RawValue,
}

/// Signed when it is delivered, so that no token is ever stored.
pub fn with_token(feed: &SessionFeed, answer: &Bytes) -> Bytes {
    let meta = || feed.mint.meta(&feed.session, &feed.principal, feed.scope);
    add(answer, meta).unwrap_or_else(|| answer.clone())
}

/// `None` for an error, which opens nothing.
pub fn add(answer: &Bytes, meta: impl FnOnce() -> Option<Value>) -> Option<Bytes> {
    let answer: Answer = serde_json::from_slice(answer).ok()?;
    let result = rpc::with_meta(answer.result.get().as_bytes(), &meta()?);
    Some(rpc::result(answer.id.get(), &result))
}
