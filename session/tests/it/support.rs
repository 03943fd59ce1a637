//! Redis servers for tests: on a private port, in a directory of their own, gone with the test.

use std::future::Future;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use baton_session::store::redis::{Durability, RedisOptions, RedisStore};
use baton_session::store::{Error, Store};
use redis::{Client, FromRedisValue};
use tempfile::TempDir;
use tokio::time::{Instant, sleep, timeout};

use crate::port::free_port;

const PATIENCE: Duration = Duration::from_secs(20);
const REDIS: &str = "redis-server";

/// Ends a test that hangs.
pub async fn bounded<T>(test: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(50), test)
        .await
        .expect("the test ends in time")
}

pub struct RedisServer {
    process: Child,
    pub port: u16,
    pub bus_port: u16,
    // Removed after the process has ended.
    _directory: TempDir,
}

impl RedisServer {
    pub async fn start() -> anyhow::Result<Self> {
        Self::start_with(&[]).await
    }

    /// For a cluster; it still has to be told about the others.
    pub async fn start_node() -> anyhow::Result<Self> {
        Self::start_with(&["--cluster-enabled", "yes", "--cluster-node-timeout", "5000"]).await
    }

    /// A copy of this one, in step with it.
    pub async fn start_replica(&self) -> anyhow::Result<Self> {
        let of = format!("127.0.0.1 {}", self.port);
        let replica = Self::start_with(&["--replicaof", &of]).await?;
        until("the replica is in step", async || {
            let info: String = replica.command(&["INFO", "replication"]).await.ok()?;
            info.contains("master_link_status:up").then_some(())
        })
        .await?;
        Ok(replica)
    }

    pub async fn start_with(options: &[&str]) -> anyhow::Result<Self> {
        Self::start_program(Path::new(REDIS), options).await
    }

    /// A port that was free may be taken by the time the server asks for it: then with another.
    pub async fn start_program(program: &Path, options: &[&str]) -> anyhow::Result<Self> {
        for _ in 0..10 {
            let mut server = Self::spawn(program, options)?;
            if server.answers().await? {
                return Ok(server);
            }
        }
        bail!("redis-server found no port to listen on")
    }

    fn spawn(program: &Path, options: &[&str]) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let (port, bus_port) = free_ports();
        let mut command = Self::plain(program, &directory, port);
        command
            .args(options)
            .args(["--cluster-port", &bus_port.to_string()]);
        Self::launch(command, directory, (port, bus_port))
    }

    fn plain(program: &Path, directory: &TempDir, port: u16) -> Command {
        let mut command = Command::new(program);
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
        command.args(["--save", "", "--appendonly", "no", "--daemonize", "no"]);
        command.args(["--repl-diskless-sync-delay", "0"]);
        command.arg("--dir").arg(directory.path());
        command
    }

    /// One of those who watch over the primary and its replicas.
    pub async fn start_sentinel(primary: &Self) -> anyhow::Result<Self> {
        for _ in 0..10 {
            let directory = tempfile::tempdir()?;
            let (port, bus_port) = free_ports();
            let file = directory.path().join("sentinel.conf");
            let config = format!(
                "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor main 127.0.0.1 {} \
                 2\nsentinel down-after-milliseconds main 1000\nsentinel failover-timeout main \
                 4000\n",
                directory.path().display(),
                primary.port
            );
            std::fs::write(&file, config)?;
            let mut command = Command::new(REDIS);
            command.arg(file).arg("--sentinel");
            let mut sentinel = Self::launch(command, directory, (port, bus_port))?;
            if sentinel.answers().await? {
                return Ok(sentinel);
            }
        }
        bail!("no sentinel found a port to listen on")
    }

    /// Watches over a primary on its own, by TLS and with a password.
    pub async fn start_secured_sentinel(
        primary: u16,
        options: &[(&str, String)],
        password: &str,
    ) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let (port, bus_port) = free_ports();
        let file = directory.path().join("sentinel.conf");
        let mut config = format!("port {port}\nsentinel monitor main 127.0.0.1 {primary} 1\n");
        for (name, value) in options {
            config.push_str(&format!("{name} {value}\n"));
        }
        std::fs::write(&file, config)?;
        let mut command = Command::new(REDIS);
        command.arg(file).arg("--sentinel");
        let sentinel = Self::launch(command, directory, (port, bus_port))?;
        let url = format!("redis://:{password}@127.0.0.1:{port}");
        until("the sentinel answers", async || {
            let client = Client::open(url.as_str()).ok()?;
            let mut connection = client.get_multiplexed_async_connection().await.ok()?;
            let info: String = redis::cmd("INFO").query_async(&mut connection).await.ok()?;
            info.contains("status=ok").then_some(())
        })
        .await?;
        Ok(sentinel)
    }

    fn launch(
        mut command: Command,
        directory: TempDir,
        (port, bus_port): (u16, u16),
    ) -> anyhow::Result<Self> {
        let spawned = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let process = match spawned {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                bail!(
                    "redis-server is not installed, and this test needs it: `make setup` installs \
                     it"
                )
            }
            spawned => spawned.context("redis-server does not start")?,
        };
        Ok(Self {
            process,
            port,
            bus_port,
            _directory: directory,
        })
    }

    /// Waits for the first answer; false if the process ended instead.
    async fn answers(&mut self) -> anyhow::Result<bool> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if self.process.try_wait()?.is_some() {
                return Ok(false);
            }
            let pid: Option<String> = self.command(&["INFO", "server"]).await.ok();
            // Somebody else's server may sit on the port.
            let ours = format!("process_id:{}\r", self.process.id());
            if pid.is_some_and(|info| info.contains(&ours)) {
                return Ok(true);
            }
            if Instant::now() > deadline {
                bail!("redis-server does not answer")
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// As `kill -9` does.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// The process stands still, its connections stay.
    pub fn freeze(&self) -> anyhow::Result<()> {
        self.signal("-STOP")
    }

    pub fn thaw(&self) -> anyhow::Result<()> {
        self.signal("-CONT")
    }

    fn signal(&self, signal: &str) -> anyhow::Result<()> {
        let pid = self.process.id().to_string();
        let done = Command::new("kill").args([signal, &pid]).status()?;
        anyhow::ensure!(done.success(), "kill {signal} {pid}");
        Ok(())
    }

    /// Returns once the replica has all that was written here.
    pub async fn copied_to(&self, replica: &Self) -> anyhow::Result<()> {
        let written = self.info("master_repl_offset").await?;
        let written: u64 = written.parse()?;
        until("the replica has caught up", async || {
            let copied: u64 = replica.info("slave_repl_offset").await.ok()?.parse().ok()?;
            (copied >= written).then_some(())
        })
        .await
    }

    /// In place of one that was killed: the same address, and nothing in it.
    pub async fn start_empty_at(&mut self) -> anyhow::Result<()> {
        let directory = tempfile::tempdir()?;
        let (port, bus_port) = (self.port, self.bus_port);
        let command = Self::plain(Path::new(REDIS), &directory, port);
        *self = Self::launch(command, directory, (port, bus_port))?;
        anyhow::ensure!(self.answers().await?, "the port is taken");
        Ok(())
    }

    pub async fn info(&self, field: &str) -> anyhow::Result<String> {
        let info: String = self.command(&["INFO"]).await?;
        let value = info.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name == field).then(|| value.trim().to_owned())
        });
        value.with_context(|| format!("INFO has no {field}"))
    }

    pub async fn store(&self) -> anyhow::Result<Arc<dyn Store>> {
        Ok(Arc::new(RedisStore::connect(&self.url(), "test").await?))
    }

    /// Sends one command on a connection of its own.
    pub async fn command<T: FromRedisValue>(&self, words: &[&str]) -> anyhow::Result<T> {
        let client = Client::open(self.url())?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        Ok(timeout(PATIENCE, command.query_async(&mut connection)).await??)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A store that answers when a replica has it, too.
pub async fn replicated(url: &str) -> anyhow::Result<Arc<dyn Store>> {
    let options = RedisOptions {
        durability: Durability::Replicated,
        ..RedisOptions::new(url, "test")
    };
    Ok(Arc::new(RedisStore::connect_with(&options).await?))
}

/// As callers do: what was not acknowledged is asked for again.
pub async fn again<T, F: Future<Output = Result<T, Error>>>(step: impl Fn() -> F) -> T {
    loop {
        match step().await {
            Ok(outcome) => return outcome,
            Err(Error::Unavailable(_)) => sleep(Duration::from_millis(10)).await,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Repeats until there is something.
pub async fn until<T>(what: &str, attempt: impl AsyncFn() -> Option<T>) -> anyhow::Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = attempt().await {
            return Ok(found);
        }
        if Instant::now() > deadline {
            bail!("waited in vain: {what}")
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// A cluster's servers talk to each other on a port of their own.
pub fn free_ports() -> (u16, u16) {
    (free_port(), free_port())
}
