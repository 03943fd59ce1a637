//! `baton serve --demo`: the same on real processes, so that one of them can be killed. A Redis of
//! its own and two workers, children of this process, which is the gateway. What is killed is
//! started again. Everything is on this machine, in memory, and ends with the process.

use std::collections::HashMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use baton_gateway::WorkerKiller;
use baton_session::id::random_text;
use baton_session::store::redis::{RedisOptions, RedisStore};
use baton_session::store::{Store, WorkerId};
use baton_session::sync::MutexExt as _;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// For the children of a demonstration: where the store is, and who they are.
pub const STORE: &str = "BATON_DEMO_STORE";
pub const WORKER: &str = "BATON_DEMO_WORKER";

const WORKERS: usize = 2;
/// A person who waits sees the turn go on before losing patience.
const PAUSE: Duration = Duration::from_millis(1500);
const LOOK: Duration = Duration::from_millis(100);
const REDIS_STARTS: Duration = Duration::from_secs(10);

/// The part of a worker that a child of a demonstration plays.
pub struct DemoWorker {
    pub store: Arc<dyn Store>,
    pub id: WorkerId,
}

impl DemoWorker {
    /// If this process is one.
    pub async fn from_environment() -> anyhow::Result<Option<Self>> {
        let (Ok(file), Ok(id)) = (std::env::var(STORE), std::env::var(WORKER)) else {
            return Ok(None);
        };
        let url = fs::read_to_string(&file).with_context(|| file.clone())?;
        Ok(Some(Self {
            store: connect(url.trim()).await?,
            id: WorkerId(id.into()),
        }))
    }
}

async fn connect(url: &str) -> anyhow::Result<Arc<dyn Store>> {
    let options = RedisOptions::new(url, "demo");
    Ok(Arc::new(RedisStore::connect_with(&options).await?))
}

/// Its processes end with it.
pub struct Demonstration {
    pub store: Arc<dyn Store>,
    redis: Child,
    workers: Arc<Mutex<HashMap<String, Child>>>,
    stop: CancellationToken,
}

impl Demonstration {
    pub async fn start() -> anyhow::Result<Self> {
        let dir = std::env::temp_dir().join(format!("baton-demo-{}", random_text(12)));
        let mut builder = fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder
            .create(&dir)
            .with_context(|| dir.display().to_string())?;
        let (redis, url) = start_redis(&dir)?;
        let mut demo = Self {
            store: Arc::new(baton_session::store::MemoryStore::default()),
            redis,
            workers: Arc::default(),
            stop: CancellationToken::new(),
        };
        demo.store = tokio::time::timeout(REDIS_STARTS, connect(&url))
            .await
            .map_err(|_| anyhow!("the demonstration's Redis does not answer"))??;
        let file = dir.join("url");
        fs::write(&file, url)?;
        for _ in 0..WORKERS {
            demo.workers.locked().extend([start_worker(&file)?]);
        }
        tokio::spawn(keep(demo.workers.clone(), file, demo.stop.clone()));
        Ok(demo)
    }

    /// kill -9, as the page asks for it.
    pub fn killer(&self) -> WorkerKiller {
        let workers = self.workers.clone();
        WorkerKiller(Arc::new(move |id| {
            let mut workers = workers.locked();
            let killed = workers.get_mut(id).map(Child::kill);
            killed.is_some_and(|killed| killed.is_ok())
        }))
    }
}

impl Drop for Demonstration {
    fn drop(&mut self) {
        self.stop.cancel();
        for child in self.workers.locked().values_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
        drop(self.redis.stdin.take());
        let _ = self.redis.wait();
    }
}

/// Two workers, whatever happens to them.
async fn keep(workers: Arc<Mutex<HashMap<String, Child>>>, file: PathBuf, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = sleep(LOOK) => {}
            () = stop.cancelled() => return,
        }
        let ended = {
            let mut workers = workers.locked();
            let before = workers.len();
            workers.retain(|_, child| matches!(child.try_wait(), Ok(None)));
            before - workers.len()
        };
        if ended == 0 {
            continue;
        }
        sleep(PAUSE).await;
        let mut workers = workers.locked();
        for _ in 0..ended {
            match start_worker(&file) {
                Ok(_) if stop.is_cancelled() => return,
                Ok((id, child)) => drop(workers.insert(id, child)),
                Err(error) => tracing::warn!(%error, "a worker of the demonstration cannot start"),
            }
        }
    }
}

/// What was said of the agent on our own command line is said of theirs.
fn start_worker(file: &Path) -> anyhow::Result<(String, Child)> {
    let id = random_text(12);
    let child = Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .env(STORE, file)
        .env(WORKER, &id)
        // It ends when this does, however that happens.
        .stdin(Stdio::piped())
        .spawn()
        .context("a worker of the demonstration cannot start")?;
    Ok((id, child))
}

/// The parent of Redis. It waits for the end of its input, which comes when this process ends,
/// however that happens; then it ends Redis, and removes the directory.
const REDIS_PARENT: &str = "redis-server \"$1/redis.conf\" & cat; kill -9 $!; rm -rf -- \"$1\"";

/// Its password is in neither the command line nor the environment.
fn start_redis(dir: &Path) -> anyhow::Result<(Child, String)> {
    let version = Command::new("redis-server").arg("--version").output();
    version.context(
        "--demo starts a Redis of its own, and there is no redis-server: install it, or leave \
         --demo out",
    )?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let password = random_text(32);
    let settings = format!(
        "port {port}\nbind 127.0.0.1\nsave \"\"\nappendonly no\nmaxmemory-policy noeviction\n\
         requirepass {password}\ndir {}\n",
        dir.display()
    );
    fs::write(dir.join("redis.conf"), settings)?;
    let parent = Command::new("sh")
        .args(["-c", REDIS_PARENT, "sh"])
        .arg(dir)
        // A Ctrl-C in the terminal is for us: it would end the shell before Redis.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("the demonstration's Redis cannot start")?;
    Ok((parent, format!("redis://:{password}@127.0.0.1:{port}")))
}
