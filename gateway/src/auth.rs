//! Authentication of callers. Tokens name connections and sessions; the credential of each request
//! names the caller, and the two have to agree.
//!
//! That is its credential. Where a caller cannot send headers of its own, something stands for the
//! credential that was shown before: a `ticket` once, a `login` in the cookie of a browser.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, Method, header, request};
use baton_session::audit::AuditLog;
use baton_session::clock::unix_seconds;
use baton_session::store::Store;
use baton_session::token::{LoginAttempt, LoginToken, MAX_SKEW};
use tokio_util::sync::CancellationToken;

pub use self::api_keys::ApiKeys;
pub use self::bearer::{BearerOptions, BearerTokens, TokenType};
pub use self::oidc::OidcOptions;
pub use self::policy::{ClaimPolicy, ClaimRule};
use self::revocations::KnownRevocations;
pub use self::rights::CallerRights;
use self::token_cache::TokenCache;
use self::token_issuer::TokenIssuer;
use crate::error::GatewayError;
use crate::http::origins::AllowedOrigins;
use crate::http::{headers, paths};
use crate::limits::{CallerAllowance, LimitOverrides};

mod api_keys;
mod bearer;
mod dpop;
pub(crate) mod guest;
mod jwks;
pub(crate) mod login;
pub(crate) mod oidc;
mod policy;
mod provider_http;
pub mod revocations;
mod rights;
pub(crate) mod ticket;
pub mod token_cache;
pub mod token_issuer;

/// Everybody, where nobody is asked who they are.
pub const ANONYMOUS: &str = "anonymous";

/// Longer credentials are refused before anything is decoded.
const MAX_CREDENTIAL: usize = 8 << 10;

#[derive(Clone, Debug)]
pub struct Caller {
    /// Under which sessions are kept. Small enough for a token.
    pub principal: Arc<str>,
    /// When the credential expires, in seconds since 1970.
    pub expires: Option<u64>,
    /// The login that stands for the credential: what is open ends with it.
    pub login: Option<ActiveLogin>,
    /// Its limits and usage, if there are limits for it.
    pub allowance: Option<CallerAllowance>,
    pub credential: Arc<CallerCredential>,
    /// From where it calls.
    pub address: Option<IpAddr>,
}

/// The credential that the caller has presented, now or when it logged in.
#[derive(Debug, Default)]
pub struct CallerCredential {
    /// Which one it is, for people; no secret.
    pub name: String,
    /// By which a ticket or login says what it was made of.
    source: String,
    pub rights: CallerRights,
    /// It was taken back, or has other rights now: what is open with it ends.
    pub ended: CancellationToken,
}

#[derive(Clone, Debug)]
pub struct ActiveLogin {
    pub family: Arc<str>,
    /// It, or the ticket that it has asked for; in seconds since 1970.
    pub issued: u64,
}

impl Caller {
    /// For requests that are no JSON-RPC.
    pub fn count_request(&self) -> Result<(), GatewayError> {
        let refusal = self.allowance.as_ref().and_then(CallerAllowance::request);
        refusal.map_or(Ok(()), |refusal| Err(refusal.into()))
    }

    pub fn new(principal: Arc<str>, expires: Option<u64>) -> Self {
        Self {
            principal,
            expires,
            login: None,
            allowance: None,
            credential: Arc::default(),
            address: None,
        }
    }

    /// For requests that are no JSON-RPC.
    pub fn require_control(&self) -> Result<(), GatewayError> {
        if self.rights().observe {
            Err(GatewayError::ObserveOnly)
        } else {
            Ok(())
        }
    }

    pub fn rights(&self) -> &CallerRights {
        &self.credential.rights
    }

    pub fn anonymous() -> Self {
        Self::new(ANONYMOUS.into(), None)
    }
}

pub enum AuthMethod {
    /// Nobody is asked: for a gateway that only its own machine can reach.
    Open,
    Keys(ApiKeys),
    Jwt(Box<BearerTokens>),
}

/// The caller, and the single-use credential that the request consumes.
pub struct IdentifiedCaller {
    pub caller: Caller,
    pub once: Option<SingleUseCredential>,
}

impl From<Caller> for IdentifiedCaller {
    fn from(caller: Caller) -> Self {
        Self { caller, once: None }
    }
}

/// Valid for its first use, on whichever gateway. Asking the store costs it something, so
/// that comes after everything that may speak against the request.
pub struct SingleUseCredential {
    name: String,
    lasts: Duration,
    kind: SingleUseKind,
}

enum SingleUseKind {
    Ticket,
    /// With when it was made and when it ends, in seconds since 1970.
    Proof {
        made: u64,
        until: u64,
    },
}

/// Identifies the caller of a request.
pub struct Authenticator {
    pub method: AuthMethod,
    pub issuer: TokenIssuer,
    store: Arc<dyn Store>,
    /// Pages that may use the cookies of logins.
    origins: AllowedOrigins,
    /// Logins that were verified before.
    login_cache: TokenCache<LoginToken>,
}

impl Authenticator {
    pub fn new(
        method: AuthMethod,
        issuer: TokenIssuer,
        store: Arc<dyn Store>,
        origins: AllowedOrigins,
    ) -> Self {
        Self {
            method,
            issuer,
            store,
            origins,
            login_cache: TokenCache::default(),
        }
    }

    /// Nobody is asked who they are.
    pub fn is_open(&self) -> bool {
        matches!(self.method, AuthMethod::Open)
    }

    /// The tokens of an identity provider at whose page people log in.
    pub(crate) fn provider_tokens(&self) -> Option<&BearerTokens> {
        match &self.method {
            AuthMethod::Jwt(bearer) if bearer.provider_login().is_some() => Some(bearer),
            AuthMethod::Jwt(_) | AuthMethod::Open | AuthMethod::Keys(_) => None,
        }
    }

    /// An attempt to log in is good for the first answer of the provider, on whichever gateway.
    pub(crate) async fn spend_attempt(&self, attempt: &LoginAttempt) -> Result<bool, GatewayError> {
        let left = attempt.expires.saturating_sub(unix_seconds()) + MAX_SKEW;
        let name = format!("attempt {}", attempt.state);
        Ok(self.store.spend(&name, Duration::from_secs(left)).await?)
    }

    fn revocations(&self) -> &KnownRevocations {
        &self.issuer.revocations
    }

    /// An explicit credential takes precedence over everything else. A ticket is explicit, too,
    /// while a browser sends its cookie with every request.
    pub async fn identify(
        &self,
        request: &request::Parts,
    ) -> Result<IdentifiedCaller, GatewayError> {
        let headers = &request.headers;
        let identified = if self.is_open() {
            Ok(Caller::anonymous().into())
        } else if headers.contains_key(header::AUTHORIZATION) {
            self.method.check(request).await
        } else if request.method == Method::GET
            && (request.uri.path() == paths::ACP || paths::agent_in_path(&request.uri).is_some())
            && headers::wants_websocket(headers)
            && let Some(ticket) = ticket::offered(headers)?
        {
            ticket::redeem(self, ticket)
        } else if let Some(token) = login::presented(self, request) {
            login::check(self, token)
                .map(Into::into)
                .map_err(GatewayError::from)
        } else {
            Err(AuthFailure::because("no credential").into())
        };
        identified.map_err(|error| match (&self.method, error) {
            (AuthMethod::Jwt(bearer), GatewayError::Unauthenticated) if bearer.requires_proof() => {
                GatewayError::Unbound
            }
            (_, error) => error,
        })
    }

    /// A single-use credential is good for the first who presents it, on whichever gateway.
    pub async fn spend(&self, once: SingleUseCredential) -> Result<(), GatewayError> {
        let is_first = self.store.spend(&once.name, once.lasts).await?;
        match (once.kind, &self.method) {
            (SingleUseKind::Proof { made, until }, AuthMethod::Jwt(bearer)) => {
                // A store that was restored does not know all that were used before.
                let is_first = is_first && !self.revocations().predates_restore(made);
                bearer.spent(&once.name, until, is_first)
            }
            _ if is_first => Ok(()),
            _ => Err(AuthFailure::because("a ticket that was used").into()),
        }
    }
}

impl AuthMethod {
    /// The credential itself.
    async fn check(&self, request: &request::Parts) -> Result<IdentifiedCaller, GatewayError> {
        match self {
            Self::Open => Ok(Caller::anonymous().into()),
            Self::Keys(keys) => match credential(&request.headers)? {
                (AuthScheme::Bearer, key) => Ok(keys.identify(key)?.into()),
                (AuthScheme::Dpop, _) => Err(AuthFailure::because("an API key is a bearer").into()),
            },
            Self::Jwt(bearer) => bearer.identify(request).await,
        }
    }

    /// The caller that a ticket or login stands for, with the rights and the end of the credential
    /// it was made of. It is refused if the authentication method has changed since, if its API key
    /// is gone, or if its token was judged by other rules.
    fn recall(
        &self,
        principal: &str,
        source: Option<&str>,
        expires: Option<u64>,
    ) -> Result<Caller, AuthFailure> {
        let known = source.and_then(|source| match self {
            Self::Open => None,
            Self::Keys(keys) => keys.recall(principal, source),
            Self::Jwt(bearer) => bearer.recall(principal, source),
        });
        let mut caller =
            known.ok_or_else(|| AuthFailure::because("no such credential any more"))?;
        caller.expires = [caller.expires, expires].into_iter().flatten().min();
        Ok(caller)
    }

    /// Limits that are the principal's own.
    pub fn limits(&self, principal: &str) -> Option<Arc<LimitOverrides>> {
        match self {
            Self::Keys(keys) => keys.limits(principal),
            Self::Open | Self::Jwt(_) => None,
        }
    }

    /// Follows changes of its files and key sets until the process stops.
    pub async fn watch(&self, stop: CancellationToken, audit: AuditLog) {
        match self {
            Self::Open => {}
            Self::Keys(keys) => keys.watch(stop, audit).await,
            Self::Jwt(bearer) => bearer.watch(stop).await,
        }
    }
}

/// Why a caller is not let in.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct AuthFailure(String);

impl AuthFailure {
    fn because(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// Which of the many ways to be wrong it was is for the log.
impl From<AuthFailure> for GatewayError {
    fn from(why: AuthFailure) -> Self {
        tracing::debug!(%why, "refused a caller");
        Self::Unauthenticated
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuthScheme {
    Bearer,
    Dpop,
}

/// The one `Authorization: Bearer …` or `DPoP …`.
pub(crate) fn credential(headers: &HeaderMap) -> Result<(AuthScheme, &str), AuthFailure> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next().ok_or(AuthFailure::because("no credential"))?;
    if values.next().is_some() {
        return Err(AuthFailure::because("two credentials"));
    }
    let text = value
        .to_str()
        .map_err(|_| AuthFailure::because("not ASCII"))?;
    let (scheme, credential) = text.split_once(' ').unwrap_or((text, ""));
    let scheme = match scheme.to_ascii_lowercase().as_str() {
        "bearer" => AuthScheme::Bearer,
        "dpop" => AuthScheme::Dpop,
        _ => return Err(AuthFailure::because("neither Bearer nor DPoP")),
    };
    let credential = credential.trim_start();
    if credential.is_empty() {
        return Err(AuthFailure::because("an empty credential"));
    }
    if credential.len() > MAX_CREDENTIAL {
        return Err(AuthFailure::because("too long"));
    }
    Ok((scheme, credential))
}
