//! `--auth jwt`: tokens of an identity provider. The algorithm must be one that is allowed and fit
//! the key; a key set that everybody can read is never a secret, so no HS* comes near it.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::http::request;
use baton_session::clock::unix_seconds;
use baton_session::token::{LoginAttempt, unverified};
use jsonwebtoken::{Algorithm, Header, Validation, decode, decode_header};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use super::dpop::{self, ProofTarget};
use super::jwks::ProviderKeys;
use super::oidc::{LoginFault, OidcOptions, ProviderLogin, ProviderTokens};
use super::policy::{self, ClaimPolicy};
use super::rights::CallerRights;
use super::{
    AuthFailure, AuthScheme, Caller, CallerCredential, IdentifiedCaller, SingleUseCredential,
    SingleUseKind, credential,
};
use crate::auth::token_cache::TokenCache;
use crate::error::GatewayError;

#[derive(Clone, Debug)]
pub struct BearerOptions {
    pub issuer: String,
    pub audience: String,
    /// An https URL, or a file.
    pub jwks: String,
    pub algorithms: Vec<Algorithm>,
    /// Only tokens that are bound to a key are taken.
    pub require_proof: bool,
    /// The required `typ` in a token's header.
    pub token_type: TokenType,
    pub policy: ClaimPolicy,
    /// How people log in at the issuer's own page.
    pub oidc: Option<OidcOptions>,
}

/// The `typ` of an access token (RFC 9068, section 2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TokenType {
    /// `at+jwt`, `JWT`, or nothing: not every issuer says it.
    #[default]
    Any,
    /// `at+jwt` and nothing else.
    AccessToken,
}

impl TokenType {
    /// Tokens for other purposes say so.
    fn takes(self, typ: Option<&str>) -> bool {
        let is = |name: &str| typ.is_some_and(|typ| typ.eq_ignore_ascii_case(name));
        let is_access_token = is("at+jwt") || is("application/at+jwt");
        match self {
            Self::AccessToken => is_access_token,
            Self::Any => is_access_token || typ.is_none() || is("JWT"),
        }
    }
}

/// Claims that only ID tokens have (OpenID Connect Core, sections 3.1.3.6 and 3.3.2.11).
const OF_ID_TOKENS: [&str; 2] = ["at_hash", "c_hash"];
/// Values of the `typ` claim with which Keycloak marks tokens that are no access tokens.
const OTHER_TOKENS: [&str; 4] = ["ID", "Refresh", "Offline", "Logout"];

fn is_for_something_else(claims: &policy::ClaimMap) -> bool {
    let typ = claims.get("typ").and_then(|typ| typ.as_str());
    OF_ID_TOKENS.iter().any(|claim| claims.contains_key(*claim))
        || typ.is_some_and(|typ| OTHER_TOKENS.contains(&typ))
}

pub struct BearerTokens {
    jwks: ProviderKeys,
    algorithms: Vec<Algorithm>,
    issuer: String,
    audience: String,
    require_proof: bool,
    token_type: TokenType,
    policy: ClaimPolicy,
    /// Where people log in, if they do so at the issuer's own page.
    oidc: Option<ProviderLogin>,
    verified: TokenCache<BoundCaller>,
    /// Proofs that were used here. The store has those of all gateways; this spares asking it.
    proofs: TokenCache<()>,
}

/// The content of a verified token.
#[derive(Clone)]
struct BoundCaller {
    caller: Caller,
    /// The thumbprint of the key that it is bound to.
    key: Option<Arc<str>>,
}

/// Typed, so that a claim of another type is a refusal and not an absent claim.
#[derive(Deserialize)]
struct TokenClaims {
    sub: String,
    exp: u64,
    #[serde(default)]
    nbf: u64,
    #[serde(default)]
    iat: u64,
    client_id: Option<String>,
    azp: Option<String>,
    cnf: Option<KeyConfirmation>,
}

/// A token that is bound to something else is refused, because nothing would check that binding.
#[derive(Deserialize)]
struct KeyConfirmation {
    jkt: String,
}

const USED: &str = "the proof was used before";
/// The prefix of principals.
const PREFIX: &str = "jwt:";
/// Clocks of two machines may differ by so much.
const LEEWAY: u64 = 30;

impl BearerTokens {
    pub fn new(options: BearerOptions) -> Result<Self, String> {
        if options.issuer.is_empty() || options.audience.is_empty() {
            return Err("--auth jwt needs --auth-issuer and --auth-audience".into());
        }
        if let Some(shared) = options
            .algorithms
            .iter()
            .find(|algorithm| is_shared(**algorithm))
        {
            return Err(format!(
                "--auth-algs {shared:?}: the keys of a key set are public, so a token signed with \
                 one proves nothing"
            ));
        }
        let oidc = options
            .oidc
            .map(|login| ProviderLogin::new(options.issuer.clone(), login));
        Ok(Self {
            jwks: ProviderKeys::open(&options.jwks)?,
            algorithms: options.algorithms,
            issuer: options.issuer,
            audience: options.audience,
            require_proof: options.require_proof,
            token_type: options.token_type,
            policy: options.policy,
            oidc: oidc.transpose()?,
            verified: TokenCache::default(),
            proofs: TokenCache::default(),
        })
    }

    pub(super) fn requires_proof(&self) -> bool {
        self.require_proof
    }

    pub(super) async fn identify(
        &self,
        request: &request::Parts,
    ) -> Result<IdentifiedCaller, GatewayError> {
        let (scheme, token) = credential(&request.headers)?;
        let BoundCaller { caller, key } = self.known(token).await?;
        match (key, scheme) {
            (None, AuthScheme::Bearer) if !self.require_proof => Ok(caller.into()),
            (None, _) => Err(AuthFailure::because("bound to no key").into()),
            // Anybody who has seen it could have stolen it.
            (Some(_), AuthScheme::Bearer) => Err(unproven(AuthFailure::because("bound to a key"))),
            (Some(key), AuthScheme::Dpop) => {
                let once = self.prove(request, token, &caller, &key)?;
                Ok(IdentifiedCaller {
                    caller,
                    once: Some(once),
                })
            }
        }
    }

    async fn known(&self, token: &str) -> Result<BoundCaller, GatewayError> {
        let version = self.jwks.version();
        if let Some(bound) = self.verified.get(token, version) {
            return Ok(bound);
        }
        let bound = self.verify(token).await?;
        let expires = bound.caller.expires.unwrap_or(0);
        self.verified.put(token, bound.clone(), expires, version);
        Ok(bound)
    }

    /// A proof is for one request: it is verified every time, and good once.
    fn prove(
        &self,
        request: &request::Parts,
        token: &str,
        caller: &Caller,
        key: &str,
    ) -> Result<SingleUseCredential, GatewayError> {
        let refused = |why: &'static str| unproven(AuthFailure::because(why));
        let mut proofs = request.headers.get_all(dpop::HEADER).iter();
        let (Some(proof), None) = (proofs.next(), proofs.next()) else {
            return Err(refused("no proof, or several"));
        };
        let proof = proof.to_str().map_err(|_| refused("not ASCII"))?;
        let asked = ProofTarget::of(request).ok_or_else(|| refused("asked by no name"))?;
        let now = unix_seconds();
        let proof = dpop::verify(proof, &asked, token, key, now).map_err(unproven)?;
        let name = format!("dpop {}", digest(&[&caller.principal, &proof.id]));
        if self.proofs.get(&name, 0).is_some() {
            return Err(refused(USED));
        }
        Ok(SingleUseCredential {
            name,
            lasts: Duration::from_secs(proof.until.saturating_sub(now)),
            kind: SingleUseKind::Proof {
                made: proof.made,
                until: proof.until,
            },
        })
    }

    /// The store has said whether a proof was the first of its name.
    pub(super) fn spent(&self, name: &str, until: u64, is_first: bool) -> Result<(), GatewayError> {
        self.proofs.put(name, (), until, 0);
        if is_first {
            Ok(())
        } else {
            Err(unproven(AuthFailure::because(USED)))
        }
    }

    /// Only the issuer knows whether the principal still exists.
    pub(super) fn recall(&self, principal: &str, source: &str) -> Option<Caller> {
        let rights = self.policy.read_rights(source)?;
        let principal = principal.starts_with(PREFIX).then(|| principal.into())?;
        Some(self.caller(principal, None, "jwt".into(), rights))
    }

    fn caller(
        &self,
        principal: Arc<str>,
        expires: Option<u64>,
        name: String,
        rights: CallerRights,
    ) -> Caller {
        let credential = CallerCredential {
            name,
            source: self.policy.write(&rights),
            rights,
            ..CallerCredential::default()
        };
        Caller {
            credential: credential.into(),
            ..Caller::new(principal, expires)
        }
    }

    async fn verify(&self, token: &str) -> Result<BoundCaller, GatewayError> {
        let refused = |why: &'static str| GatewayError::from(AuthFailure::because(why));
        let header = self.header(token)?;
        if !self.token_type.takes(header.typ.as_deref()) {
            return Err(refused("its typ is not that of an access token"));
        }
        let all = self.signed_claims(token, &header, &self.audience).await?;
        let claims: TokenClaims = serde_json::from_value(all.clone().into())
            .map_err(|error| AuthFailure::because(error.to_string()))?;
        let kid = header.kid.unwrap_or_default();
        if is_for_something_else(&all) {
            return Err(refused("an ID token, or another that gives no access"));
        }
        if !self.policy.lets_in(&all) {
            return Err(GatewayError::Forbidden);
        }
        let rights = self.policy.rights(&all);
        let client = claims.client_id.or(claims.azp).unwrap_or_default();
        let principal = principal(&self.issuer, &claims.sub, &client);
        Ok(BoundCaller {
            caller: self.caller(
                principal.into(),
                Some(claims.exp),
                format!("jwt:{kid}"),
                rights,
            ),
            key: claims.cnf.map(|bound| bound.jkt.into()),
        })
    }

    fn header(&self, token: &str) -> Result<Header, AuthFailure> {
        let header =
            decode_header(token).map_err(|error| AuthFailure::because(error.to_string()))?;
        if self.algorithms.contains(&header.alg) {
            Ok(header)
        } else {
            let why = format!("{:?} is not allowed", header.alg);
            Err(AuthFailure::because(why))
        }
    }

    /// The claims of a token that the issuer has signed for this audience, and that is valid now.
    async fn signed_claims(
        &self,
        token: &str,
        header: &Header,
        audience: &str,
    ) -> Result<policy::ClaimMap, AuthFailure> {
        let kid = header.kid.as_deref();
        let kid = kid.ok_or_else(|| AuthFailure::because("no kid"))?;
        let key = self.jwks.find(kid, header.alg).await;
        let key = key.ok_or_else(|| AuthFailure::because("no such key"))?;
        let mut rules = Validation::new(header.alg);
        rules.leeway = LEEWAY;
        rules.validate_nbf = true;
        rules.set_issuer(&[&self.issuer]);
        rules.set_audience(&[audience]);
        rules.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        let decoded = decode::<policy::ClaimMap>(token, &key, &rules);
        let all = decoded
            .map_err(|error| AuthFailure::because(error.to_string()))?
            .claims;
        let claims: TokenClaims = serde_json::from_value(all.clone().into())
            .map_err(|error| AuthFailure::because(error.to_string()))?;
        let now = unix_seconds();
        if claims.exp.saturating_add(LEEWAY) <= now || claims.nbf.max(claims.iat) > now + 60 {
            return Err(AuthFailure::because("not valid at this time"));
        }
        // Everybody without a name would be the same person.
        if claims.sub.trim().is_empty() {
            return Err(AuthFailure::because("its sub is empty"));
        }
        Ok(all)
    }

    /// Where people log in, if they do so at the issuer's own page.
    pub(crate) fn provider_login(&self) -> Option<&ProviderLogin> {
        self.oidc.as_ref()
    }

    /// The caller that the issuer has named in answer to an attempt: by an ID token that is for
    /// this attempt, and an access token as every caller may bring it.
    pub(super) async fn logged_in(
        &self,
        attempt: &LoginAttempt,
        client: &str,
        tokens: &ProviderTokens,
    ) -> Result<Caller, LoginFault> {
        let identity = self.header(&tokens.id_token);
        let identity = identity.map_err(LoginFault::identity)?;
        let identity = self
            .signed_claims(&tokens.id_token, &identity, client)
            .await;
        let identity = identity.map_err(LoginFault::identity)?;
        let said = |name: &str| identity.get(name).and_then(Value::as_str);
        let is_ours = said("azp").is_none_or(|party| party == client);
        if said("nonce") != Some(&attempt.nonce) || !is_ours {
            let why = "the ID token is for another attempt, or another client";
            return Err(LoginFault::identity(AuthFailure::because(why)));
        }
        let BoundCaller { caller, key } = match self.verify(&tokens.access_token).await {
            Ok(bound) => bound,
            Err(GatewayError::Forbidden) => return Err(LoginFault::Forbidden),
            Err(_) => return Err(LoginFault::Token),
        };
        // Nothing here could prove that it has the key.
        if key.is_some() || self.subject(&tokens.access_token).as_deref() != said("sub") {
            return Err(LoginFault::Token);
        }
        Ok(caller)
    }

    /// The subject of a token that was verified.
    fn subject(&self, token: &str) -> Option<String> {
        let [_, claims] = unverified(token).ok()?;
        claims["sub"].as_str().map(str::to_owned)
    }

    pub(super) async fn watch(&self, stop: CancellationToken) {
        self.jwks.watch(stop).await;
    }
}

fn is_shared(algorithm: Algorithm) -> bool {
    matches!(
        algorithm,
        Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512
    )
}

/// The token is good; what is wrong is said in another way than for tokens, as the client can mend
/// it.
fn unproven(why: AuthFailure) -> GatewayError {
    tracing::debug!(%why, "refused a bound token");
    GatewayError::Proof
}

/// One name for issuer, subject and client together. No address of a person ends up in a token or a
/// log.
fn principal(issuer: &str, subject: &str, client: &str) -> String {
    format!("{PREFIX}{}", digest(&[issuer, subject, client]))
}

/// Hashed with their lengths: no two rows of parts can run into each other.
pub(super) fn digest(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let mut name = String::new();
    for byte in &hash.finalize()[..16] {
        let _ = write!(name, "{byte:02x}");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn principals_never_run_into_each_other() {
        let all = [
            principal("a", "bc", ""),
            principal("ab", "c", ""),
            principal("a", "b", "c"),
            principal("", "abc", ""),
            principal("a@b", "c:d", ""),
            principal("a", "b@c:d", ""),
        ];
        for (at, name) in all.iter().enumerate() {
            assert!(!all[..at].contains(name));
            assert_eq!(name.len(), 36);
        }
    }

    #[test]
    fn a_public_key_is_no_shared_secret() {
        let options = BearerOptions {
            issuer: "https://issuer.example".into(),
            audience: "baton".into(),
            jwks: "/nowhere".into(),
            algorithms: vec![Algorithm::RS256, Algorithm::HS256],
            require_proof: false,
            token_type: TokenType::default(),
            policy: ClaimPolicy::default(),
            oidc: None,
        };
        let fault = BearerTokens::new(options).err().expect("refused");
        assert!(fault.contains("HS256"), "{fault}");
    }
}
