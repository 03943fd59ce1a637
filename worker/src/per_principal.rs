//! Directories per caller: `DIR/{principal}`, made when needed, readable by the owner only.

use std::fmt::Write as _;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, chown};
use std::path::{Component, Path, PathBuf};

use sha2::{Digest as _, Sha256};

const PLACEHOLDER: &str = "{principal}";
/// The longest name that file systems take.
const MAX_NAME: usize = 255;

/// One directory for all principals, or one for each.
#[derive(Clone, Debug)]
pub struct PerPrincipal {
    /// As far as it is the same, with links followed.
    base: PathBuf,
    /// The path below each principal's directory; `None` if there is one directory for all.
    own: Option<PathBuf>,
    /// User and group that own the directories, if not ours.
    owner: Option<(u32, u32)>,
    /// Names of directories are hashes, and others than their owner have no access to one that is
    /// there already.
    hashed: bool,
}

impl PerPrincipal {
    /// `{principal}` stands for one component of the path, once. The path before it must exist.
    pub fn open(path: &Path) -> io::Result<Self> {
        let is_placeholder = |part: &Component| part.as_os_str() == PLACEHOLDER;
        let base: PathBuf = path
            .components()
            .take_while(|part| !is_placeholder(part))
            .collect();
        let after = path.components().skip_while(|part| !is_placeholder(part));
        let after: PathBuf = after.skip(1).collect();
        let own = path
            .components()
            .any(|part| is_placeholder(&part))
            .then_some(after);
        let rest = own.as_deref().unwrap_or(Path::new(""));
        let plain = |part: Component| matches!(part, Component::Normal(_));
        let unused = |path: &Path| path.to_string_lossy().contains(PLACEHOLDER);
        if unused(&base) || unused(rest) || !rest.components().all(plain) {
            return Err(io::Error::other(
                "{principal} stands for one whole part of the path, and no .. follows",
            ));
        }
        let real = base.canonicalize()?;
        if real.is_dir() && path.is_absolute() {
            Ok(Self {
                base: real,
                own,
                owner: None,
                hashed: false,
            })
        } else {
            Err(io::Error::other("an absolute path of a directory"))
        }
    }

    pub fn owned_by(self, owner: Option<(u32, u32)>) -> Self {
        Self { owner, ..self }
    }

    /// Each principal has a directory of its own in this one, named by a hash.
    pub fn hashed(self) -> Self {
        let (own, hashed) = (Some(self.own.unwrap_or_default()), true);
        Self {
            own,
            hashed,
            ..self
        }
    }

    pub fn is_one_for_all(&self) -> bool {
        self.own.is_none()
    }

    /// All of them are in it.
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// The principal's, made if it is not there.
    pub fn of(&self, principal: &str) -> io::Result<PathBuf> {
        let Some(rest) = &self.own else {
            return Ok(self.base.clone());
        };
        let name = if self.hashed {
            hashed_name(principal)
        } else {
            folder_name(principal)
        };
        if principal.is_empty() || name.len() > MAX_NAME {
            return Err(io::Error::other("the principal is no name for a folder"));
        }
        let mut path = self.base.join(name);
        self.make(&path)?;
        for part in rest.components() {
            path.push(part);
            self.make(&path)?;
        }
        Ok(path)
    }

    fn make(&self, path: &Path) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => {
                let (user, group) = self.owner.unzip();
                return chown(path, user, group);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        // A link could lead to another principal's directory.
        let found = fs::symlink_metadata(path)?;
        if found.is_dir() {
            if self.hashed && found.permissions().mode() & 0o077 != 0 {
                fs::set_permissions(path, Permissions::from_mode(0o700))?;
            }
            Ok(())
        } else {
            Err(io::Error::other(format!(
                "{} is no directory",
                path.display()
            )))
        }
    }
}

/// Different for different principals, and never `.` or `..`: the kind of a principal comes first.
/// `key:alice` is `key=alice`.
fn folder_name(principal: &str) -> String {
    let mut name = String::new();
    for byte in principal.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'@' => name.push(byte as char),
            b'.' if !name.is_empty() => name.push('.'),
            b':' => name.push('='),
            other => name.push_str(&format!("~{other:02x}")),
        }
    }
    name
}

/// Says nothing about the principal.
fn hashed_name(principal: &str) -> String {
    let mut name = String::new();
    for byte in &Sha256::digest(principal)[..16] {
        let _ = write!(name, "{byte:02x}");
    }
    name
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    #[test]
    fn each_principal_has_a_folder_of_its_own() {
        let dir = TempDir::new().unwrap();
        let all = PerPrincipal::open(&dir.path().join("{principal}/work")).unwrap();
        let hostile = [
            "key:alice",
            "key:bob",
            "key=alice",
            "key~3aalice",
            "..",
            ".",
            "../x",
            "/etc",
            "a/b",
            "a\0b",
            "~",
            "KEY:alice",
        ];
        let mut seen = HashSet::new();
        for principal in hostile {
            let path = all.of(principal).unwrap();
            assert!(path.is_dir() && path.starts_with(all.base()), "{path:?}");
            assert_eq!(
                path.parent().unwrap().parent(),
                Some(all.base()),
                "{path:?}"
            );
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
            assert!(seen.insert(path), "{principal}");
        }
        assert!(all.of("key:alice").unwrap().ends_with("key=alice/work"));
        assert!(all.of("").is_err() && all.of(&"x".repeat(300)).is_err());
        symlink("/etc", all.base().join("key=eve")).unwrap();
        assert!(all.of("key:eve").is_err(), "a link is nobody's folder");
    }

    #[test]
    fn a_hashed_folder_is_its_owners_alone() {
        let dir = TempDir::new().unwrap();
        let all = PerPrincipal::open(dir.path()).unwrap().hashed();
        assert!(!all.is_one_for_all());
        let (alice, bob) = (all.of("key:alice").unwrap(), all.of("key:bob").unwrap());
        assert_ne!(alice, bob);
        let name = alice.file_name().unwrap().to_str().unwrap();
        assert!(name.len() == 32 && !name.contains("alice"), "{name}");
        fs::set_permissions(&alice, Permissions::from_mode(0o755)).unwrap();
        assert_eq!(all.of("key:alice").unwrap(), alice);
        let mode = alice.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        fs::remove_dir(&bob).unwrap();
        symlink(&alice, &bob).unwrap();
        assert!(all.of("key:bob").is_err() && all.of("").is_err());
    }

    #[test]
    fn the_placeholder_is_a_whole_part() {
        let dir = TempDir::new().unwrap();
        for wrong in [
            "x-{principal}",
            "{principal}/{principal}",
            "{principal}/../x",
            "missing/{principal}",
        ] {
            assert!(
                PerPrincipal::open(&dir.path().join(wrong)).is_err(),
                "{wrong}"
            );
        }
        assert!(PerPrincipal::open(Path::new("{principal}")).is_err());
        assert!(PerPrincipal::open(dir.path()).unwrap().is_one_for_all());
    }
}
