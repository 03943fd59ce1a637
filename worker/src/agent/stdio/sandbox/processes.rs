//! Processes of its own: a namespace in which an agent sees itself and what it has started, with a
//! `/proc` that shows nothing else. Then `/proc` may be read, which some programs cannot do
//! without.
//!
//! The guard makes the namespace; its first child is the first process there, and mounts the
//! `/proc`.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, unshare};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change};
use rustix::process::{
    DumpableBehavior, Signal, getegid, geteuid, set_dumpable_behavior,
    set_parent_process_death_signal,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    configure_capability_in_ambient_set, set_capabilities,
};

use super::system;

/// Makes the namespace for what this process will start. Root needs nothing more for that; others
/// get a user namespace as well, in which they are who they were.
pub fn create_namespace(as_somebody_else: bool) -> io::Result<()> {
    match unshare(CloneFlags::CLONE_NEWPID) {
        Ok(()) => return Ok(()),
        // The namespace has one user, so another one is not possible.
        Err(error) if as_somebody_else => return Err(error.into()),
        Err(_) => {}
    }
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWPID)?;
    // A process that is not dumpable has `/proc` files that belong to root. It holds nothing yet
    // but what the agent gets.
    set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    let mapped = map(user, group);
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    mapped?;
    make_inheritable(CapabilitySet::SYS_ADMIN)
}

fn map(user: u32, group: u32) -> io::Result<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

/// Other programs than root's lose what they may do when they are started, unless it is said so.
fn make_inheritable(capability: CapabilitySet) -> io::Result<()> {
    let sets = capabilities(None)?;
    let inheritable = sets.inheritable | capability;
    set_capabilities(
        None,
        CapabilitySets {
            inheritable,
            ..sets
        },
    )?;
    Ok(configure_capability_in_ambient_set(capability, true)?)
}

/// Sets up the first process of the namespace: it cannot be inspected, ends with the guard, and
/// mounts the namespace's `/proc`. Without root it drops all capabilities after that.
pub fn enter_namespace() -> io::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    unshare(CloneFlags::CLONE_NEWNS)?;
    // Mounts made here are not visible outside; mounts made outside are still visible here.
    mount_change(
        "/",
        MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC,
    )?;
    let safe = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    // Processes are visible only to those who may inspect them: the agent may not inspect the first
    // one.
    mount("proc", "/proc", "proc", safe, c"hidepid=4")?;
    hide_kernel_files()?;
    if !geteuid().is_root() {
        clear_ambient_capability_set()?;
        let nothing = CapabilitySet::empty();
        set_capabilities(
            None,
            CapabilitySets {
                effective: nothing,
                permitted: nothing,
                inheritable: nothing,
            },
        )?;
    }
    Ok(())
}

/// Of the kernel's own files only those stay that agents may read anyway. Landlock's rules take
/// nothing out of a directory, and `/proc/kcore` is all memory, for root.
fn hide_kernel_files() -> io::Result<()> {
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        let is_process = entry.file_name().as_encoded_bytes()[0].is_ascii_digit();
        if is_process || kind.is_symlink() || system::of_the_kernel(&path) {
            continue;
        }
        if kind.is_dir() {
            cover_directory(&path)?
        } else {
            mount_bind("/dev/null", &path)?
        }
    }
    Ok(())
}

fn cover_directory(path: &Path) -> io::Result<()> {
    let safe = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    Ok(mount("tmpfs", path, "tmpfs", safe, c"size=4k,mode=555")?)
}

/// Whether the kernel and our privileges allow PID namespaces for agents: tried once, with all
/// steps.
pub fn check_support(ourselves: &Path, user: Option<(u32, u32)>) -> Result<(), String> {
    let mut command = Command::new(ourselves);
    command.args(["guard", "--sandbox", "--own-processes", "--try-out"]);
    if let Some((user, group)) = user {
        command.args(["--user", &user.to_string(), "--group", &group.to_string()]);
    }
    let output = command
        .args(["--", "nothing"])
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}
