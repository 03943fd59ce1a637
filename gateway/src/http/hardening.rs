//! Headers for browsers and caches on every answer.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_not_kept_unless_they_say_so_and_https_is_for_good() {
        let hardened = |kept: Option<&'static str>, secure: bool| {
            let mut answer = HeaderMap::new();
            if let Some(kept) = kept {
                answer.insert(header::CACHE_CONTROL, HeaderValue::from_static(kept));
            }
            harden(&mut answer, secure);
            answer
        };
        let plain = hardened(None, false);
        assert_eq!(plain[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(plain[header::REFERRER_POLICY], "no-referrer");
        assert_eq!(plain[header::CACHE_CONTROL], "no-store");
        assert!(!plain.contains_key(header::STRICT_TRANSPORT_SECURITY));
        let kept = hardened(Some("max-age=60"), true);
        assert_eq!(kept[header::CACHE_CONTROL], "max-age=60");
        assert!(kept.contains_key(header::STRICT_TRANSPORT_SECURITY));
    }
}
