//! The directory beneath which sessions live: `--workspace-root`, one for all or one for each
//! principal. It keeps clients from pointing an agent elsewhere; what the agent itself can open is
//! up to the system.

use std::io;
use std::path::{Component, Path, PathBuf};

use crate::per_principal::PerPrincipal;
use crate::rpc::Failure;

#[derive(Clone, Debug)]
pub struct WorkspaceRoot(PerPrincipal);

/// One principal's, with all symbolic links followed.
#[derive(Debug)]
pub(crate) struct OwnRoot(PathBuf);

impl WorkspaceRoot {
    pub fn open(path: &Path) -> io::Result<Self> {
        PerPrincipal::open(path).map(Self)
    }

    /// Directories that are made are this user's and group's.
    pub fn owned_by(self, owner: Option<(u32, u32)>) -> Self {
        Self(self.0.owned_by(owner))
    }

    /// All roots are in it.
    pub fn path(&self) -> &Path {
        self.0.base()
    }

    pub fn is_one_for_all(&self) -> bool {
        self.0.is_one_for_all()
    }

    pub(crate) fn of(&self, principal: &str) -> Result<OwnRoot, Failure> {
        let own = self.0.of(principal).map_err(|error| {
            tracing::error!(
                %error,
                "a caller's own directory beneath --workspace-root cannot be made"
            );
            Failure::internal(
                "your own directory beneath --workspace-root cannot be made; the worker's log \
                 says why",
            )
        })?;
        Ok(OwnRoot(own))
    }
}

impl OwnRoot {
    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn check(&self, field: &str, path: &str) -> Result<(), Failure> {
        if self.holds(Path::new(path)) {
            Ok(())
        } else {
            Err(Failure::invalid_params(format!(
                "params.{field} is {path:?}, but sessions live beneath {:?} here \
                 (--workspace-root): send a path beneath it, without \"..\"",
                self.0
            )))
        }
    }

    /// As much of the path as exists counts, wherever its links lead; the rest is yet to be made.
    fn holds(&self, path: &Path) -> bool {
        let upwards = path.components().any(|part| part == Component::ParentDir);
        if upwards || !path.is_absolute() {
            return false;
        }
        for part in path.ancestors() {
            match part.symlink_metadata() {
                // A link that leads nowhere may lead anywhere later.
                Ok(_) => {
                    return part
                        .canonicalize()
                        .is_ok_and(|part| part.starts_with(&self.0));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(_) => return false,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    #[test]
    fn sessions_stay_beneath_the_root() {
        let dir = TempDir::new().unwrap();
        let (root, outside) = (dir.path().join("root"), dir.path().join("outside"));
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::create_dir_all(dir.path().join("rooted")).unwrap();
        fs::create_dir_all(&outside).unwrap();
        symlink(&outside, root.join("out")).unwrap();
        symlink(root.join("a"), root.join("in")).unwrap();
        symlink(&root, dir.path().join("alias")).unwrap();
        symlink(outside.join("later"), root.join("dangling")).unwrap();
        fs::write(root.join("file"), "").unwrap();
        let held = WorkspaceRoot::open(&dir.path().join("alias")).unwrap();
        let held = held.of("").unwrap();
        let base = dir.path().display();
        for path in [
            "root",
            "root/",
            "root/a/b",
            "root/./a",
            "root/in/b",
            "root/new/er",
            "alias/a",
        ] {
            held.check("cwd", &format!("{base}/{path}")).expect(path);
        }
        for path in [
            "",
            "outside",
            "rooted",
            "root/../outside",
            "root/a/../../outside",
            "root/new/../../outside",
            "root/out",
            "root/out/new",
            "root/dangling",
            "root/dangling/x",
            "root/file/x",
            "nowhere",
        ] {
            let refused = held
                .check("cwd", &format!("{base}/{path}"))
                .expect_err(path);
            assert_eq!(refused.code, -32602);
            assert!(
                refused.message.contains("--workspace-root"),
                "{}",
                refused.message
            );
        }
        for path in ["", "root", "/", "/etc"] {
            held.check("cwd", path).expect_err(path);
        }
    }

    #[test]
    fn a_root_that_is_no_directory_is_a_fault() {
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        for name in ["file", "missing"] {
            assert!(
                WorkspaceRoot::open(&dir.path().join(name)).is_err(),
                "{name}"
            );
        }
        assert!(WorkspaceRoot::open(Path::new(".")).is_err());
    }
}
