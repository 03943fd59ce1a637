//! Nobody but root reads this process: its memory, environment and open files in `/proc`, or a core
//! dump.

/// An agent runs as the same user unless `--agent-user` says otherwise, and may not be confined.
pub fn forbid() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        // It cannot fail with a value that the kernel knows.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}
