//! The query of a request's address.

use std::borrow::Cow;

/// Names and values, decoded.
pub fn pairs(query: &str) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    url::form_urlencoded::parse(query.as_bytes())
}
