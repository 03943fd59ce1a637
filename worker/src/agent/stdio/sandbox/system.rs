//! System files that programs need to run, and those that agents never get.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::program;

/// Programs, libraries and settings; of `/etc` only world-readable files.
const SYSTEM: [&str; 12] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix/store",
    "/run/current-system",
    // A link to where it is, on many systems.
    "/etc/resolv.conf",
];

/// Of the kernel what runtimes read to find out where they are: processors, memory and limits. Not
/// the processes, with their environments and command lines; `confine` adds the agent's own.
const KERNEL: [&str; 10] = [
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys",
    "/proc/uptime",
    "/proc/version",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
];

/// Terminals and shared memory are other sessions', too.
const DEVICES: [&str; 5] = [
    "/dev/full",
    "/dev/null",
    "/dev/random",
    "/dev/urandom",
    "/dev/zero",
];

/// Never a session's directory, nor in one.
const NEVER: [&str; 3] = ["/dev", "/proc", "/sys"];

/// Files that certificates are read from, by the variables that name them.
const CERTIFICATES: [&str; 3] = ["NODE_EXTRA_CA_CERTS", "SSL_CERT_DIR", "SSL_CERT_FILE"];

pub fn readable(environment: &[(OsString, OsString)]) -> Vec<PathBuf> {
    let system = SYSTEM.iter().chain(&KERNEL).map(PathBuf::from);
    let named = environment.iter().filter(|(name, _)| {
        let mut all = CERTIFICATES.iter();
        all.any(|certificates| name == certificates)
    });
    let named = named.map(|(_, path)| PathBuf::from(path));
    let tools = program::search_path(environment).flat_map(|path| program::installation(&path));
    system.chain(named).chain(tools).collect()
}

/// One of those files of the kernel.
pub fn of_the_kernel(path: &Path) -> bool {
    KERNEL.iter().any(|known| Path::new(known) == path)
}

pub fn devices() -> Vec<PathBuf> {
    DEVICES.iter().map(PathBuf::from).collect()
}

/// With links followed, as far as they are there.
pub fn real(paths: &[PathBuf]) -> Vec<PathBuf> {
    let real = |path: &PathBuf| path.canonicalize().ok();
    paths.iter().filter_map(real).collect()
}

pub fn never() -> Vec<PathBuf> {
    NEVER.iter().map(PathBuf::from).collect()
}

/// Some services have `/` for their HOME, or one that is not theirs.
pub fn may_be_home(home: &Path) -> bool {
    let mut others = SYSTEM.iter().chain(&NEVER).map(Path::new);
    home.is_absolute() && !others.any(|other| other.starts_with(home))
}

/// Files in `/etc` that we can read and other users cannot: passwords, private keys.
pub fn private() -> Vec<PathBuf> {
    let mut found = Vec::new();
    look_through(Path::new("/etc"), 6, &mut found);
    found
}

const OTHERS_READ: u32 = 0o004;

fn look_through(directory: &Path, depth: u32, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let Ok(about) = entry.metadata() else {
            continue;
        };
        let path = entry.path();
        if about.is_symlink() {
            continue;
        }
        if about.permissions().mode() & OTHERS_READ == 0 {
            found.push(path);
        } else if about.is_dir() && depth > 0 {
            look_through(&path, depth - 1, found);
        }
    }
}
