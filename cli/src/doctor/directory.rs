//! The data directory of `baton serve`.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use baton_session::store::FileStore;

use super::{Finding, keys};

const SUBJECT: &str = "data directory";

/// With the keys in it, once there are any.
pub fn check(path: &Path) -> Vec<Finding> {
    let mut findings = vec![state(path)];
    let own_keys = path.join("keys.json");
    if own_keys.exists() {
        findings.push(keys::check(&own_keys));
    }
    findings
}

fn state(path: &Path) -> Finding {
    let exists = match FileStore::inspect(path) {
        Ok(exists) => exists,
        // Says what to do.
        Err(refused) => return Finding::fail(SUBJECT, refused.to_string()),
    };
    let existing = existing(path);
    if let Err(error) = try_writing(&existing) {
        let place = existing.display();
        return Finding::fail(
            SUBJECT,
            format!(
                "{place}: nothing can be written: {error}. Change its owner, make room, or choose \
                 another with --data-dir"
            ),
        );
    }
    let path = path.display();
    if exists {
        Finding::ok(SUBJECT, format!("{path}: writable, and not in use"))
    } else {
        Finding::ok(SUBJECT, format!("{path}: will be made at the first start"))
    }
}

/// The directory itself, or the one in which it would be made.
fn existing(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let found = whole.ancestors().find(|path| path.exists());
    found.unwrap_or(Path::new("/")).to_owned()
}

/// A file with something in it: a full disk takes empty ones.
fn try_writing(directory: &Path) -> io::Result<()> {
    let path = directory.join(format!(".baton-doctor-{}", std::process::id()));
    let written = File::create_new(&path).and_then(|mut file| {
        io::Write::write_all(&mut file, &[0; 4096])?;
        file.sync_all()
    });
    let _ = fs::remove_file(path);
    written
}
