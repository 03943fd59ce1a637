//! Logins at the page of an identity provider (OpenID Connect: authorisation code with PKCE), for
//! pages, which never hold a token. Of an attempt only its browser keeps something: any gateway
//! finishes it.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Uri;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use baton_session::secret::Secret;
use baton_session::token::LoginAttempt;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tokio::sync::{Mutex, Semaphore};
use tokio::time::Instant;
use url::Url;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::provider_http::{ProviderHttp, is_private};
use super::{AuthFailure, BearerTokens, Caller};

/// Where the provider sends the browser back to, at the page's origin.
pub const CALLBACK: &str = "/v1/login/oidc/callback";

/// What the provider says of itself is read again after so long.
const REFRESH: Duration = Duration::from_secs(3600);
/// Codes that are redeemed at once. Strangers can make up codes, and each is asked for.
const EXCHANGES: usize = 32;

#[derive(Clone, Debug)]
pub struct OidcOptions {
    pub client: String,
    /// For providers that want one beside PKCE.
    pub secret: Option<Secret>,
    pub scope: String,
    /// Further parameters of the authorisation request.
    pub parameters: Vec<(String, String)>,
}

/// Why a login failed, as far as the page is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginFault {
    /// This browser has begun no such attempt, or too long ago.
    Expired,
    /// The attempt has had its answer.
    Used,
    /// The provider has refused it, or its user.
    Denied,
    /// The provider does not answer as it should.
    Provider,
    /// Its access token is none that this gateway takes.
    Token,
    /// The caller is known and may not use this gateway.
    Forbidden,
    /// Too many log in at once, or this caller too often.
    Busy,
}

impl LoginFault {
    pub fn name(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Used => "used",
            Self::Denied => "denied",
            Self::Provider => "provider",
            Self::Token => "token",
            Self::Forbidden => "forbidden",
            Self::Busy => "busy",
        }
    }

    /// The ID token is not as it should be.
    pub(super) fn identity(why: AuthFailure) -> Self {
        tracing::warn!(%why, "refused an ID token of the identity provider");
        Self::Provider
    }

    fn of_provider(fault: impl std::fmt::Display) -> Self {
        tracing::warn!(%fault, "nobody can log in at the identity provider");
        Self::Provider
    }
}

pub(crate) struct ProviderLogin {
    issuer: String,
    options: OidcOptions,
    http: ProviderHttp,
    /// Held while somebody asks for it.
    endpoints: Mutex<Option<(Instant, Arc<ProviderEndpoints>)>>,
    exchanges: Semaphore,
}

/// Of OpenID Connect Discovery.
#[derive(Deserialize)]
struct ProviderEndpoints {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Vec<String>,
}

/// What the provider answers to a code.
#[derive(Deserialize)]
pub(super) struct ProviderTokens {
    pub access_token: String,
    pub id_token: String,
}

#[derive(Deserialize)]
struct TokenRefusal {
    error: String,
}

impl ProviderLogin {
    pub fn new(issuer: String, options: OidcOptions) -> Result<Self, String> {
        let is_good = issuer.parse::<Uri>().is_ok_and(|url| is_private(&url));
        if !is_good {
            return Err(format!(
                "--auth-issuer {issuer}: must be https for --auth-oidc-client"
            ));
        }
        Ok(Self {
            issuer,
            options,
            http: ProviderHttp::new()?,
            endpoints: Mutex::default(),
            exchanges: Semaphore::new(EXCHANGES),
        })
    }

    /// The name under which people know it.
    pub fn host(&self) -> String {
        let url = self.issuer.parse::<Uri>().ok();
        let authority = url.and_then(|url| url.authority().map(ToString::to_string));
        authority.unwrap_or_default()
    }

    pub fn is_issuer(&self, named: &str) -> bool {
        named == self.issuer
    }

    /// Where the browser goes to log in, for an attempt that a page of `origin` begins.
    pub async fn begin(&self, origin: String) -> Result<(String, LoginAttempt), LoginFault> {
        let endpoints = self.endpoints().await?;
        let mut url =
            Url::parse(&endpoints.authorization_endpoint).map_err(LoginFault::of_provider)?;
        let attempt = LoginAttempt::begin(origin);
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&attempt.verifier));
        let mut query = url.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.options.client)
            .append_pair("redirect_uri", &redirect(&attempt))
            .append_pair("scope", &self.options.scope)
            .append_pair("state", &attempt.state)
            .append_pair("nonce", &attempt.nonce)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        query.extend_pairs(&self.options.parameters);
        drop(query);
        Ok((url.into(), attempt))
    }

    async fn endpoints(&self) -> Result<Arc<ProviderEndpoints>, LoginFault> {
        let mut known = self.endpoints.lock().await;
        if let Some((at, endpoints)) = &*known
            && at.elapsed() < REFRESH
        {
            return Ok(endpoints.clone());
        }
        match self.discover().await {
            Ok(endpoints) => {
                let endpoints = Arc::new(endpoints);
                *known = Some((Instant::now(), endpoints.clone()));
                Ok(endpoints)
            }
            // What it said before still serves.
            Err(fault) => match &*known {
                Some((_, endpoints)) => Ok(endpoints.clone()),
                None => Err(LoginFault::of_provider(fault)),
            },
        }
    }

    async fn discover(&self) -> Result<ProviderEndpoints, String> {
        let issuer = self.issuer.trim_end_matches('/');
        let url = format!("{issuer}/.well-known/openid-configuration");
        let url: Uri = url.parse().map_err(|_| format!("{url}: not a URL"))?;
        let body = self.http.get(&url).await?;
        let read = serde_json::from_slice::<ProviderEndpoints>(&body);
        let endpoints = read.map_err(|error| format!("{url}: {error}"))?;
        if endpoints.issuer != self.issuer {
            let issuer = &endpoints.issuer;
            return Err(format!("{url} is of the issuer {issuer:?}"));
        }
        for endpoint in [&endpoints.authorization_endpoint, &endpoints.token_endpoint] {
            if !endpoint.parse::<Uri>().is_ok_and(|url| is_private(&url)) {
                return Err(format!("{url} names {endpoint}, which is not https"));
            }
        }
        Ok(endpoints)
    }

    /// The caller, for a code that the provider has sent the browser back with.
    pub async fn finish(
        &self,
        attempt: &LoginAttempt,
        code: &str,
        bearer: &BearerTokens,
    ) -> Result<Caller, LoginFault> {
        let Ok(_permit) = self.exchanges.try_acquire() else {
            return Err(LoginFault::Busy);
        };
        let tokens = self.redeem(attempt, code).await?;
        bearer
            .logged_in(attempt, &self.options.client, &tokens)
            .await
    }

    async fn redeem(
        &self,
        attempt: &LoginAttempt,
        code: &str,
    ) -> Result<ProviderTokens, LoginFault> {
        let endpoints = self.endpoints().await?;
        let (form, authorization) = self.code_request(&endpoints, attempt, code);
        let url = endpoints.token_endpoint.parse();
        let url: Uri = url.map_err(LoginFault::of_provider)?;
        let sent = self.http.post_form(&url, form, authorization.as_deref());
        let body = sent.await.map_err(LoginFault::of_provider)?;
        if let Ok(refusal) = serde_json::from_slice::<TokenRefusal>(&body) {
            let error: String = refusal.error.chars().take(64).collect();
            tracing::warn!(error, "the identity provider refused a code");
            return Err(LoginFault::Denied);
        }
        // Its fields are secrets: an error of the parser may quote them.
        serde_json::from_slice(&body)
            .map_err(|_| LoginFault::of_provider("its answer to a code has not both tokens"))
    }

    /// The form that redeems a code, and what goes into its header.
    fn code_request(
        &self,
        endpoints: &ProviderEndpoints,
        attempt: &LoginAttempt,
        code: &str,
    ) -> (String, Option<String>) {
        let mut form = Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code")
            .append_pair("code", code)
            .append_pair("redirect_uri", &redirect(attempt))
            .append_pair("client_id", &self.options.client)
            .append_pair("code_verifier", &attempt.verifier);
        let supported = &endpoints.token_endpoint_auth_methods_supported;
        // Who names none supports the first.
        let in_header =
            supported.is_empty() || supported.iter().any(|it| it == "client_secret_basic");
        let authorization = match &self.options.secret {
            Some(secret) if in_header => Some(basic(&self.options.client, secret)),
            Some(secret) => {
                form.append_pair("client_secret", secret.expose());
                None
            }
            None => None,
        };
        (form.finish(), authorization)
    }
}

fn redirect(attempt: &LoginAttempt) -> String {
    format!("{}{CALLBACK}", attempt.origin)
}

/// RFC 6749, section 2.3.1: each part is encoded as in a form.
fn basic(client: &str, secret: &Secret) -> String {
    let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!("{}:{}", encoded(client), encoded(secret.expose()));
    format!("Basic {}", STANDARD.encode(pair))
}
