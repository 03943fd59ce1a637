//! What every answer says to browsers and caches, whatever it is the answer to.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

const ALWAYS: [(HeaderName, &str); 2] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
];
/// A year.
const HTTPS_ONLY: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// `secure`: the client came with https, and should never come without again.
pub fn harden(answer: &mut HeaderMap, secure: bool) {
    for (name, value) in ALWAYS {
        answer.insert(name, HeaderValue::from_static(value));
    }
    if !answer.contains_key(header::CACHE_CONTROL) {
        answer.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    if secure {
        answer.insert(header::STRICT_TRANSPORT_SECURITY, HTTPS_ONLY);
    }
}
