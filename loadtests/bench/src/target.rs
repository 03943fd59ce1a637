//! What is measured: a set of processes that together serve ACP on one loopback address.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep};

use crate::client;
use crate::process::{Memory, Process};

/// How long a target may take from its first process to its first connection.
const START_LIMIT: Duration = Duration::from_secs(15);

/// Budgets that no run can use up: what is measured is that they are counted.
const BUDGETS: [(&str, &str); 6] = [
    ("BATON_LIMIT_REQUESTS", "1000000000"),
    ("BATON_LIMIT_BYTES", "1000000000000"),
    ("BATON_LIMIT_STREAMS", "1000000"),
    ("BATON_LIMIT_SESSIONS", "1000000"),
    ("BATON_LIMIT_TURNS", "1000000"),
    ("BATON_MAX_INFLIGHT_BYTES", "1000000000"),
];

/// The key `bk_bench`.
const API_KEYS: &str = r#"{"keys":[{"principal":"bench","sha256":"cde2c8064f6ab59f9a98fda87d93bc84257e13acb05984f63a4d2fdeaa28ed83"}]}"#;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// The official in-memory server, the yardstick.
    Official,
    /// `baton serve`: one process that keeps its sessions in files.
    Serve,
    /// `baton serve --ephemeral`: one process that keeps them in memory.
    Memory,
    /// `baton serve --ephemeral` that asks who calls.
    Guarded,
    /// `baton gateway`, `baton worker` and a Redis with AOF.
    Redis,
    /// `Serve` with another build.
    ServeBefore,
    /// `Redis` with another build.
    RedisBefore,
    /// The same, with a collector that they tell.
    #[value(skip)]
    Told,
    /// The same as `Redis`, asking who calls.
    #[value(skip)]
    Called,
    /// That, with an audit log for each process and budgets for each caller.
    #[value(skip)]
    Audited,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Official => "official",
            Kind::Serve => "baton serve",
            Kind::Memory => "baton serve --ephemeral",
            Kind::Guarded => "the same with --auth keys",
            Kind::Redis => "gateway + worker + Redis",
            Kind::ServeBefore => "baton serve, before",
            Kind::RedisBefore => "gateway + worker + Redis, before",
            Kind::Told => "the same with a collector",
            Kind::Called => "the same with --auth keys",
            Kind::Audited => "the same with --auth keys, audit log and budgets",
        }
    }

    /// A header line that says who calls.
    pub fn caller(self) -> &'static str {
        match self {
            Kind::Guarded | Kind::Called | Kind::Audited => "authorization: Bearer bk_bench\r\n",
            Kind::Official | Kind::Serve | Kind::Memory | Kind::Redis | Kind::Told => "",
            Kind::ServeBefore | Kind::RedisBefore => "",
        }
    }

    pub fn is_before(self) -> bool {
        matches!(self, Kind::ServeBefore | Kind::RedisBefore)
    }

    /// The process that holds the clients' streams.
    pub fn front(self) -> &'static str {
        match self {
            Kind::Official => "official",
            Kind::Serve | Kind::ServeBefore | Kind::Memory | Kind::Guarded => "serve",
            Kind::Redis | Kind::RedisBefore | Kind::Told | Kind::Called | Kind::Audited => {
                "gateway"
            }
        }
    }
}

#[derive(Clone)]
pub struct Programs {
    pub baton: PathBuf,
    /// Of another build.
    pub before: Option<PathBuf>,
    pub redis_server: PathBuf,
    /// Where there is a Redis.
    pub workers: usize,
}

impl Programs {
    /// With the build that this target runs.
    fn of(&self, kind: Kind) -> Self {
        let mut programs = self.clone();
        if let Some(before) = self.before.clone().filter(|_| kind.is_before()) {
            programs.baton = before;
        }
        programs
    }
}

pub struct Target {
    pub kind: Kind,
    pub addr: SocketAddr,
    pub redis: Option<SocketAddr>,
    processes: Vec<Process>,
    /// Runs beside them, and is not measured.
    collector: Option<Process>,
    /// Last, so that it is removed after the processes that write there are gone.
    dir: Scratch,
}

impl Target {
    pub async fn start(kind: Kind, programs: &Programs) -> Result<Self> {
        Self::start_with(kind, programs, &[]).await
    }

    /// With more options for `baton serve`.
    pub async fn start_with(kind: Kind, programs: &Programs, options: &[&str]) -> Result<Self> {
        let programs = &programs.of(kind);
        let mut target = Self {
            kind,
            addr: free_address()?,
            redis: None,
            processes: Vec::new(),
            collector: None,
            dir: Scratch::new()?,
        };
        match kind {
            Kind::Official => target.start_official()?,
            Kind::Serve | Kind::ServeBefore => {
                target.start_serve(programs, &["--data-dir=data"], options)?;
            }
            Kind::Memory => target.start_serve(programs, &["--ephemeral"], options)?,
            Kind::Guarded => {
                fs::write(target.dir.0.join("api-keys.json"), API_KEYS)?;
                let keys = "--auth-keys=api-keys.json";
                target.start_serve(programs, &["--ephemeral", "--auth=keys", keys], options)?;
            }
            Kind::Redis | Kind::RedisBefore => target.start_redis(programs, &[]).await?,
            Kind::Told => {
                let endpoint = target.start_collector()?;
                let telling = [
                    ("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint),
                    ("OTEL_METRIC_EXPORT_INTERVAL", "10000"),
                    ("BATON_TRACE_SAMPLE", "0.1"),
                ];
                target.start_redis(programs, &telling).await?;
            }
            Kind::Called | Kind::Audited => {
                let keys = target.dir.0.join("api-keys.json");
                fs::write(&keys, API_KEYS)?;
                let keys = keys.to_str().context("the temporary folder is not plain")?;
                let mut variables = vec![("BATON_AUTH", "keys"), ("BATON_AUTH_KEYS", keys)];
                if kind == Kind::Audited {
                    variables.extend(BUDGETS);
                }
                target.start_redis(programs, &variables).await?;
            }
        }
        target.ready(kind).await?;
        Ok(target)
    }

    /// Processor time so far, by process.
    pub fn cpu_ms(&self) -> Result<Vec<(&'static str, u64)>> {
        let one = |process: &Process| Ok((process.name, process.cpu_ms()?));
        self.processes.iter().map(one).collect()
    }

    pub fn memory(&self) -> Result<Vec<(&'static str, Memory)>> {
        let one = |process: &Process| Ok((process.name, process.memory()?));
        self.processes.iter().map(one).collect()
    }

    /// Resident memory of all processes together.
    pub fn rss_kib(&self) -> Result<u64> {
        Ok(self.memory()?.iter().map(|(_, memory)| memory.rss).sum())
    }

    pub fn check(&mut self) -> Result<()> {
        let all = self.processes.iter_mut().chain(&mut self.collector);
        all.into_iter().try_for_each(Process::check)
    }

    fn start_official(&mut self) -> Result<()> {
        let listen = self.addr.to_string();
        let mut command = Command::new(std::env::current_exe()?);
        self.run("official", command.args(["official", "--listen", &listen]))
    }

    /// Processes run in a fresh directory of their own, and so does a data directory named without a path.
    fn start_serve(&mut self, programs: &Programs, usual: &[&str], options: &[&str]) -> Result<()> {
        let listen = self.addr.to_string();
        let mut command = Command::new(&programs.baton);
        command.args(["serve", "--listen", &listen]);
        command.args(usual).args(options);
        self.run("serve", &mut command)
    }

    /// Where to send it to.
    fn start_collector(&mut self) -> Result<String> {
        let address = free_address()?.to_string();
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["collector", "--listen", &address]);
        self.collector = Some(Process::start("collector", &mut command, &self.dir.0)?);
        Ok(format!("http://{address}"))
    }

    async fn start_redis(&mut self, programs: &Programs, variables: &[(&str, &str)]) -> Result<()> {
        let redis = free_address()?;
        self.redis = Some(redis);
        let port = redis.port().to_string();
        let mut command = Command::new(&programs.redis_server);
        command.args(["--bind", "127.0.0.1", "--port", &port, "--save", ""]);
        command
            .args(["--appendonly", "yes", "--dir"])
            .arg(&self.dir.0);
        self.run("redis", &mut command)?;
        self.until("Redis answers PING", async || ping(redis).await)
            .await?;

        let (store, listen) = (format!("redis://{redis}"), self.addr.to_string());
        let keys = self.dir.0.join("keys");
        keygen(&programs.baton, &keys)?;
        let mut command = Command::new(&programs.baton);
        command.args(["gateway", "--store", &store, "--listen", &listen, "--keys"]);
        command.envs(variables.iter().copied());
        self.audits(&mut command, "gateway.audit");
        self.run("gateway", command.arg(&keys))?;
        for _ in 0..programs.workers {
            let mut command = Command::new(&programs.baton);
            command.envs(variables.iter().copied());
            self.audits(&mut command, "worker.audit");
            self.run(
                "worker",
                command.args(["worker", "--store", &store, "--agent", "scripted"]),
            )?;
        }
        Ok(())
    }

    /// Each process has a file of its own.
    fn audits(&self, command: &mut Command, file: &str) {
        if self.kind == Kind::Audited {
            command.env("BATON_AUDIT_LOG", self.dir.0.join(file));
        }
    }

    /// Ready is what a client can use: health says so, and `initialize` succeeds (a worker has registered).
    async fn ready(&mut self, kind: Kind) -> Result<()> {
        let (addr, path) = match kind {
            Kind::Official => (self.addr, "/health"),
            _ => (self.addr, "/readyz"),
        };
        self.until(path, async || {
            let status = client::get(addr, path).await?;
            ensure!(status == 200, "answered {status}");
            Ok(())
        })
        .await?;
        let caller = kind.caller();
        self.until("initialize", async || client::probe(addr, caller).await)
            .await
    }

    fn run(&mut self, name: &'static str, command: &mut Command) -> Result<()> {
        self.processes
            .push(Process::start(name, command, &self.dir.0)?);
        Ok(())
    }

    async fn until(&mut self, what: &str, attempt: impl AsyncFn() -> Result<()>) -> Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            self.check()?;
            let tried = tokio::time::timeout_at(deadline, attempt()).await;
            match tried.context("no answer").and_then(|result| result) {
                Ok(()) => return Ok(()),
                Err(error) if Instant::now() >= deadline => {
                    let words = self.processes.last().map(Process::last_words);
                    bail!(
                        "not ready: {what}: {error:#} ({})",
                        words.unwrap_or_default()
                    );
                }
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        }
    }
}

async fn ping(redis: SocketAddr) -> Result<()> {
    let mut socket = tokio::net::TcpStream::connect(redis).await?;
    socket.write_all(b"PING\r\n").await?;
    let mut answer = [0; 7];
    socket.read_exact(&mut answer).await?;
    ensure!(&answer == b"+PONG\r\n", "Redis is still loading");
    Ok(())
}

fn keygen(baton: &Path, keys: &Path) -> Result<()> {
    let file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(keys)?;
    let mut command = Command::new(baton);
    let status = command.args(["token", "keygen"]).stdout(file).status()?;
    ensure!(status.success(), "baton token keygen: {status}");
    Ok(())
}

fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// A directory for logs, keys and what the stores write, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        let unique = (std::process::id(), free_address()?.port());
        let path = std::env::temp_dir().join(format!("baton-bench-{}-{}", unique.0, unique.1));
        fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
