//! The key set of an identity provider, from a URL or a file. Fetched by one request at a time, at
//! most every so often however many unknown keys are asked for; an old set serves while no new one
//! comes.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use axum::http::Uri;
use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, JwkSet};
use jsonwebtoken::{Algorithm, DecodingKey};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::provider_http::{ProviderHttp, is_private};

/// An unknown key is looked for no more often than this.
const MIN_INTERVAL: Duration = Duration::from_secs(10);
/// A set is fetched again this often, unasked.
const REFRESH: Duration = Duration::from_secs(300);
const MAX_BYTES: usize = 1 << 20;

pub struct ProviderKeys {
    source: KeySource,
    keys: RwLock<Arc<JwkSet>>,
    /// How often they have changed.
    version: AtomicU64,
    /// When it was last looked at; held while somebody does.
    refreshed: Mutex<Option<Instant>>,
}

enum KeySource {
    Url(Box<ProviderHttp>, Uri),
    File(PathBuf),
}

impl ProviderKeys {
    pub fn open(from: &str) -> Result<Self, String> {
        let source = match from.parse::<Uri>() {
            Ok(url) if is_private(&url) => KeySource::Url(Box::new(ProviderHttp::new()?), url),
            Ok(url) if url.scheme().is_some() => {
                return Err(format!("--auth-jwks {from}: must be https, or a file"));
            }
            _ => KeySource::File(from.into()),
        };
        let jwks = Self {
            source,
            keys: RwLock::new(Arc::new(JwkSet { keys: Vec::new() })),
            version: AtomicU64::new(0),
            refreshed: Mutex::new(None),
        };
        // A file is there or is not; a provider may come up after us.
        if let KeySource::File(path) = &jwks.source {
            let set = read(path).map_err(|fault| format!("--auth-jwks {from}: {fault}"))?;
            jwks.replace(set);
        }
        Ok(jwks)
    }

    /// The key of this name, if it is one for this algorithm.
    pub async fn find(&self, kid: &str, algorithm: Algorithm) -> Option<DecodingKey> {
        if let Some(key) = self.known(kid, algorithm) {
            return Some(key);
        }
        self.refresh(MIN_INTERVAL).await;
        self.known(kid, algorithm)
    }

    fn known(&self, kid: &str, algorithm: Algorithm) -> Option<DecodingKey> {
        let keys = self.keys.read().expect("held for moments only").clone();
        let named = |key: &&Jwk| key.common.key_id.as_deref() == Some(kid) && fits(key, algorithm);
        let key = keys.keys.iter().find(named)?;
        DecodingKey::from_jwk(key).ok()
    }

    /// Looks at the source again, unless somebody has within `interval`.
    async fn refresh(&self, interval: Duration) {
        let mut refreshed = self.refreshed.lock().await;
        if refreshed.is_some_and(|at| at.elapsed() < interval) {
            return;
        }
        let set = match &self.source {
            KeySource::Url(http, url) => http.get(url).await.and_then(|body| parse(&body)),
            KeySource::File(path) => read(path),
        };
        *refreshed = Some(Instant::now());
        match set {
            Ok(set) => self.replace(set),
            Err(fault) => tracing::warn!(
                fault,
                "the key set of the identity provider stays as it was"
            ),
        }
    }

    fn replace(&self, set: JwkSet) {
        let mut keys = self.keys.write().expect("held for moments only");
        if **keys != set {
            *keys = Arc::new(set);
            self.version.fetch_add(1, Ordering::Release);
        }
    }

    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub async fn watch(&self, stop: CancellationToken) {
        loop {
            self.refresh(MIN_INTERVAL).await;
            let interval = match self.source {
                KeySource::Url(..) => REFRESH,
                KeySource::File(_) => MIN_INTERVAL,
            };
            tokio::select! {
                () = sleep(interval) => {}
                () = stop.cancelled() => return,
            }
        }
    }
}

/// A key's declared use is enforced; and no key is a shared secret.
fn fits(key: &Jwk, algorithm: Algorithm) -> bool {
    use Algorithm as A;
    let kind = match &key.algorithm {
        AlgorithmParameters::RSA(_) => matches!(
            algorithm,
            A::RS256 | A::RS384 | A::RS512 | A::PS256 | A::PS384 | A::PS512
        ),
        AlgorithmParameters::EllipticCurve(_) => matches!(algorithm, A::ES256 | A::ES384),
        AlgorithmParameters::OctetKeyPair(_) => algorithm == A::EdDSA,
        _ => false,
    };
    let named = key.common.key_algorithm.map(|named| named.to_string());
    kind && named.is_none_or(|named| named == format!("{algorithm:?}"))
}

fn read(path: &PathBuf) -> Result<JwkSet, String> {
    let body = std::fs::read(path).map_err(|error| error.to_string())?;
    if body.len() > MAX_BYTES {
        return Err(format!("more than {MAX_BYTES} bytes"));
    }
    parse(&body)
}

/// Keys of kinds that are not known here are left out; the others still serve.
fn parse(body: &[u8]) -> Result<JwkSet, String> {
    #[derive(serde::Deserialize)]
    struct RawKeySet {
        keys: Vec<serde_json::Value>,
    }
    let raw: RawKeySet =
        serde_json::from_slice(body).map_err(|error| format!("not a key set: {error}"))?;
    let keys = raw.keys.into_iter();
    let keys = keys.filter_map(|key| serde_json::from_value(key).ok());
    Ok(JwkSet {
        keys: keys.collect(),
    })
}
