use std::time::Duration;

use std::os::unix::fs::symlink;

use jsonwebtoken::Algorithm;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::id::{Partition, SessionId};
use crate::secret::Secret;
use crate::token::{SESSION_LIFETIME, SessionGrant, TokenScope, generate};

/// A key set of these keys, in this order.
fn set(keys: &[&str]) -> String {
    let all = keys.iter().flat_map(|text| {
        let set: Value = serde_json::from_str(text).unwrap();
        set["keys"].as_array().unwrap().clone()
    });
    json!({ "keys": all.collect::<Vec<_>>() }).to_string()
}

fn mint(keys: &SigningKeys) -> Secret {
    let session = SessionId::mint(Partition(3));
    let grant = SessionGrant::new(
        session,
        "somebody".into(),
        TokenScope::Control,
        SESSION_LIFETIME,
    );
    keys.ring().sign_session(&grant)
}

fn good(keys: &SigningKeys, token: &Secret) -> bool {
    keys.ring().verify_session(token.expose()).is_ok()
}

struct Rotation {
    dir: TempDir,
    old: String,
    new: String,
}

impl Rotation {
    fn start() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            old: generate(Algorithm::HS256),
            new: generate(Algorithm::ES256),
        }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("keys.json")
    }

    fn write(&self, keys: &[&str]) {
        fs::write(self.path(), set(keys)).unwrap();
    }
}

#[test]
fn row_12_old_new_then_new_old_then_new_refuses_nothing_while_its_key_is_listed() {
    let rotation = Rotation::start();
    let (old, new) = (rotation.old.as_str(), rotation.new.as_str());
    rotation.write(&[old]);
    let [a, b] = [(); 2].map(|()| SigningKeys::open(&rotation.path()).unwrap());
    let mut tokens = vec![mint(&a), mint(&b)];
    let check = |tokens: &[Secret], step: &str| {
        for (at, token) in tokens.iter().enumerate() {
            assert!(good(&a, token) && good(&b, token), "token {at}, {step}");
        }
    };
    for keys in [[old, new], [new, old]] {
        rotation.write(&keys);
        // One replica sees it before the other.
        for replica in [&a, &b] {
            assert_eq!(replica.refresh(), Ok(true));
            tokens.extend([mint(&a), mint(&b)]);
            check(&tokens, "old and new are listed");
        }
    }
    let (of_old, of_new): (Vec<_>, Vec<_>) = tokens.into_iter().partition(|token| {
        let alone = SigningKeys::fixed(KeyRing::parse(old).unwrap());
        good(&alone, token)
    });
    assert!(!of_old.is_empty() && !of_new.is_empty());
    rotation.write(&[new]);
    assert_eq!(a.refresh(), Ok(true));
    check(&of_new, "one has dropped the old key");
    assert!(
        of_old
            .iter()
            .all(|token| !good(&a, token) && good(&b, token))
    );
    assert_eq!(b.refresh(), Ok(true));
    check(&of_new, "both have dropped the old key");
    assert!(of_old.iter().all(|token| !good(&b, token)));
}

/// The order that fails, and why docs/deploy/keys.md names another.
#[test]
fn row_12_a_new_key_that_signs_before_everybody_knows_it_is_refused() {
    let rotation = Rotation::start();
    rotation.write(&[&rotation.old]);
    let [early, late] = [(); 2].map(|()| SigningKeys::open(&rotation.path()).unwrap());
    rotation.write(&[&rotation.new, &rotation.old]);
    assert_eq!(early.refresh(), Ok(true));
    let token = mint(&early);
    assert!(good(&early, &token) && !good(&late, &token));
    assert_eq!(late.refresh(), Ok(true));
    assert!(good(&late, &token));
}

#[test]
fn a_change_that_cannot_be_used_leaves_the_old_keys() {
    let rotation = Rotation::start();
    rotation.write(&[&rotation.old]);
    let keys = SigningKeys::open(&rotation.path()).unwrap();
    let token = mint(&keys);
    assert_eq!((keys.refresh(), keys.version()), (Ok(false), 0));
    for broken in ["", "{\"keys\":[]}", &set(&[&rotation.new, &rotation.new])] {
        fs::write(rotation.path(), broken).unwrap();
        assert!(keys.refresh().is_err());
        assert!(good(&keys, &token) && keys.version() == 0);
    }
    fs::remove_file(rotation.path()).unwrap();
    assert!(keys.refresh().is_err() && good(&keys, &token));
    rotation.write(&[&rotation.new]);
    assert_eq!((keys.refresh(), keys.version()), (Ok(true), 1));
    assert!(!good(&keys, &token));
}

#[test]
fn a_directory_is_one_set_in_the_order_of_its_names() {
    let dir = tempfile::tempdir().unwrap();
    let keys = [(); 3].map(|()| generate(Algorithm::HS256));
    let file = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    file("b.json", &keys[0]);
    file("a.jwk", &keys[1]);
    file(".c.json", "hidden, and not a key set");
    file("README.md", "not one either");
    let opened = SigningKeys::open(dir.path()).unwrap();
    let signs = |key: &String| {
        good(
            &SigningKeys::fixed(KeyRing::parse(key).unwrap()),
            &mint(&opened),
        )
    };
    assert!(signs(&keys[1]));
    for key in &keys[..2] {
        assert!(good(
            &opened,
            &mint(&SigningKeys::fixed(KeyRing::parse(key).unwrap()))
        ));
    }
    file("0.json", &keys[2]);
    assert_eq!(opened.refresh(), Ok(true));
    assert!(signs(&keys[2]));
    // The same key in two files is a mistake, and both files' faults are named.
    file("c.json", &keys[2]);
    file("d.json", "nonsense");
    let said = opened.refresh().unwrap_err();
    assert!(
        said.contains("c.json: key 1") && said.contains("d.json: not a JWK set"),
        "{said}"
    );
}

#[test]
fn a_mounted_secret_changes_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    let mount = |version: &str, name: &str| {
        let key = generate(Algorithm::HS256);
        fs::create_dir(dir.path().join(version)).unwrap();
        fs::write(dir.path().join(version).join(name), key).unwrap();
        let next = dir.path().join("..data_tmp");
        symlink(version, &next).unwrap();
        fs::rename(next, dir.path().join("..data")).unwrap();
    };
    mount("..2026_11_16", "keys.json");
    symlink("..data/keys.json", dir.path().join("keys.json")).unwrap();
    let keys = SigningKeys::open(dir.path()).unwrap();
    let before = mint(&keys);
    // The links to the files follow later; the one that is there leads nowhere now.
    mount("..2026_11_17", "more.json");
    assert_eq!(keys.refresh(), Ok(true));
    assert!(!good(&keys, &before) && good(&keys, &mint(&keys)));
    assert_eq!(keys.refresh(), Ok(false));
}

#[test]
fn what_is_missing_or_empty_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let said = SigningKeys::open(dir.path()).err().unwrap();
    assert!(said.contains("keygen"), "{said}");
    let missing = dir.path().join("missing.json");
    let said = SigningKeys::open(&missing).err().unwrap();
    assert!(
        said.contains("missing.json") && said.contains("keygen"),
        "{said}"
    );
}

#[tokio::test]
async fn the_watch_finds_a_change_by_itself_and_ends_when_told() {
    let rotation = Rotation::start();
    rotation.write(&[&rotation.old]);
    let keys = SigningKeys::open(&rotation.path()).unwrap();
    let stop = CancellationToken::new();
    let watch = tokio::spawn(keys.clone().watch(stop.clone(), Default::default()));
    rotation.write(&[&rotation.new]);
    let changed = async {
        while keys.version() == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    // A hang is a failure with a name, not a measurement.
    let patience = Duration::from_secs(60);
    let changed = tokio::time::timeout(patience, changed).await;
    changed.expect("the change is noticed");
    assert!(good(
        &SigningKeys::fixed(KeyRing::parse(&rotation.new).unwrap()),
        &mint(&keys)
    ));
    stop.cancel();
    watch.await.unwrap();
}

/// Other code that lists them sees all of them.
#[test]
fn the_files_are_those_that_are_read() {
    let rotation = Rotation::start();
    let dir = rotation.dir.path();
    rotation.write(&[&rotation.old]);
    fs::write(dir.join("b.jwk"), set(&[&rotation.new])).unwrap();
    fs::write(dir.join("notes.txt"), "no keys").unwrap();
    assert_eq!(SigningKeys::files(&rotation.path()), [rotation.path()]);
    assert_eq!(
        SigningKeys::files(dir),
        [dir.join("b.jwk"), rotation.path()]
    );
    assert!(SigningKeys::files(&dir.join("missing")) == [dir.join("missing")]);
}
