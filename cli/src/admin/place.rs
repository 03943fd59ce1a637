//! Where administrators are heard unless somebody says otherwise: a socket named after the
//! gateway's port, in a folder that both sides can work out. So gateways on one machine do not
//! meet, and commands find the only one by themselves.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use nix::unistd::Uid;

const OTHERS_WRITE: u32 = 0o022;
const NAME: (&str, &str) = ("admin-", ".sock");

/// Folders that may hold the socket, best first. Under systemd only the folder that it made for the
/// service counts. Elsewhere: this user's, the system's, one beside other temporary files, one in
/// shared memory, as containers often can write nowhere else.
fn folders() -> Vec<PathBuf> {
    let named = |name: &str| {
        let value = std::env::var(name).unwrap_or_default();
        // systemd separates several by colons.
        let first = value.split(':').next().map(PathBuf::from);
        first.filter(|path| path.is_absolute())
    };
    if let Some(folder) = named("RUNTIME_DIRECTORY") {
        return vec![folder];
    }
    let own = format!("baton-{}", Uid::effective());
    [
        named("XDG_RUNTIME_DIR").map(|path| path.join("baton")),
        Some("/run/baton".into()),
        Some(std::env::temp_dir().join(&own)),
        Some(Path::new("/dev/shm").join(&own)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The socket of the gateway on this port, made by `bind`.
pub fn bind<T>(port: u16, bind: impl Fn(&Path) -> io::Result<T>) -> io::Result<T> {
    let name = format!("{}{port}{}", NAME.0, NAME.1);
    let mut reasons = Vec::new();
    for folder in folders() {
        match prepare(&folder).and_then(|()| bind(&folder.join(&name))) {
            Ok(bound) => return Ok(bound),
            Err(error) => reasons.push(format!("{}: {error}", folder.display())),
        }
    }
    Err(io::Error::other(reasons.join("; ")))
}

/// Makes the folder, or checks that no other user can write to it: another user's socket could
/// stand in for ours.
fn prepare(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let about = fs::symlink_metadata(folder)?;
    let is_ours = about.is_dir() && about.uid() == Uid::effective().as_raw();
    if !is_ours || about.mode() & OTHERS_WRITE != 0 {
        return Err(io::Error::other("others can write there"));
    }
    Ok(())
}

/// Sockets at which somebody listens now, of all folders that this user and a gateway might share.
pub fn found() -> Vec<PathBuf> {
    // Anybody can make a folder beside temporary files, and listen there. In /run nobody can but
    // root.
    let trusted = |folder: &PathBuf| {
        let owners = [Uid::effective().as_raw(), 0];
        fs::symlink_metadata(folder).is_ok_and(|about| {
            let is_trusted = owners.contains(&about.uid()) || folder.starts_with("/run");
            is_trusted && about.is_dir() && about.mode() & OTHERS_WRITE == 0
        })
    };
    let files = folders().into_iter().filter(trusted);
    let files = files.flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
    let sockets = files.map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        let port = name.and_then(|name| name.strip_prefix(NAME.0)?.strip_suffix(NAME.1));
        port.is_some_and(|port| port.parse::<u16>().is_ok())
    });
    let mut alive: Vec<_> = sockets
        .filter(|path| UnixStream::connect(path).is_ok())
        .collect();
    alive.sort();
    alive.dedup();
    alive
}
