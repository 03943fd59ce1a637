//! How a session token travels: in a header, in `_meta`, and for browsers in a cookie. And the
//! cookie of a login, the only way that one travels.
//!
//! Clients keep cookies as they please: some never expire them, some send what was deleted as an
//! empty value. So nothing is concluded from a cookie's absence, and its Max-Age is a hint.

use crate::id::SessionId;
use crate::secret::Secret;

/// `__Host-`: a browser takes it only from this very host, over TLS, for all paths. No sibling
/// domain can plant one.
const PREFIX: &str = "__Host-acp-session-";
const NAME_CHARS: usize = 8;
const LOGIN: &str = "__Host-baton-login";
const ATTEMPT: &str = "__Host-baton-attempt";

/// One cookie per session; the name says which as far as is needed to tell them apart.
fn cookie_name(session: &SessionId) -> String {
    let (_, random) = session.as_str().split_once('-').unwrap_or_default();
    format!("{PREFIX}{}", &random[..NAME_CHARS])
}

/// The value of a `Set-Cookie` header.
pub fn set_cookie(session: &SessionId, token: &Secret, max_age: u64) -> String {
    cookie(&cookie_name(session), token.expose(), max_age)
}

pub fn clear_cookie(session: &SessionId) -> String {
    cookie(&cookie_name(session), "", 0)
}

pub fn set_login(token: &Secret, max_age: u64) -> String {
    cookie(LOGIN, token.expose(), max_age)
}

pub fn clear_login() -> String {
    cookie(LOGIN, "", 0)
}

fn cookie(name: &str, value: &str, max_age: u64) -> String {
    format!("{name}={value}; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age={max_age}")
}

/// The identity provider's page leads back from elsewhere, so that has to bring it.
pub fn set_attempt(token: &Secret, max_age: u64) -> String {
    let token = token.expose();
    format!("{ATTEMPT}={token}; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age={max_age}")
}

pub fn clear_attempt() -> String {
    set_attempt(&Secret::from(String::new()), 0)
}

/// The session's token among the values of all `Cookie` headers.
pub fn cookie_value<'a>(
    headers: impl IntoIterator<Item = &'a str>,
    session: &SessionId,
) -> Option<&'a str> {
    find(headers, &cookie_name(session))
}

/// The login among them.
pub fn login_value<'a>(headers: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    find(headers, LOGIN)
}

/// The attempt to log in among them.
pub fn attempt_value<'a>(headers: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    find(headers, ATTEMPT)
}

/// Of two cookies of the name one was put there by somebody else: neither counts.
fn find<'a>(headers: impl IntoIterator<Item = &'a str>, name: &str) -> Option<&'a str> {
    let pairs = headers.into_iter().flat_map(|header| header.split(';'));
    let mut values = pairs
        .filter_map(|pair| pair.trim_matches([' ', '\t']).split_once('='))
        .filter(|(key, _)| *key == name)
        .map(|(_, value)| value);
    match (values.next(), values.next()) {
        (Some(value), None) if !value.is_empty() => Some(value),
        _ => None,
    }
}

/// Two carriers of one request bring different tokens. No guess is made which one is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request carries different session tokens")]
pub struct ConflictingTokens;

/// The one token that all carriers bring which bring any.
pub fn agree<'a>(
    header: Option<&'a str>,
    meta: Option<&'a str>,
    cookie: Option<&'a str>,
) -> Result<Option<&'a str>, ConflictingTokens> {
    let mut brought = [header, meta, cookie].into_iter().flatten();
    let first = brought.next();
    if brought.all(|token| Some(token) == first) {
        Ok(first)
    } else {
        Err(ConflictingTokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> SessionId {
        SessionId::parse("07a-abcdefghijklmnopqrstuv").unwrap()
    }

    #[test]
    fn a_cookie_is_set_and_cleared_with_the_same_attributes() {
        let token = Secret::from("a.b.c".to_owned());
        let rest = "Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age";
        assert_eq!(
            set_cookie(&session(), &token, 3600),
            format!("__Host-acp-session-abcdefgh=a.b.c; {rest}=3600")
        );
        assert_eq!(
            clear_cookie(&session()),
            format!("__Host-acp-session-abcdefgh=; {rest}=0")
        );
    }

    #[test]
    fn the_cookie_of_the_session_is_found_among_others() {
        let found = |headers: &[&'static str]| cookie_value(headers.iter().copied(), &session());
        let mine = "__Host-acp-session-abcdefgh=a.b.c";
        assert_eq!(found(&[mine]), Some("a.b.c"));
        assert_eq!(
            found(&["x=1;  __Host-acp-session-abcdefgh=a.b.c ; y"]),
            Some("a.b.c")
        );
        assert_eq!(
            found(&["__Host-acp-session-other123=z", mine]),
            Some("a.b.c")
        );
        assert_eq!(found(&["", "x=1"]), None);
    }

    #[test]
    fn two_of_one_name_are_ignored_an_empty_one_is_none() {
        let found = |headers: &[&'static str]| cookie_value(headers.iter().copied(), &session());
        let mine = "__Host-acp-session-abcdefgh=a";
        assert_eq!(found(&[mine, "__Host-acp-session-abcdefgh=b"]), None);
        assert_eq!(found(&[mine, mine]), None);
        assert_eq!(
            found(&["__Host-acp-session-abcdefgh=a; __Host-acp-session-abcdefgh="]),
            None
        );
        assert_eq!(found(&["__Host-acp-session-abcdefgh="]), None);
        for alike in [
            "acp-session-abcdefgh=a",
            "__host-acp-session-abcdefgh=a",
            "__Host-acp-session-abcdefgh",
            "x__Host-acp-session-abcdefgh=a",
            "__Host-acp-session-abcdefghi=a",
        ] {
            assert_eq!(found(&[alike]), None, "{alike}");
        }
    }

    #[test]
    fn a_login_is_a_cookie_of_its_own() {
        let token = Secret::from("a.b.c".to_owned());
        let rest = "Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age";
        let expected = format!("__Host-baton-login=a.b.c; {rest}=9");
        assert_eq!(set_login(&token, 9), expected);
        assert_eq!(clear_login(), format!("__Host-baton-login=; {rest}=0"));
        let mine = "__Host-baton-login=a.b.c";
        assert_eq!(login_value(["x=1", mine]), Some("a.b.c"));
        for none in [
            ["", "baton-login=a"],
            [mine, mine],
            [mine, "__Host-baton-login="],
        ] {
            assert_eq!(login_value(none), None);
        }
    }

    #[test]
    fn an_attempt_comes_back_from_elsewhere_and_a_login_does_not() {
        let token = Secret::from("a.b.c".to_owned());
        let rest = "Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age";
        let expected = format!("__Host-baton-attempt=a.b.c; {rest}=9");
        assert_eq!(set_attempt(&token, 9), expected);
        assert_eq!(clear_attempt(), format!("__Host-baton-attempt=; {rest}=0"));
        assert_eq!(attempt_value(["__Host-baton-attempt=a.b.c"]), Some("a.b.c"));
        assert_eq!(attempt_value(["__Host-baton-login=a.b.c"]), None);
    }

    #[test]
    fn what_is_there_must_agree() {
        let (a, b) = (Some("a"), Some("b"));
        assert_eq!(agree(None, None, None), Ok(None));
        for (header, meta, cookie) in [(a, None, None), (None, a, a), (a, a, a), (None, None, a)] {
            assert_eq!(agree(header, meta, cookie), Ok(a));
        }
        for (header, meta, cookie) in [(a, b, None), (a, None, b), (None, a, b), (a, a, b)] {
            assert_eq!(agree(header, meta, cookie), Err(ConflictingTokens));
        }
    }
}
