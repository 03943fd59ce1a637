//! Baton in its two shapes: one process, and replicas on a real Redis behind a real balancer.

use std::fs;
use std::path::Path;
use std::process::Command;

use std::path::PathBuf;

use baton_session::token::generate;
use jsonwebtoken::Algorithm;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::balancer::{Balancer, Kind};
use super::process::{Process, baton, free_port};
use super::{Client, until};

/// `baton serve`.
pub struct Served {
    pub process: Process,
    port: u16,
    dir: TempDir,
    arguments: Vec<String>,
}

impl Served {
    /// With its data in files.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    pub async fn start_with(arguments: &[&str]) -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        let port = free_port();
        let arguments: Vec<String> = arguments.iter().map(|word| word.to_string()).collect();
        let process = Self::launch(&dir, port, &arguments);
        ready(port).await;
        Self {
            process,
            port,
            dir,
            arguments,
        }
    }

    fn launch(dir: &TempDir, port: u16, arguments: &[String]) -> Process {
        let mut command = baton();
        command.args(["serve", "--listen", &address(port)]);
        if !arguments.iter().any(|word| word == "--ephemeral") {
            command.arg("--data-dir").arg(dir.path().join("data"));
        }
        command.args(arguments);
        if arguments.iter().any(|word| word.starts_with("unix:")) {
            // The socket alone says who is an administrator.
            command.env_remove("BATON_ADMIN_TOKEN_FILE");
        }
        Process::start(dir.path(), "serve", &mut command)
    }

    /// kill -9, and once more from the beginning with the same data.
    pub async fn kill_and_restart(&mut self) {
        self.process.kill();
        self.process = Self::launch(&self.dir, self.port, &self.arguments);
        ready(self.port).await;
    }

    pub fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub fn url(&self) -> String {
        url(self.port)
    }
}

pub struct Redis {
    pub process: Process,
    pub port: u16,
    dir: TempDir,
    arguments: Vec<String>,
}

impl Redis {
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    pub async fn start_with(arguments: &[&str]) -> Self {
        // Not where sessions are: no agent may be in a directory that holds the store's password.
        let dir = TempDir::new_in("/var/tmp").expect("a temporary directory");
        let port = free_port();
        let arguments: Vec<String> = arguments.iter().map(|word| word.to_string()).collect();
        let process = Self::launch(&dir, port, &arguments);
        let redis = Self {
            process,
            port,
            dir,
            arguments,
        };
        redis.answers().await;
        redis
    }

    /// With the users of `baton store users`; tests themselves need none, unless it is `--strict`.
    fn launch(dir: &TempDir, port: u16, arguments: &[String]) -> Process {
        let users = write_users(dir.path(), port, !arguments.contains(&STRICT.to_owned()));
        let arguments = arguments.iter().filter(|word| *word != STRICT);
        let mut command = Command::new("redis-server");
        command.arg("--aclfile").arg(users);
        command.args([
            "--port",
            &port.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "yes",
            // By default the file is written behind a slow disk: killed then, Redis loses what it has
            // acknowledged, and tests that kill it would fail now and then.
            "--appendfsync",
            "always",
        ]);
        command.args(arguments).arg("--dir").arg(dir.path());
        Process::start(dir.path(), "redis", &mut command)
    }

    async fn answers(&self) {
        let port = self.port;
        until("Redis answers", async || {
            let pong = redis_cli(port, &["--user", "baton-probe", "--pass", "any", "ping"]);
            pong.starts_with("PONG").then_some(())
        })
        .await;
    }

    pub async fn restart(&mut self) {
        self.process.kill();
        self.process = Self::launch(&self.dir, self.port, &self.arguments);
        self.answers().await;
    }

    pub fn store(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Where the URL is that gateways, workers or people log in with.
    pub fn store_file(&self, role: &str) -> PathBuf {
        self.dir.path().join("users").join(role).join("url")
    }

    pub fn store_of(&self, role: &str) -> String {
        let url = fs::read_to_string(self.store_file(role));
        url.expect("written at the start").trim().to_owned()
    }

    /// What redis-cli says to somebody in this role.
    pub fn asked_by(&self, role: &str, words: &[&str]) -> String {
        let url = self.store_of(role);
        let mut command = Command::new("redis-cli");
        command.args(["--no-auth-warning", "-u", &url]).args(words);
        let output = command.output().expect("redis-cli runs");
        let said = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&said).trim().to_owned()
    }

    /// Everything that was ever written to it, as it keeps it on disk: all that workers could know.
    pub fn written(&self) -> Vec<u8> {
        let files = fs::read_dir(self.dir.path().join("appendonlydir")).expect("it keeps a file");
        let read = |file: std::io::Result<fs::DirEntry>| fs::read(file.expect("a file").path());
        files.flat_map(|file| read(file).expect("a file")).collect()
    }

    /// The id of the worker that held the session last.
    pub fn worker_of(&self, session: &str) -> String {
        self.asked_by("admin", &["hget", &session_key("s", session), "wk"])
    }
}

/// Where Redis keeps something of a session, by the letter of `keys.rs`.
pub fn session_key(kind: &str, session: &str) -> String {
    let tag = session.split('-').next().expect("an id has a tag");
    format!("baton:{{{tag}}}:{kind}:{session}")
}

/// For a Redis that tests can only use as somebody, too.
pub const STRICT: &str = "--strict";

fn write_users(dir: &Path, port: u16, open: bool) -> PathBuf {
    let users = dir.join("users");
    let made = baton()
        .args([
            "store",
            "users",
            "--at",
            &format!("redis://127.0.0.1:{port}"),
            "--dir",
        ])
        .arg(&users)
        .output()
        .expect("baton runs");
    assert!(made.status.success(), "{made:?}");
    let file = users.join("redis").join("users.acl");
    let rules = fs::read_to_string(&file).expect("just written");
    if open {
        let (first, rest) = rules.split_once('\n').expect("more than one user");
        assert!(first.starts_with("user default "), "{first}");
        let rules = format!("user default on nopass ~* &* +@all\n{rest}");
        fs::write(&file, rules).expect("the directory is writable");
    }
    file
}

/// What redis-cli says; nothing if there is no answer.
pub fn redis_cli(port: u16, arguments: &[&str]) -> String {
    let output = Command::new("redis-cli")
        .args(["-p", &port.to_string()])
        .args(arguments)
        .output()
        .expect("redis-cli runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// MCP servers that tests name.
pub const ALLOWED_SERVERS: [(&str, &str); 2] = [
    ("BATON_ALLOW_MCP_STDIO", "/bin/true"),
    ("BATON_ALLOW_MCP_URL", "http://127.0.0.1:1"),
];

/// Two gateways behind a balancer, which spreads every request unless a test wants another; two
/// workers, one Redis.
pub struct Cluster {
    pub redis: Redis,
    pub gateways: Vec<Process>,
    pub workers: Vec<Process>,
    gateway_arguments: Vec<String>,
    ports: Vec<u16>,
    admin_ports: Vec<u16>,
    /// Started last: one that checks whether gateways are ready would route by those that it has
    /// seen so far.
    balancer: Option<Balancer>,
    dir: TempDir,
}

impl Cluster {
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// With these arguments for the gateways.
    pub async fn start_with(gateway_arguments: &[&str]) -> Self {
        Self::start_behind_with(Kind::RoundRobin, gateway_arguments).await
    }

    /// The same, for gateways whose own agent nobody runs yet.
    pub async fn start_unused(gateway_arguments: &[&str]) -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        Self::launch(dir, gateway_arguments, Kind::RoundRobin).await
    }

    /// Behind this balancer, with keys that it can verify tokens with.
    pub async fn start_behind(balancer: Kind) -> Self {
        Self::start_behind_with(balancer, &[]).await
    }

    pub async fn start_behind_with(balancer: Kind, gateway_arguments: &[&str]) -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        Self::start_in(dir, gateway_arguments, balancer).await
    }

    /// For callers with the API keys of `auth::KEYS`.
    pub async fn start_with_keys() -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        let keys = super::auth::write_keys(dir.path());
        let arguments = [
            "--auth",
            "keys",
            "--auth-keys",
            &keys,
            "--allow-origin",
            "http://localhost:3000",
        ];
        Self::start_in(dir, &arguments, Kind::RoundRobin).await
    }

    async fn start_in(dir: TempDir, gateway_arguments: &[&str], balancer: Kind) -> Self {
        let cluster = Self::launch(dir, gateway_arguments, balancer).await;
        // A worker makes itself known when it has connected.
        let url = cluster.url();
        until("an agent is registered", async || {
            Client::try_with_key(&url, super::auth::ALICE).await
        })
        .await;
        cluster
    }

    async fn launch(dir: TempDir, gateway_arguments: &[&str], balancer: Kind) -> Self {
        Self::launch_on(Redis::start().await, dir, gateway_arguments, balancer).await
    }

    /// On a Redis that nobody uses without a password.
    pub async fn start_strict() -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        let redis = Redis::start_with(&[STRICT]).await;
        let cluster = Self::launch_on(redis, dir, &[], Kind::RoundRobin).await;
        let url = cluster.url();
        until("an agent is registered", async || {
            Client::try_initialize(&url).await
        })
        .await;
        cluster
    }

    async fn launch_on(
        redis: Redis,
        dir: TempDir,
        gateway_arguments: &[&str],
        balancer: Kind,
    ) -> Self {
        let keys = dir.path().join("keys.json");
        match balancer {
            Kind::Envoy => write_published_keys(&keys),
            _ => write_keys(&keys),
        }
        let ports = vec![free_port(), free_port()];
        let admin_ports = vec![free_port(), free_port()];
        let mut cluster = Self {
            redis,
            gateways: Vec::new(),
            workers: Vec::new(),
            gateway_arguments: gateway_arguments
                .iter()
                .map(|argument| argument.to_string())
                .collect(),
            ports,
            admin_ports,
            balancer: None,
            dir,
        };
        for number in 0..2 {
            cluster.gateways.push(cluster.gateway(number));
            cluster.workers.push(cluster.worker(number));
        }
        for port in &cluster.ports {
            ready(*port).await;
        }
        let balancer = Balancer::start(balancer, cluster.dir.path(), &cluster.ports);
        ready(balancer.port).await;
        cluster.balancer = Some(balancer);
        cluster
    }

    fn gateway(&self, number: usize) -> Process {
        let mut command = baton();
        command.args(["gateway", "--listen", &address(self.ports[number])]);
        command
            .arg("--store-file")
            .arg(self.redis.store_file("gateway"));
        command.arg("--keys").arg(self.dir.path().join("keys.json"));
        command.args(["--admin-listen", &address(self.admin_ports[number])]);
        command.args(&self.gateway_arguments);
        Process::start(self.dir.path(), &format!("gateway-{number}"), &mut command)
    }

    pub fn worker(&self, number: usize) -> Process {
        self.worker_with(number, |_| ())
    }

    /// Logs and keys are in it.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// One more, in a process that `prepare` has a hand in.
    pub fn worker_with(&self, number: usize, prepare: impl FnOnce(&mut Command)) -> Process {
        let mut command = baton();
        command.envs(ALLOWED_SERVERS);
        prepare(&mut command);
        command.args(["worker", "--lease-ms", "2000", "--store-file"]);
        command.arg(self.redis.store_file("worker"));
        Process::start(self.dir.path(), &format!("worker-{number}"), &mut command)
    }

    /// As a rolling restart does: the new one comes when the old one has left. Returns what that
    /// one said.
    pub async fn restart_gateway(&mut self, number: usize) -> String {
        self.gateways[number].signal("TERM");
        let left = self.gateways[number].exit_status().await;
        let log = self.gateways[number].output();
        assert!(left.success(), "{log}");
        self.gateways[number] = self.gateway(number);
        ready(self.ports[number]).await;
        log
    }

    /// One that was killed comes back.
    pub async fn revive_gateway(&mut self, number: usize) {
        self.gateways[number] = self.gateway(number);
        ready(self.ports[number]).await;
    }

    pub async fn restart_worker(&mut self, number: usize) {
        self.workers[number].signal("TERM");
        let left = self.workers[number].exit_status().await;
        assert!(left.success(), "{}", self.workers[number].output());
        self.workers[number] = self.worker(number);
    }

    pub fn balancer(&self) -> &Balancer {
        self.balancer.as_ref().expect("started with the cluster")
    }

    /// The balancer's.
    pub fn url(&self) -> String {
        url(self.balancer().port)
    }

    /// Where the keys of the gateways are.
    pub fn key_file(&self) -> PathBuf {
        self.dir.path().join("keys.json")
    }

    /// What the gateways sign with.
    pub fn keys(&self) -> String {
        fs::read_to_string(self.key_file()).expect("written at the start")
    }

    /// The gateways notice by themselves.
    pub fn write_keys(&self, text: &str) {
        let (half, whole) = (
            self.dir.path().join("half"),
            self.dir.path().join("keys.json"),
        );
        fs::write(&half, text).expect("the directory is writable");
        fs::rename(half, whole).expect("the directory is writable");
    }

    /// Where a gateway hears administrators.
    pub fn admin_url(&self, number: usize) -> String {
        format!("http://{}", address(self.admin_ports[number]))
    }

    /// One of the gateways, past the balancer.
    pub fn gateway_url(&self, number: usize) -> String {
        url(self.ports[number])
    }
}

pub fn write_keys(path: &Path) {
    let keygen = baton().args(["token", "keygen"]).output();
    fs::write(path, keygen.expect("baton runs").stdout).expect("the directory is writable");
}

/// One of each kind that others can verify tokens with.
fn write_published_keys(path: &Path) {
    let keys = [Algorithm::EdDSA, Algorithm::ES256].map(|algorithm| {
        let set: Value = serde_json::from_str(&generate(algorithm)).expect("a key set");
        set["keys"][0].clone()
    });
    let set = json!({ "keys": keys });
    fs::write(path, set.to_string()).expect("the directory is writable");
}

pub fn address(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

pub fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}/acp")
}

pub async fn ready(port: u16) {
    until("ready", async || {
        let response = reqwest::get(format!("http://127.0.0.1:{port}/readyz"))
            .await
            .ok()?;
        response.status().is_success().then_some(())
    })
    .await;
}
