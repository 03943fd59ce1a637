//! The keys that sign tokens: that they can be read and used, and by whom else.

use std::path::Path;

use baton_session::token::SigningKeys;

use super::Finding;
use crate::exposure;

const SUBJECT: &str = "keys";

/// A weak key cannot be used: `Keys::open` refuses it and says why.
pub fn check(path: &Path) -> Finding {
    if let Err(fault) = SigningKeys::open(path) {
        return Finding::fail(
            SUBJECT,
            format!("{fault}. `baton token keygen` makes a key set that can be used"),
        );
    }
    if let Some(fault) = exposure::writable_by_anybody(path).into_iter().next() {
        return Finding::fail(SUBJECT, fault);
    }
    let (path, readable) = (path.display(), exposure::readable_by_anybody(path));
    match readable.first() {
        None => Finding::ok(SUBJECT, format!("{path}: strong, and for its owner")),
        Some(file) => Finding::warn(
            SUBJECT,
            format!(
                "{}: everybody on this machine can read it, and make tokens with it. Say chmod \
                 o-r, or set defaultMode of a Kubernetes secret to 0400",
                file.display()
            ),
        ),
    }
}
