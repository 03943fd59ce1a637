//! DPoP (RFC 9449): a token that is bound to a key is valid only with a proof, made with that key
//! for this very request. A stolen token alone is useless.

use axum::http::uri::{Authority, Scheme};
use axum::http::{HeaderName, Method, Uri, header, request};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
use baton_session::token::MAX_SKEW;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, ThumbprintHash};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::AuthFailure;
use crate::net::peer::ClientPeer;

pub const HEADER: HeaderName = HeaderName::from_static("dpop");
/// How far from now a proof may be dated, in seconds.
const WINDOW: u64 = 300;
/// Longer proofs are refused before anything is decoded.
const MAX_PROOF: usize = 4 << 10;
/// Members of a key that only its owner may know.
const PRIVATE: [&str; 8] = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"];

/// The request that a proof has to be for.
pub struct ProofTarget<'a> {
    pub method: &'a Method,
    /// Unless it is unknown: something in front may have ended TLS.
    pub secure: Option<bool>,
    pub authority: Authority,
    pub path: &'a str,
}

impl<'a> ProofTarget<'a> {
    pub fn of(request: &'a request::Parts) -> Option<Self> {
        // HTTP/2 has the name in the request line.
        let named = request.uri.authority().cloned().or_else(|| {
            let host = request.headers.get(header::HOST)?;
            host.to_str().ok()?.parse().ok()
        });
        Some(Self {
            method: &request.method,
            secure: request
                .extensions
                .get()
                .map(|peer: &ClientPeer| peer.secure),
            authority: named?,
            path: request.uri.path(),
        })
    }

    /// Query and fragment are left out.
    fn is_at(&self, url: &str) -> bool {
        let Ok(url) = url.parse::<Uri>() else {
            return false;
        };
        let (Some(scheme), Some(authority)) = (url.scheme(), url.authority()) else {
            return false;
        };
        let is_secure = *scheme == Scheme::HTTPS;
        let usual = if is_secure { 443 } else { 80 };
        let port = |authority: &Authority| authority.port_u16().unwrap_or(usual);
        (is_secure || *scheme == Scheme::HTTP)
            && self.secure.is_none_or(|secure| secure == is_secure)
            && !authority.as_str().contains('@')
            && authority.host().eq_ignore_ascii_case(self.authority.host())
            && port(authority) == port(&self.authority)
            && url.path() == self.path
    }
}

/// A proof that is good, unless it was used before.
#[derive(Debug)]
pub struct DpopProof {
    pub id: String,
    /// By its maker's clock, in seconds since 1970.
    pub made: u64,
    /// By then no gateway takes it any more, in seconds since 1970.
    pub until: u64,
}

#[derive(Deserialize)]
struct ProofHeader {
    typ: String,
    alg: Algorithm,
    jwk: Map<String, Value>,
    crit: Option<IgnoredAny>,
}

/// Typed, as those of the token are.
#[derive(Deserialize)]
struct ProofClaims {
    jti: String,
    htm: String,
    htu: String,
    iat: u64,
    ath: String,
    exp: Option<u64>,
    nbf: Option<u64>,
}

/// `thumbprint` is that of the key that `token` is bound to.
pub fn verify(
    proof: &str,
    asked: &ProofTarget<'_>,
    token: &str,
    thumbprint: &str,
    now: u64,
) -> Result<DpopProof, AuthFailure> {
    let refused = |why: &'static str| Err(AuthFailure::because(why));
    if proof.len() > MAX_PROOF {
        return refused("the proof is too long");
    }
    let (jwk, algorithm) = key(proof)?;
    let made_with = jwk.thumbprint(ThumbprintHash::SHA256).map_err(library)?;
    if !same(&made_with, thumbprint) {
        return refused("the proof was made with another key");
    }
    let mut rules = Validation::new(algorithm);
    rules.required_spec_claims.clear();
    (rules.validate_exp, rules.validate_aud) = (false, false);
    let key = DecodingKey::from_jwk(&jwk).map_err(library)?;
    let claims = decode::<ProofClaims>(proof, &key, &rules)
        .map_err(library)?
        .claims;
    if claims.htm != asked.method.as_str() {
        return refused("the proof is for another method");
    }
    if !asked.is_at(&claims.htu) {
        return refused("the proof is for another URL");
    }
    if claims.iat.abs_diff(now) > WINDOW
        || claims.exp.is_some_and(|exp| exp <= now)
        || claims.nbf.is_some_and(|nbf| nbf > now + MAX_SKEW)
    {
        return refused("the proof is not of this time");
    }
    if !same(&claims.ath, &BASE64URL.encode(Sha256::digest(token))) {
        return refused("the proof is for another token");
    }
    if claims.jti.is_empty() {
        return refused("the proof has no name");
    }
    Ok(DpopProof {
        id: claims.jti,
        made: claims.iat,
        until: claims.iat + WINDOW + MAX_SKEW,
    })
}

/// The key that a proof says it was made with.
fn key(proof: &str) -> Result<(Jwk, Algorithm), AuthFailure> {
    let head = proof.split('.').next().unwrap_or_default();
    let head = BASE64URL.decode(head).ok();
    let head = head.and_then(|head| serde_json::from_slice::<ProofHeader>(&head).ok());
    let head = head.ok_or_else(|| AuthFailure::because("the proof is no DPoP proof"))?;
    if head.typ != "dpop+jwt" || head.crit.is_some() {
        return Err(AuthFailure::because("the proof is another kind of token"));
    }
    if PRIVATE.iter().any(|member| head.jwk.contains_key(*member)) {
        return Err(AuthFailure::because("the proof gives a private key away"));
    }
    let jwk: Jwk = serde_json::from_value(Value::Object(head.jwk))
        .map_err(|_| AuthFailure::because("the proof has no key"))?;
    let fits = match (&jwk.algorithm, head.alg) {
        (AlgorithmParameters::EllipticCurve(key), Algorithm::ES256) => {
            key.curve == EllipticCurve::P256
        }
        (AlgorithmParameters::OctetKeyPair(key), Algorithm::EdDSA) => {
            key.curve == EllipticCurve::Ed25519
        }
        _ => false,
    };
    if fits {
        Ok((jwk, head.alg))
    } else {
        Err(AuthFailure::because(
            "the proof is signed with neither ES256 nor EdDSA",
        ))
    }
}

/// How long it takes says nothing about where they differ.
fn same(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

fn library(error: jsonwebtoken::errors::Error) -> AuthFailure {
    AuthFailure::because(format!("the proof: {error}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(
        authority: &'static str,
        path: &'static str,
        secure: Option<bool>,
    ) -> ProofTarget<'static> {
        ProofTarget {
            method: &Method::GET,
            secure,
            authority: authority.parse().unwrap(),
            path,
        }
    }

    #[test]
    fn a_url_is_compared_as_browsers_would() {
        let here = asked("baton.example", "/acp", None);
        for url in [
            "https://baton.example/acp",
            "http://baton.example/acp",
            "https://baton.example:443/acp",
            "http://baton.example:80/acp",
            "HTTPS://Baton.Example/acp",
            "https://baton.example/acp?resume=1",
        ] {
            assert!(here.is_at(url), "{url}");
        }
        for url in [
            "",
            "/acp",
            "baton.example/acp",
            "ws://baton.example/acp",
            "https://baton.example",
            "https://baton.example/",
            "https://baton.example/acp/",
            "https://baton.example/ACP",
            "https://baton.example:8443/acp",
            "https://baton.example:80/acp",
            "https://evil.example/acp",
            "https://me@baton.example/acp",
            "https://baton.example.evil/acp",
        ] {
            assert!(!here.is_at(url), "{url}");
        }
        let port = asked("localhost:8080", "/acp", Some(false));
        assert!(port.is_at("http://localhost:8080/acp"));
        assert!(!port.is_at("https://localhost:8080/acp"));
        assert!(!port.is_at("http://localhost/acp"));
        let secure = asked("baton.example", "/acp", Some(true));
        assert!(secure.is_at("https://baton.example/acp"));
        assert!(!secure.is_at("http://baton.example/acp"));
    }

    #[test]
    fn only_public_keys_of_two_kinds_make_a_proof() {
        let taken = |alg: &str, jwk: Value| {
            let head = json!({ "typ": "dpop+jwt", "alg": alg, "jwk": jwk }).to_string();
            key(&format!("{}.x.x", BASE64URL.encode(head))).is_ok()
        };
        let ec = |crv: &str| json!({ "kty": "EC", "crv": crv, "x": "AA", "y": "AA" });
        let ed = json!({ "kty": "OKP", "crv": "Ed25519", "x": "AA" });
        assert!(taken("ES256", ec("P-256")) && taken("EdDSA", ed.clone()));
        let mut private = ed.clone();
        private["d"] = json!("AA");
        for (alg, jwk) in [
            ("EdDSA", ec("P-256")),
            ("ES256", ed),
            ("EdDSA", private),
            ("ES256", ec("P-384")),
            ("ES384", ec("P-384")),
            ("ES256", json!({ "kty": "EC", "crv": "P-256", "x": "AA" })),
            ("RS256", json!({ "kty": "RSA", "n": "AA", "e": "AQAB" })),
            ("PS256", json!({ "kty": "RSA", "n": "AA", "e": "AQAB" })),
            ("HS256", json!({ "kty": "oct", "k": "AA" })),
            ("HS256", ec("P-256")),
            ("none", ec("P-256")),
            ("ES256", json!({})),
            ("ES256", json!("AA")),
        ] {
            assert!(!taken(alg, jwk.clone()), "{alg} {jwk}");
        }
    }

    /// The example of RFC 9449, section 7.1.
    const TOKEN: &str = "Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU";
    const THUMBPRINT: &str = "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I";
    const MADE: u64 = 1_562_262_618;
    const PROOF: &str = "eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6IkVTMjU2IiwiandrIjp7Imt0eSI6Ik\
        VDIiwieCI6Imw4dEZyaHgtMzR0VjNoUklDUkRZOXpDa0RscEJoRjQyVVFVZldWQVdCR\
        nMiLCJ5IjoiOVZFNGpmX09rX282NHpiVFRsY3VOSmFqSG10NnY5VERWclUwQ2R2R1JE\
        QSIsImNydiI6IlAtMjU2In19.eyJqdGkiOiJlMWozVl9iS2ljOC1MQUVCIiwiaHRtIj\
        oiR0VUIiwiaHR1IjoiaHR0cHM6Ly9yZXNvdXJjZS5leGFtcGxlLm9yZy9wcm90ZWN0Z\
        WRyZXNvdXJjZSIsImlhdCI6MTU2MjI2MjYxOCwiYXRoIjoiZlVIeU8ycjJaM0RaNTNF\
        c05yV0JiMHhXWG9hTnk1OUlpS0NBcWtzbVFFbyJ9.2oW9RP35yRqzhrtNP86L-Ey71E\
        OptxRimPPToA1plemAgR6pxHF8y6-yqyVnmcw6Fy1dqd-jfxSYoMxhAJpLjA";

    #[test]
    fn the_example_of_the_standard_is_good_and_only_in_its_own_time() {
        let asked = asked("resource.example.org", "/protectedresource", Some(true));
        let good = verify(PROOF, &asked, TOKEN, THUMBPRINT, MADE).unwrap();
        assert_eq!(good.id, "e1j3V_bKic8-LAEB");
        assert_eq!(good.until, MADE + 360);
        for (now, expected) in [
            (MADE - 301, false),
            (MADE - 300, true),
            (MADE + 300, true),
            (MADE + 301, false),
        ] {
            let verdict = verify(PROOF, &asked, TOKEN, THUMBPRINT, now);
            assert_eq!(verdict.is_ok(), expected, "{now}");
        }
        let other = &THUMBPRINT.replace('Z', "Y");
        assert!(verify(PROOF, &asked, TOKEN, other, MADE).is_err());
        assert!(verify(PROOF, &asked, "other", THUMBPRINT, MADE).is_err());
        let post = ProofTarget {
            method: &Method::POST,
            ..asked
        };
        assert!(verify(PROOF, &post, TOKEN, THUMBPRINT, MADE).is_err());
    }
}
