//! Trees with holes in them.

use std::fs;
use std::path::{Path, PathBuf};

/// Directories and files to grant.
#[derive(Clone, Debug, Default)]
pub struct GrantedPaths {
    /// With all that is and will be in them.
    pub whole: Vec<PathBuf>,
    /// Their entries are granted one by one: the directories themselves can only be listed.
    pub listed: Vec<PathBuf>,
}

impl GrantedPaths {
    pub fn and(mut self, other: Self) -> Self {
        self.whole.extend(other.whole);
        self.listed.extend(other.listed);
        self
    }
}

/// All of `paths` that is not kept, with links followed. Missing paths are left out.
pub fn without(paths: impl IntoIterator<Item = PathBuf>, kept: &[PathBuf]) -> GrantedPaths {
    let mut granted = GrantedPaths::default();
    for path in paths {
        if let Ok(path) = path.canonicalize() {
            grant(path, kept, &mut granted);
        }
    }
    granted.whole.sort();
    granted.whole.dedup();
    granted.listed.sort();
    granted.listed.dedup();
    granted
}

fn grant(path: PathBuf, kept: &[PathBuf], granted: &mut GrantedPaths) {
    if kept.iter().any(|kept| path.starts_with(kept)) {
        return;
    }
    if !kept.iter().any(|kept| kept.starts_with(&path)) {
        granted.whole.push(path);
        return;
    }
    for entry in fs::read_dir(&path).into_iter().flatten().flatten() {
        // A link's target is granted where it is, or not at all.
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            grant(entry.path(), kept, granted);
        }
    }
    granted.listed.push(path);
}

/// Returns an entry of `kept` that is in the directory or contains it.
pub fn held<'a>(directory: &Path, kept: &'a [PathBuf]) -> Option<&'a PathBuf> {
    let mut kept = kept.iter();
    kept.find(|kept| kept.starts_with(directory) || directory.starts_with(kept))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    #[test]
    fn what_is_kept_is_in_no_grant_and_its_neighbours_are() {
        let dir = TempDir::new().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for path in ["a/b/secret", "a/b/open", "a/c", "d"] {
            fs::create_dir_all(base.join(path)).unwrap();
        }
        symlink(base.join("a/b/secret"), base.join("a/link")).unwrap();
        let kept = [base.join("a/b/secret")];
        let granted = without([base.clone(), base.join("nothing")], &kept);
        let of = |paths: &[&str]| paths.iter().map(|path| base.join(path)).collect::<Vec<_>>();
        assert_eq!(granted.whole, of(&["a/b/open", "a/c", "d"]));
        assert_eq!(
            granted.listed,
            [vec![base.clone()], of(&["a", "a/b"])].concat()
        );
        for inside in ["a/b/secret", "a/link"] {
            assert!(without([base.join(inside)], &kept).whole.is_empty());
        }
        let held = |path: &str| held(&base.join(path), &kept).is_some();
        assert!(held("a") && held("a/b/secret") && held("a/b/secret/x") && held(""));
        assert!(!held("a/b/open") && !held("d"));
    }
}
