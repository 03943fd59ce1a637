//! `--auth keys`: a file of hashed API keys. A key has 190 random bits, so a plain hash gives nothing
//! away, and looking a hash up takes no longer for one that is nearly right.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use baton_session::token::MAX_PRINCIPAL;
use baton_session::watched;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use super::{Caller, Stranger};
use crate::limits::OwnLimits;

/// Keeps them apart from the principals of tokens.
const KIND: &str = "key:";
const MAX_NAME: usize = MAX_PRINCIPAL - KIND.len();

pub struct ApiKeys {
    path: PathBuf,
    known: Arc<RwLock<Arc<Known>>>,
}

#[derive(Debug, PartialEq, Eq)]
struct Known {
    text: String,
    principals: HashMap<[u8; 32], Arc<str>>,
    names: HashSet<Arc<str>>,
    /// Of those principals that have their own.
    limits: HashMap<Arc<str>, Arc<OwnLimits>>,
}

#[derive(Deserialize)]
struct KeyFile {
    keys: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    principal: String,
    /// Of the key, in hex.
    sha256: String,
    /// Those of the principal; one of its entries is enough.
    limits: Option<OwnLimits>,
}

impl ApiKeys {
    pub fn open(path: &Path) -> Result<Self, String> {
        let known = Known::read(path)?;
        Ok(Self {
            path: path.to_owned(),
            known: Arc::new(RwLock::new(Arc::new(known))),
        })
    }

    /// As the file has it.
    pub fn hash(key: &str) -> String {
        let hash = Sha256::digest(key);
        hash.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(super) fn identify(&self, key: &str) -> Result<Caller, Stranger> {
        let known = self.known.read().expect("held for moments only").clone();
        let hash: [u8; 32] = Sha256::digest(key).into();
        let principal = known.principals.get(&hash);
        let principal = principal.ok_or_else(|| Stranger::because("unknown API key"))?;
        Ok(Caller::new(principal.clone(), None))
    }

    /// As long as it has a key.
    pub(super) fn recall(&self, principal: &str) -> Option<Arc<str>> {
        let known = self.known.read().expect("held for moments only");
        known.names.get(principal).cloned()
    }

    pub(super) fn limits(&self, principal: &str) -> Option<Arc<OwnLimits>> {
        let known = self.known.read().expect("held for moments only");
        known.limits.get(principal).cloned()
    }

    /// Reads the file again when it has changed; one that cannot be read changes nothing.
    pub(super) async fn watch(&self, stop: CancellationToken) {
        let (path, shared) = (self.path.clone(), self.known.clone());
        let refresh = move || {
            let read = Known::read(&path)?;
            let mut known = shared.write().expect("held for moments only");
            let changed = **known != read;
            if changed {
                *known = Arc::new(read);
            }
            Ok(changed)
        };
        watched::follow("the API keys", stop, refresh).await;
    }
}

impl Known {
    fn read(path: &Path) -> Result<Self, String> {
        let named = |fault: String| format!("--auth-keys {}: {fault}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| named(error.to_string()))?;
        Self::parse(text).map_err(named)
    }

    fn parse(text: String) -> Result<Self, String> {
        let file: KeyFile = serde_json::from_str(&text).map_err(|error| {
            format!("not a file of API keys: {error}. Make an entry with `baton token api-key`")
        })?;
        let mut principals = HashMap::new();
        let mut names = HashSet::new();
        let mut limits: HashMap<Arc<str>, Arc<OwnLimits>> = HashMap::new();
        for entry in &file.keys {
            let name = &entry.principal;
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_.@:".contains(c);
            if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(plain) {
                return Err(format!(
                    "principal {name:?}: 1 to {MAX_NAME} letters, digits and -_.@: only"
                ));
            }
            let hash = parse_hex(&entry.sha256)
                .ok_or_else(|| format!("principal {name:?}: sha256 must be 64 hex digits"))?;
            let principal: Arc<str> = format!("{KIND}{name}").into();
            if let Some(own) = entry.limits {
                let before = limits.insert(principal.clone(), own.into());
                if before.is_some_and(|before| *before != own) {
                    return Err(format!(
                        "principal {name:?}: its entries have different limits"
                    ));
                }
            }
            names.insert(principal.clone());
            if principals.insert(hash, principal).is_some() {
                return Err(format!("principal {name:?}: its key is listed twice"));
            }
        }
        Ok(Self {
            text,
            principals,
            names,
            limits,
        })
    }
}

fn parse_hex(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[at * 2..at * 2 + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashed(key: &str) -> String {
        ApiKeys::hash(key)
    }

    fn file(entries: &[(&str, &str)]) -> String {
        let keys: Vec<_> = entries
            .iter()
            .map(|(principal, sha256)| serde_json::json!({ "principal": principal, "sha256": sha256 }))
            .collect();
        serde_json::json!({ "keys": keys }).to_string()
    }

    #[test]
    fn a_key_names_its_principal_and_no_other() {
        let text = file(&[("alice", &hashed("bk_a")), ("bob", &hashed("bk_b"))]);
        let keys = ApiKeys {
            path: PathBuf::new(),
            known: Arc::new(RwLock::new(Arc::new(Known::parse(text).unwrap()))),
        };
        let name = |key: &str| keys.identify(key).ok().map(|caller| caller.principal);
        assert_eq!(name("bk_a").as_deref(), Some("key:alice"));
        assert_eq!(name("bk_b").as_deref(), Some("key:bob"));
        for wrong in ["", "bk_", "bk_a ", &hashed("bk_a")] {
            assert_eq!(name(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn limits_are_a_principals_and_not_a_keys() {
        let entry = |principal: &str, key: &str, limits: serde_json::Value| serde_json::json!({ "principal": principal, "sha256": hashed(key), "limits": limits });
        let parse = |entries: &[serde_json::Value]| {
            Known::parse(serde_json::json!({ "keys": entries }).to_string())
        };
        let own = serde_json::json!({ "turns": 2, "requests": "5/1m" });
        let old = entry("alice", "bk_old", serde_json::Value::Null);
        let known = parse(&[old, entry("alice", "bk_new", own.clone())]).unwrap();
        let own = serde_json::from_value(own).unwrap();
        assert_eq!(known.limits.get("key:alice").map(|own| **own), Some(own));
        let others = serde_json::json!({ "turns": 3 });
        let cases = [
            (others, "different limits"),
            (serde_json::json!({ "turns": 0 }), "nonzero"),
            (serde_json::json!({ "tunrs": 1 }), "tunrs"),
            (serde_json::json!({ "requests": "5/fortnight" }), "600/1m"),
        ];
        for (limits, expected) in cases {
            let mine = entry("alice", "bk_a", serde_json::json!({ "turns": 2 }));
            let fault = parse(&[mine, entry("alice", "bk_b", limits)]).unwrap_err();
            assert!(fault.contains(expected), "{fault}");
        }
    }

    #[test]
    fn a_file_that_makes_no_sense_is_refused_with_a_reason() {
        let hash = hashed("x");
        let cases = [
            ("hello".to_owned(), "api-key"),
            (file(&[("", &hash)]), "principal \"\""),
            (file(&[("a b", &hash)]), "letters, digits"),
            (file(&[("a", "bk_plain")]), "64 hex digits"),
            (file(&[("a", &"é".repeat(32))]), "64 hex digits"),
            (file(&[("a", &hash), ("b", &hash)]), "listed twice"),
        ];
        for (text, expected) in cases {
            let fault = Known::parse(text).unwrap_err();
            assert!(fault.contains(expected), "{fault}");
        }
    }
}
