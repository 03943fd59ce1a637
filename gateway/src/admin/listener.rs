//! Where administrators come in, and how they are known: by a socket in a place that only they can
//! open, or by a secret that they can read.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream as Probe;
use std::path::{Path, PathBuf};

use axum::extract::connect_info::Connected;
use axum::http::{HeaderMap, header};
use axum::serve::IncomingStream;
use baton_session::guard;
use baton_session::store::FileStore;
use sha2::{Digest as _, Sha256};
use tokio::net::{TcpListener, UnixListener};

/// Shorter secrets could be guessed.
pub const MIN_SECRET: usize = 32;

pub enum AdminSocket {
    Unix(UnixListener, PathBuf),
    Tcp(TcpListener),
}

pub struct AdminListener {
    pub socket: AdminSocket,
    /// Everybody has to bring it, if there is one.
    pub secret: Option<AdminSecret>,
    /// The store that administrators can back up.
    pub files: Option<FileStore>,
}

/// Compared by its hash, so that time tells nothing.
#[derive(Clone)]
pub struct AdminSecret([u8; 32]);

impl AdminSecret {
    pub fn new(text: &str) -> Self {
        Self(Sha256::digest(text).into())
    }

    pub fn is_presented(&self, headers: &HeaderMap) -> bool {
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return false;
        };
        let presented = value.to_str().ok();
        let presented = presented.and_then(|value| value.strip_prefix("Bearer "));
        presented.is_some_and(|presented| Self::new(presented).0 == self.0)
    }
}

impl AdminSocket {
    /// Nobody else can open it, at no moment: it is made in a directory of its own and moved to its
    /// place.
    pub fn unix(path: &Path) -> io::Result<Self> {
        match fs::symlink_metadata(path) {
            Ok(there) if !there.file_type().is_socket() => {
                return Err(io::Error::other("there is something else in its place"));
            }
            Ok(_) if Probe::connect(path).is_ok() => {
                return Err(io::Error::other("another process listens there"));
            }
            _ => {}
        }
        let directory = path.with_extension(format!("{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&directory)?;
        let made = directory.join("s");
        let bound = UnixListener::bind(&made).and_then(|listener| {
            fs::set_permissions(&made, Permissions::from_mode(0o600))?;
            fs::rename(&made, path)?;
            Ok(listener)
        });
        let _ = fs::remove_file(&made);
        let _ = fs::remove_dir(&directory);
        Ok(Self::Unix(bound?, path.to_owned()))
    }
}

/// The process at the other end of a Unix socket.
#[derive(Clone, Copy, Debug)]
pub struct AdminPeer(Option<i32>);

impl Connected<IncomingStream<'_, UnixListener>> for AdminPeer {
    fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Self {
        let known = stream.io().peer_cred().ok();
        Self(known.and_then(|known| known.pid()))
    }
}

impl AdminPeer {
    /// Whether one of ours has started it: agents have the user that we have, and are no
    /// administrators. Their guard keeps what they start below itself, also if a worker has started
    /// it that is called otherwise than we are. One that cannot be looked at is taken for an agent.
    pub fn is_an_agent(self) -> bool {
        if !cfg!(target_os = "linux") {
            return false;
        }
        let own = process(std::process::id().cast_signed()).map(|(name, _)| name);
        let mut next = self.0.and_then(process).map(|(_, parent)| parent);
        if next.is_none() {
            return true;
        }
        while let Some(pid) = next.filter(|pid| *pid > 0) {
            match process(pid) {
                Some((name, _)) if own.as_ref() == Some(&name) || is_guard(&name) => return true,
                Some((_, parent)) => next = Some(parent),
                // Not of this container.
                None => return false,
            }
        }
        false
    }
}

fn is_guard(name: &str) -> bool {
    guard::NAME.to_bytes() == name.as_bytes()
}

/// The name of a process and its parent.
fn process(pid: i32) -> Option<(String, i32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(") ")?;
    let parent = rest.split(' ').nth(1)?.parse().ok()?;
    Some((name.to_owned(), parent))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_secret_is_brought_once_and_whole() {
        let secret = AdminSecret::new("a secret");
        let presented = |values: &[&'static str]| {
            let value =
                |value: &&'static str| (header::AUTHORIZATION, HeaderValue::from_static(value));
            let mut headers = HeaderMap::new();
            for (name, value) in values.iter().map(value) {
                headers.append(name, value);
            }
            secret.is_presented(&headers)
        };
        assert!(presented(&["Bearer a secret"]));
        for wrong in [
            &[][..],
            &["a secret"],
            &["Bearer "],
            &["Bearer a secre"],
            &["Bearer a secret"; 2],
        ] {
            assert!(!presented(wrong), "{wrong:?}");
        }
    }

    #[tokio::test]
    async fn a_socket_is_its_owners_and_takes_the_place_of_one_that_is_dead() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("admin.sock");
        for _ in 0..2 {
            let socket = AdminSocket::unix(&path).unwrap();
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            assert!(AdminSocket::unix(&path).is_err());
            drop(socket);
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let file = dir.path().join("file");
        fs::write(&file, "kept").unwrap();
        assert!(AdminSocket::unix(&file).is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
    }
}
