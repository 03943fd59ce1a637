//! Landlock: rules that a process gives itself, and its children inherit. Nothing takes them back.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, LandlockStatus, NetPort, PathBeneath, PathFd,
    RestrictionStatus, Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _,
    RulesetError, RulesetStatus, Scope, make_bitflags,
};

use super::ConfinePlan;
use super::paths::held;

/// The newest that the rules were written for. The kernel does what it knows of them.
const NEWEST: ABI = ABI::V9;
/// Access rights that a rule for a file may have; the others are for directories.
const OF_FILES: BitFlags<AccessFs> = make_bitflags!(AccessFs::{
    Execute | WriteFile | ReadFile | Truncate | IoctlDev | ResolveUnix
});

/// The version of the kernel's Landlock interface, 0 for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LandlockSupport(pub i32);

impl LandlockSupport {
    pub fn abi(self) -> i32 {
        self.0
    }

    pub fn is_some(self) -> bool {
        self.0 > 0
    }

    pub fn confines_tcp(self) -> bool {
        self.0 >= 4
    }

    pub fn confines(self) -> String {
        self.parts(true)
    }

    pub fn leaves_open(self) -> String {
        let open = self.parts(false);
        if open.is_empty() {
            "UDP".to_owned()
        } else {
            format!("{open}, UDP")
        }
    }

    fn parts(self, given: bool) -> String {
        let parts = [
            (1, "files, other processes' memory"),
            (3, "truncation of files"),
            (4, "TCP ports (--agent-connect)"),
            (5, "device controls"),
            (6, "signals, abstract Unix sockets"),
            (9, "Unix sockets by path"),
        ];
        let parts = parts
            .iter()
            .filter(|(since, _)| (self.0 >= *since) == given);
        parts.map(|(_, what)| *what).collect::<Vec<_>>().join(", ")
    }
}

/// Asks on a thread that ends with the answer: rules hold for the thread that takes them on.
pub fn support() -> LandlockSupport {
    let asked = std::thread::spawn(|| {
        let status = ruleset(None)?.restrict_self()?;
        Ok::<_, RulesetError>(status.landlock)
    });
    match asked.join() {
        Ok(Ok(LandlockStatus::Available {
            effective_abi,
            kernel_abi,
        })) => LandlockSupport(kernel_abi.unwrap_or(effective_abi as i32)),
        _ => LandlockSupport(0),
    }
}

fn ruleset(connect: Option<&[u16]>) -> Result<RulesetCreated, RulesetError> {
    let mut ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?;
    if connect.is_some() {
        ruleset = ruleset.handle_access(AccessNet::ConnectTcp)?;
    }
    let mut ruleset = ruleset.create()?;
    for port in connect.unwrap_or_default() {
        ruleset = ruleset.add_rule(NetPort::new(*port, AccessNet::ConnectTcp))?;
    }
    Ok(ruleset)
}

/// From here on this process, and all that it starts, is confined.
pub fn enforce(plan: &ConfinePlan) -> io::Result<()> {
    let status = restrict(plan).map_err(io::Error::other)?;
    match status.ruleset {
        RulesetStatus::NotEnforced if plan.enforced => {
            Err(io::Error::other("the kernel does not confine it any more"))
        }
        _ => Ok(()),
    }
}

#[derive(Debug, thiserror::Error)]
enum ConfineError {
    #[error("it cannot be confined: {0}")]
    Rules(#[from] RulesetError),
    #[error("{0:?} is not where it was: the session's directories must lie where they may")]
    Moved(PathBuf),
}

fn restrict(plan: &ConfinePlan) -> Result<RestrictionStatus, ConfineError> {
    let mut ruleset = ruleset(plan.connect.as_deref())?;
    // `/proc/self` is another directory for each process, and rules name existing ones: the rule
    // covers this process, which becomes the agent. Its children get no rule, as all of `/proc`
    // would show other processes' environments: Landlock only closes their memory. In a PID
    // namespace of its own the agent may read all of `/proc`.
    let own = [PathBuf::from(if plan.own_processes {
        "/proc"
    } else {
        "/proc/self"
    })];
    let granted = [
        (&plan.read[..], AccessFs::from_read(NEWEST)),
        (&own, AccessFs::from_read(NEWEST)),
        (&plan.list, AccessFs::ReadDir.into()),
        (&plan.write, AccessFs::from_all(NEWEST)),
    ];
    for (paths, access) in granted {
        for path in paths {
            // Missing paths, and those that this user may not open, are not granted.
            if let Ok(file) = PathFd::new(path) {
                ruleset = add(ruleset, file, access)?;
            }
        }
    }
    for directory in &plan.directories {
        if let Ok(file) = PathFd::new(directory) {
            check(&file, plan, directory)?;
            ruleset = add(ruleset, file, AccessFs::from_all(NEWEST))?;
        }
    }
    Ok(ruleset.restrict_self()?)
}

/// The directory that is open now, whatever has been put in its place.
fn check(file: &PathFd, plan: &ConfinePlan, directory: &Path) -> Result<(), ConfineError> {
    let moved = || ConfineError::Moved(directory.to_owned());
    let real = fs::read_link(format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()));
    let real = real.map_err(|_| moved())?;
    let beneath = plan.beneath.as_ref();
    if held(&real, &plan.kept).is_none() && beneath.is_none_or(|root| real.starts_with(root)) {
        Ok(())
    } else {
        Err(moved())
    }
}

fn add(
    ruleset: RulesetCreated,
    file: PathFd,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let about = rustix::fs::fstat(&file);
    let is_directory = about.is_ok_and(|about| {
        rustix::fs::FileType::from_raw_mode(about.st_mode) == rustix::fs::FileType::Directory
    });
    let access = if is_directory {
        access
    } else {
        access & OF_FILES
    };
    if access.is_empty() {
        Ok(ruleset)
    } else {
        ruleset.add_rule(PathBeneath::new(file, access))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kernel_lacks_is_said() {
        assert!(!LandlockSupport(0).is_some());
        assert_eq!(LandlockSupport(0).confines(), "");
        assert!(LandlockSupport(0).leaves_open().starts_with("files"));
        assert!(LandlockSupport(1).leaves_open().contains("signals"));
        assert!(!LandlockSupport(3).confines_tcp() && LandlockSupport(4).confines_tcp());
        assert!(LandlockSupport(7).confines().contains("signals"));
        assert_eq!(
            LandlockSupport(7).leaves_open(),
            "Unix sockets by path, UDP"
        );
    }

    #[test]
    fn asking_confines_nobody() {
        assert!(support().is_some(), "the tests need a kernel with Landlock");
        assert!(fs::read_dir("/").is_ok());
    }
}
