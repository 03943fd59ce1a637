//! A file of keys that is made once and stays as it is.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use baton_session::token::generate;
use jsonwebtoken::Algorithm;

/// Writes a new key set for its owner alone, unless there is something already. Says whether it
/// did.
pub fn make_once(path: &Path, algorithm: Algorithm) -> io::Result<bool> {
    if path.exists() {
        return Ok(false);
    }
    // Other processes see the complete file or none.
    let half = path.with_extension("new");
    let _ = fs::remove_file(&half);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&half)?;
    writeln!(file, "{}", generate(algorithm))?;
    file.sync_all()?;
    fs::rename(&half, path)?;
    Ok(true)
}
