//! `--auth keys`: a file of hashed API keys. A key has 190 random bits, so a plain hash gives
//! nothing away, and looking a hash up takes no longer for one that is nearly right.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use baton_session::audit::AuditLog;
use baton_session::clock::unix_seconds;
use baton_session::file_watch;
use baton_session::store::AgentCard;
use baton_session::token::MAX_PRINCIPAL;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use super::policy::{ClaimMap, ClaimPolicy};
use super::rights::CallerRights;
use super::{AuthFailure, Caller, CallerCredential};
use crate::limits::LimitOverrides;

/// Keeps them apart from the principals of tokens.
const KIND: &str = "key:";
const MAX_NAME: usize = MAX_PRINCIPAL - KIND.len();
/// So many digits of its hash name a key.
const NAME_DIGITS: usize = 16;

pub struct ApiKeys {
    path: PathBuf,
    policy: ClaimPolicy,
    known: Arc<RwLock<Arc<LoadedKeys>>>,
}

#[derive(Debug)]
struct LoadedKeys {
    text: String,
    keys: HashMap<[u8; 32], Arc<ApiKey>>,
    /// By their names, for logins and tickets.
    names: HashMap<String, Arc<ApiKey>>,
    /// Of those principals that have their own.
    limits: HashMap<Arc<str>, Arc<LimitOverrides>>,
}

#[derive(Debug)]
struct ApiKey {
    principal: Arc<str>,
    /// In seconds since 1970.
    expires: Option<u64>,
    credential: Arc<CallerCredential>,
}

#[derive(Deserialize)]
struct KeyFile {
    keys: Vec<KeyEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyEntry {
    principal: String,
    /// Of the key, in hex.
    sha256: String,
    /// From then on it is no good; as in 2027-01-31T12:00:00Z.
    #[serde(default, deserialize_with = "date")]
    expires: Option<u64>,
    /// The agents it may use; all, if there is no list.
    agents: Option<Vec<String>>,
    /// It may list, load and watch, and change nothing.
    #[serde(default)]
    observe: bool,
    /// It may see and steer the whole cluster.
    #[serde(default)]
    admin: bool,
    /// Those of the principal; one of its entries is enough.
    limits: Option<LimitOverrides>,
}

fn date<'a, D: Deserializer<'a>>(value: D) -> Result<Option<u64>, D::Error> {
    use serde::de::Error as _;
    let text = String::deserialize(value)?;
    let read = humantime::parse_rfc3339(&text).ok();
    let since = read.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    let since = since.ok_or_else(|| {
        D::Error::custom(format!(
            "expires {text:?}: write a date such as 2027-01-31T12:00:00Z"
        ))
    })?;
    Ok(Some(since.as_secs()))
}

impl ApiKeys {
    pub fn open(path: &Path, policy: ClaimPolicy) -> Result<Self, String> {
        let known = LoadedKeys::read(path, &policy)?;
        Ok(Self {
            path: path.to_owned(),
            policy,
            known: Arc::new(RwLock::new(Arc::new(known))),
        })
    }

    /// As the file has it.
    pub fn hash(key: &str) -> String {
        let hash = Sha256::digest(key);
        hash.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The fault of an entry.
    pub fn check(entry: &Value) -> Result<(), String> {
        let entry: KeyEntry =
            serde_json::from_value(entry.clone()).map_err(|error| error.to_string())?;
        entry.key(&ClaimPolicy::default()).map(|_| ())
    }

    pub(super) fn identify(&self, key: &str) -> Result<Caller, AuthFailure> {
        let known = self.known.read().expect("held for moments only").clone();
        let hash: [u8; 32] = Sha256::digest(key).into();
        let key = known.keys.get(&hash);
        let key = key.ok_or_else(|| AuthFailure::because("unknown API key"))?;
        key.caller()
            .ok_or_else(|| AuthFailure::because("an API key that has expired"))
    }

    /// As long as the key is there that it was made of.
    pub(super) fn recall(&self, principal: &str, source: &str) -> Option<Caller> {
        let known = self.known.read().expect("held for moments only");
        let key = known.names.get(source)?;
        (*key.principal == *principal).then(|| key.caller())?
    }

    pub(super) fn limits(&self, principal: &str) -> Option<Arc<LimitOverrides>> {
        let known = self.known.read().expect("held for moments only");
        known.limits.get(principal).cloned()
    }

    /// Reads the file again when it has changed; one that cannot be read changes nothing.
    pub(super) async fn watch(&self, stop: CancellationToken, audit: AuditLog) {
        let (path, shared) = (self.path.clone(), self.known.clone());
        let policy = self.policy.clone();
        let refresh = move || {
            let mut read = LoadedKeys::read(&path, &policy)?;
            let mut known = shared.write().expect("held for moments only");
            let changed = known.text != read.text;
            if changed {
                read.succeed(&known);
                *known = Arc::new(read);
            }
            Ok(changed)
        };
        file_watch::follow("the API keys", stop, audit, refresh).await;
    }
}

impl ApiKey {
    /// `None` once it has expired.
    fn caller(&self) -> Option<Caller> {
        if self.expires.is_some_and(|end| end <= unix_seconds()) {
            return None;
        }
        Some(Caller {
            credential: self.credential.clone(),
            ..Caller::new(self.principal.clone(), self.expires)
        })
    }

    fn is_as(&self, other: &Self) -> bool {
        self.principal == other.principal
            && self.expires == other.expires
            && self.credential.rights == other.credential.rights
    }
}

impl LoadedKeys {
    fn read(path: &Path, policy: &ClaimPolicy) -> Result<Self, String> {
        let named = |fault: String| format!("--auth-keys {}: {fault}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| named(error.to_string()))?;
        Self::parse(text, policy).map_err(named)
    }

    fn parse(text: String, policy: &ClaimPolicy) -> Result<Self, String> {
        let file: KeyFile = serde_json::from_str(&text).map_err(|error| {
            format!("not a file of API keys: {error}. Make an entry with `baton token api-key`")
        })?;
        let (mut keys, mut names) = (HashMap::new(), HashMap::new());
        let mut limits: HashMap<Arc<str>, Arc<LimitOverrides>> = HashMap::new();
        for entry in &file.keys {
            let name = &entry.principal;
            let (hash, key) = entry.key(policy)?;
            if let Some(own) = entry.limits {
                let before = limits.insert(key.principal.clone(), own.into());
                if before.is_some_and(|before| *before != own) {
                    return Err(format!(
                        "principal {name:?}: its entries have different limits"
                    ));
                }
            }
            let key = Arc::new(key);
            let before = names.insert(key.credential.source.clone(), key.clone());
            if before.is_some() || keys.insert(hash, key).is_some() {
                return Err(format!("principal {name:?}: its key is listed twice"));
            }
        }
        Ok(Self {
            text,
            keys,
            names,
            limits,
        })
    }

    /// Streams of an unchanged key go on; those of any other key end.
    fn succeed(&mut self, before: &Self) {
        for (hash, old) in &before.keys {
            match self.keys.get_mut(hash) {
                Some(new) if new.is_as(old) => {
                    *new = old.clone();
                    self.names
                        .insert(old.credential.source.clone(), old.clone());
                }
                _ => old.credential.ended.cancel(),
            }
        }
    }
}

impl KeyEntry {
    /// With its hash.
    fn key(&self, policy: &ClaimPolicy) -> Result<([u8; 32], ApiKey), String> {
        let name = &self.principal;
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.@:".contains(c);
        if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(plain) {
            return Err(format!(
                "principal {name:?}: 1 to {MAX_NAME} letters, digits and -_.@: only"
            ));
        }
        let hash = parse_hex(&self.sha256)
            .ok_or_else(|| format!("principal {name:?}: sha256 must be 64 hex digits"))?;
        let agents = self.agents.as_deref();
        if agents.is_some_and(|agents| agents.is_empty()) {
            return Err(format!(
                "principal {name:?}: agents is empty: name one, or leave it out for all"
            ));
        }
        let mut unusable = agents.into_iter().flatten();
        if let Some(agent) = unusable.find(|agent| !AgentCard::is_name(agent)) {
            return Err(format!(
                "principal {name:?}: {agent:?} cannot be an agent's name"
            ));
        }
        let claims = ClaimMap::from_iter([("sub".to_owned(), Value::from(name.as_str()))]);
        let digits = &self.sha256.to_ascii_lowercase()[..NAME_DIGITS];
        let credential = CallerCredential {
            name: format!("{KIND}{digits}"),
            source: digits.to_owned(),
            rights: CallerRights {
                observe: self.observe,
                admin: self.admin,
                only: agents.map(Into::into),
                denied: policy.denied(&claims),
            },
            ..CallerCredential::default()
        };
        let key = ApiKey {
            principal: format!("{KIND}{name}").into(),
            expires: self.expires,
            credential: credential.into(),
        };
        Ok((hash, key))
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

    fn parse(text: String) -> Result<LoadedKeys, String> {
        LoadedKeys::parse(text, &ClaimPolicy::default())
    }

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
            policy: ClaimPolicy::default(),
            known: Arc::new(RwLock::new(Arc::new(parse(text).unwrap()))),
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
            parse(serde_json::json!({ "keys": entries }).to_string())
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
            let fault = parse(text).unwrap_err();
            assert!(fault.contains(expected), "{fault}");
        }
    }
}
