//! Who else on this machine can read the keys that sign tokens. Anybody with a key can make tokens,
//! and anybody who can change the file can put a key into it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use baton_session::token::SigningKeys;

const ANYBODY_READS: u32 = 0o004;
const ANYBODY_WRITES: u32 = 0o002;
/// In such a directory everybody changes only what is their own. Kubernetes mounts secrets in one.
const STICKY: u32 = 0o1000;

/// A world-writable file is a fault. A world-readable file is only a warning: a mounted secret of
/// Kubernetes looks like this by default, and there nobody else is on the machine.
pub fn faults(path: &Path) -> Vec<String> {
    for file in readable_by_anybody(path) {
        tracing::warn!(
            file = %file.display(),
            "a key file can be read by everybody on this machine, who can make tokens with it: \
             chmod o-r it, or set defaultMode of a Kubernetes secret to 0400"
        );
    }
    writable_by_anybody(path)
}

/// As faults, for the directory and the files in it.
pub fn writable_by_anybody(path: &Path) -> Vec<String> {
    let mut faults = Vec::new();
    if path.is_dir() && mode(path) & (ANYBODY_WRITES | STICKY) == ANYBODY_WRITES {
        faults.push(writable(path));
    }
    let files = SigningKeys::files(path).into_iter();
    let open = files.filter(|file| mode(file) & ANYBODY_WRITES != 0);
    faults.extend(open.map(|file| writable(&file)));
    faults
}

/// Key files that can be read by everybody, and not written.
pub fn readable_by_anybody(path: &Path) -> Vec<PathBuf> {
    let files = SigningKeys::files(path).into_iter();
    let readable = |file: &PathBuf| mode(file) & (ANYBODY_READS | ANYBODY_WRITES) == ANYBODY_READS;
    files.filter(readable).collect()
}

fn writable(path: &Path) -> String {
    let path = path.display();
    format!(
        "--keys {path}: everybody on this machine can write to it, and put in a key to make \
         tokens with. Say chmod o-w {path}, and make new keys if somebody may have"
    )
}

/// Of what cannot be looked at others have more to say.
fn mode(path: &Path) -> u32 {
    fs::metadata(path).map_or(0, |data| data.permissions().mode())
}
