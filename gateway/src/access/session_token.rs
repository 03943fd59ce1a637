//! Session tokens: verified when they are presented, handed out with answers, and renewed.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use baton_protocol::header as names;
use baton_session::clock::unix_seconds;
use baton_session::id::SessionId;
use baton_session::revocation::{Revocation, RevocationCause, RevocationSubject};
use baton_session::token::{
    MAX_TOKEN_BYTES, SESSION_LIFETIME, SessionGrant, TokenRefusal, TokenScope, carriers,
};

use super::{AccessControl, PresentedToken, RequestAccess};
use crate::auth::Caller;

pub const SESSION_TOKEN: HeaderName = HeaderName::from_static(names::SESSION_TOKEN);
/// How long a token is good after it was renewed, in seconds.
const OVERLAP: u64 = 120;

impl AccessControl {
    pub(super) fn check_token(&self, caller: &Caller, token: &str) -> PresentedToken {
        let verified = self.verify_session_token(caller, token);
        verified.map_or_else(|why| self.refused_token(why), PresentedToken::Valid)
    }

    pub(super) fn refused_token(&self, why: &'static str) -> PresentedToken {
        self.metrics.token_refused(why);
        PresentedToken::Invalid
    }

    /// Or why it is no good, for logs and metrics.
    pub(super) fn verify_session_token(
        &self,
        caller: &Caller,
        token: &str,
    ) -> Result<Box<SessionGrant>, &'static str> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(TokenRefusal::TooLong.reason());
        }
        let keys = &self.issuer.keys;
        let version = keys.version();
        let grant = match self.grant_cache.get(token, version) {
            Some(grant) => grant,
            None => match keys.ring().verify_session(token) {
                Ok(grant) => {
                    let expires = grant.expires;
                    self.grant_cache.put(token, grant.clone(), expires, version);
                    grant
                }
                Err(why) => return Err(why.reason()),
            },
        };
        if *grant.principal != *caller.principal {
            return Err("foreign");
        }
        let session = Some((&grant.session, grant.issued));
        let revocations = &self.issuer.revocations;
        if revocations.is_revoked(&grant.principal, None, session)
            || revocations.is_revoked(grant.owner(), None, session)
            || revocations.is_family_revoked(&grant.family, grant.generation)
        {
            return Err("revoked");
        }
        Ok(Box::new(grant))
    }

    /// Puts a new token for `session` on the answer to the request that opened it.
    pub fn stamp_token(
        &self,
        session: &SessionId,
        access: &RequestAccess,
        browser: bool,
        answer: &mut HeaderMap,
    ) {
        if access.scope() == TokenScope::Control {
            let principal = &access.connection.principal;
            let grant = self.issuer.grant(session, principal, TokenScope::Control);
            self.put_token(&grant, browser, answer);
        }
    }

    /// A token past half of its life is renewed with the answer to whatever it came with. The one
    /// before it stays good for a while, for requests that are under way. One that lets its holder
    /// only watch was given for a time, and ends with it.
    pub async fn renew_token(&self, access: &RequestAccess, browser: bool, answer: &mut HeaderMap) {
        let PresentedToken::Valid(grant) = &access.grant else {
            return;
        };
        let now = unix_seconds();
        let due = access.scope() == TokenScope::Control && grant.wants_renewal(now);
        // It may be revoked by now.
        if !due || self.issuer.revocations.may_be_incomplete() {
            return;
        }
        let renewed = grant.renewed(now, SESSION_LIFETIME);
        let revocation = Revocation {
            subject: RevocationSubject::Family {
                family: grant.family.clone(),
                below: renewed.generation,
            },
            before: now,
            from: now + OVERLAP,
            until: grant.expires,
            asker: None,
        }
        .asked_by(RevocationCause::Renewal, &grant.principal);
        // The request is done by now and must not fail because of this. The next one renews.
        match self.store.revoke(&revocation).await {
            Ok(true) => self.put_token(&renewed, browser, answer),
            Ok(false) => tracing::debug!("its caller has renewed too many session tokens"),
            Err(error) => tracing::debug!(%error, "could not renew a session token"),
        }
    }

    fn put_token(&self, grant: &SessionGrant, browser: bool, answer: &mut HeaderMap) {
        let token = self.issuer.sign(grant);
        let mut value = HeaderValue::from_str(token.expose()).expect("a token is visible ASCII");
        value.set_sensitive(true);
        answer.insert(SESSION_TOKEN, value);
        if browser {
            let lifetime = grant.expires.saturating_sub(unix_seconds());
            let cookie = carriers::set_cookie(&grant.session, &token, lifetime);
            let mut value = HeaderValue::from_str(&cookie).expect("a cookie is visible ASCII");
            value.set_sensitive(true);
            answer.append(header::SET_COOKIE, value);
        }
        // Nobody in between keeps it, be it on a stream, which says less by itself.
        let no_store = HeaderValue::from_static("no-store");
        answer.insert(header::CACHE_CONTROL, no_store);
    }
}

/// The session is over: browsers drop its cookie.
pub fn clear_cookie(session: &SessionId, answer: &mut HeaderMap) {
    let cookie = carriers::clear_cookie(session);
    let value = HeaderValue::from_str(&cookie).expect("a cookie is visible ASCII");
    answer.append(header::SET_COOKIE, value);
}
