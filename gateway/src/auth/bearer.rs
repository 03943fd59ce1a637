//! `--auth jwt`: tokens of an identity provider. The algorithm must be one that is allowed and fit the
//! key; a key set that everybody can read is never a secret, so no HS* comes near it.

use std::fmt::Write as _;

use baton_session::clock::unix_seconds;
use jsonwebtoken::{Algorithm, Validation, decode, decode_header};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use super::jwks::Jwks;
use super::{Caller, Stranger};
use crate::edge::verified::Verified;

#[derive(Clone, Debug)]
pub struct BearerOptions {
    pub issuer: String,
    pub audience: String,
    /// An https URL, or a file.
    pub jwks: String,
    pub algorithms: Vec<Algorithm>,
}

pub struct Bearer {
    jwks: Jwks,
    algorithms: Vec<Algorithm>,
    issuer: String,
    audience: String,
    verified: Verified<Caller>,
}

/// Typed, so that a claim of another type is a refusal and not an absent claim.
#[derive(Deserialize)]
struct Claims {
    sub: String,
    exp: u64,
    #[serde(default)]
    nbf: u64,
    #[serde(default)]
    iat: u64,
    client_id: Option<String>,
    azp: Option<String>,
}

/// Clocks of two machines may differ by so much.
const LEEWAY: u64 = 30;

impl Bearer {
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
                "--auth-algs {shared:?}: the keys of a key set are public, so a token signed with one proves nothing"
            ));
        }
        Ok(Self {
            jwks: Jwks::open(&options.jwks)?,
            algorithms: options.algorithms,
            issuer: options.issuer,
            audience: options.audience,
            verified: Verified::default(),
        })
    }

    pub(super) async fn identify(&self, token: &str) -> Result<Caller, Stranger> {
        let version = self.jwks.version();
        if let Some(caller) = self.verified.get(token, version) {
            return Ok(caller);
        }
        let caller = self.verify(token).await?;
        self.verified
            .put(token, caller.clone(), caller.expires.unwrap_or(0), version);
        Ok(caller)
    }

    async fn verify(&self, token: &str) -> Result<Caller, Stranger> {
        let header = decode_header(token).map_err(|error| Stranger::because(error.to_string()))?;
        if !self.algorithms.contains(&header.alg) {
            return Err(Stranger::because(format!(
                "{:?} is not allowed",
                header.alg
            )));
        }
        let kid = header.kid.ok_or_else(|| Stranger::because("no kid"))?;
        let key = self.jwks.find(&kid, header.alg).await;
        let key = key.ok_or_else(|| Stranger::because("no such key"))?;
        let mut rules = Validation::new(header.alg);
        rules.leeway = LEEWAY;
        rules.validate_nbf = true;
        rules.set_issuer(&[&self.issuer]);
        rules.set_audience(&[&self.audience]);
        rules.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        let decoded = decode::<Claims>(token, &key, &rules);
        let claims = decoded
            .map_err(|error| Stranger::because(error.to_string()))?
            .claims;
        let now = unix_seconds();
        if claims.exp + LEEWAY <= now || claims.nbf.max(claims.iat) > now + 60 {
            return Err(Stranger::because("not valid at this time"));
        }
        let client = claims.client_id.or(claims.azp).unwrap_or_default();
        let principal = principal(&self.issuer, &claims.sub, &client).into();
        Ok(Caller::new(principal, Some(claims.exp)))
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

/// One name for issuer, subject and client together. Hashed with their lengths: no two triples can
/// run into each other, and no address of a person ends up in a token or a log.
fn principal(issuer: &str, subject: &str, client: &str) -> String {
    let mut hash = Sha256::new();
    for part in [issuer, subject, client] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let mut name = String::from("jwt:");
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
        };
        let fault = Bearer::new(options).err().expect("refused");
        assert!(fault.contains("HS256"), "{fault}");
    }
}
