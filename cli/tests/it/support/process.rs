//! Child processes that never outlive the test.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

pub use self::port::free_port;

#[path = "../../../../session/tests/it/port.rs"]
mod port;

pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program; its output goes to a file, shown when the test fails.
    pub fn start(dir: &Path, name: &str, command: &mut Command) -> Self {
        let log = dir.join(format!("{name}.log"));
        // To its end: some programs open it once more by the name /dev/stdout.
        let _ = std::fs::remove_file(&log);
        let output = File::options().create(true).append(true).open(&log);
        let output = output.expect("the test's directory is writable");
        let errors = output.try_clone().expect("a file can be shared");
        let spawned = command
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn();
        let program = command.get_program().to_string_lossy().into_owned();
        let child = spawned.unwrap_or_else(|e| {
            panic!("cannot start {program}: {e}. `make setup` installs what tests need")
        });
        Self {
            name: name.to_owned(),
            child,
            log,
        }
    }

    pub fn output(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Resident memory in kilobytes.
    pub fn memory(&self) -> u64 {
        memory(self.child.id())
    }

    /// The most resident memory since it was last forgotten, in kilobytes.
    pub fn peak(&self) -> u64 {
        kilobytes(self.child.id(), "VmHWM:")
    }

    pub fn forget_peak(&self) {
        let file = format!("/proc/{}/clear_refs", self.child.id());
        std::fs::write(file, "5").expect("the process runs");
    }

    /// kill -9.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub fn signal(&self, signal: &str) {
        let status = Command::new("kill")
            .arg(format!("-{signal}"))
            .arg(self.child.id().to_string())
            .status();
        assert!(
            status.expect("kill runs").success(),
            "{} is gone already",
            self.name
        );
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }

    pub async fn exit_status(&mut self) -> ExitStatus {
        super::within("a process ends", async {
            loop {
                if let Some(status) = self.ended() {
                    return status;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("---- {} ----\n{}", self.name, self.output());
        }
    }
}

/// A process's resident memory in kilobytes.
pub fn memory(process: u32) -> u64 {
    kilobytes(process, "VmRSS:")
}

fn kilobytes(process: u32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"));
    let status = status.expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.expect("a number of kilobytes")
}

/// What administrators send in tests.
pub const ADMIN_TOKEN: &str = "0123456789abcdef0123456789abcdef-admin";

pub fn baton() -> Command {
    baton_at(Path::new(env!("CARGO_BIN_EXE_baton")))
}

/// Another build of it.
pub fn baton_at(program: &Path) -> Command {
    let mut command = Command::new(program);
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("admin-token");
    // Never half of it: other tests start what reads it.
    if std::fs::read_to_string(&file).ok().as_deref() != Some(ADMIN_TOKEN) {
        let half = file.with_extension(std::process::id().to_string());
        std::fs::write(&half, ADMIN_TOKEN).expect("the directory is writable");
        std::fs::rename(&half, &file).expect("the directory is writable");
    }
    command.env("BATON_ADMIN_TOKEN_FILE", file);
    // Tests that are killed would leave their sockets on the machine.
    command.env("BATON_ADMIN_LISTEN", "none");
    command
}
