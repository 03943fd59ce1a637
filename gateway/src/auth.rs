//! Who calls. Tokens name connections and sessions; what a caller brings along with every request says
//! who it is, and the two have to agree.

use std::sync::Arc;

use axum::http::{HeaderMap, header};
use tokio_util::sync::CancellationToken;

pub use self::api_keys::ApiKeys;
pub use self::bearer::{Bearer, BearerOptions};
use crate::error::Reject;
use crate::limits::{Allowance, OwnLimits};

mod api_keys;
mod bearer;
mod jwks;

/// Everybody, where nobody is asked who they are.
pub const ANONYMOUS: &str = "anonymous";

/// Longer credentials are refused before anything is decoded.
const MAX_CREDENTIAL: usize = 8 << 10;

#[derive(Clone, Debug)]
pub struct Caller {
    /// Under which sessions are kept. Small enough for a token.
    pub principal: Arc<str>,
    /// When what the caller brought loses its validity, in seconds since 1970.
    pub expires: Option<u64>,
    /// What it may take, and has taken, if there are limits for it.
    pub allowance: Option<Allowance>,
}

impl Caller {
    pub fn new(principal: Arc<str>, expires: Option<u64>) -> Self {
        Self {
            principal,
            expires,
            allowance: None,
        }
    }

    pub fn anonymous() -> Self {
        Self::new(ANONYMOUS.into(), None)
    }
}

pub enum Auth {
    /// Nobody is asked: for a gateway that only its own machine can reach.
    Open,
    Keys(ApiKeys),
    Jwt(Box<Bearer>),
}

impl Auth {
    /// With the limits that are the caller's own.
    pub async fn identify(
        &self,
        headers: &HeaderMap,
    ) -> Result<(Caller, Option<Arc<OwnLimits>>), Reject> {
        let identified = match self {
            Self::Open => return Ok((Caller::anonymous(), None)),
            Self::Keys(keys) => credential(headers).and_then(|key| keys.identify(key)),
            Self::Jwt(bearer) => match credential(headers) {
                Ok(token) => bearer.identify(token).await.map(|caller| (caller, None)),
                Err(why) => Err(why),
            },
        };
        // Which of the many ways to be wrong it was is for the log.
        identified.map_err(|why| {
            tracing::debug!(%why, "refused a caller");
            Reject::Unauthenticated
        })
    }

    /// Follows changes of its files and key sets until the process stops.
    pub async fn watch(&self, stop: CancellationToken) {
        match self {
            Self::Open => {}
            Self::Keys(keys) => keys.watch(stop).await,
            Self::Jwt(bearer) => bearer.watch(stop).await,
        }
    }
}

/// Why a caller is not let in.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Stranger(String);

impl Stranger {
    fn because(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// The one `Authorization: Bearer …`.
fn credential(headers: &HeaderMap) -> Result<&str, Stranger> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next().ok_or(Stranger::because("no credential"))?;
    if values.next().is_some() {
        return Err(Stranger::because("two credentials"));
    }
    let text = value.to_str().map_err(|_| Stranger::because("not ASCII"))?;
    let (scheme, credential) = text.split_once(' ').unwrap_or((text, ""));
    let credential = credential.trim_start();
    if !scheme.eq_ignore_ascii_case("bearer") || credential.is_empty() {
        return Err(Stranger::because("not a bearer credential"));
    }
    if credential.len() > MAX_CREDENTIAL {
        return Err(Stranger::because("too long"));
    }
    Ok(credential)
}
