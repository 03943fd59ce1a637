//! An agent that looks for what is not its own (`tests/agents/hostile.py`), in one process and in a cluster.

use std::fs;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::stdio::Visit;
use crate::support::auth::{ALICE, BOB, write_keys};
use crate::support::cluster::{Redis, address, ready, redis_cli, write_keys as write_signing_keys};
use crate::support::process::{Process, baton, free_port};
use crate::support::{Client, Served, until};

pub(super) fn hostile() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agents/hostile.py");
    format!("stdio:python3 {}", file.display())
}

/// A workspace with something of alice's in it, and bob's directory beside hers.
struct Workspace {
    dir: TempDir,
}

impl Workspace {
    fn new() -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        for name in ["root/alice", "root/bob", "home"] {
            fs::create_dir_all(dir.path().join(name)).expect("the directory is writable");
        }
        fs::write(dir.path().join("root/alice/diary"), "dear diary").expect("it is writable");
        fs::write(dir.path().join("outside"), "a file of nobody's").expect("it is writable");
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }
}

pub(super) async fn new_in(client: &Client, cwd: &str, directories: &[&str]) -> Value {
    let params = json!({ "cwd": cwd, "mcpServers": [], "additionalDirectories": directories });
    let id = json!(format!("new in {cwd} {directories:?}"));
    let new = json!({ "jsonrpc": "2.0", "id": id, "method": "session/new", "params": params });
    client.one_shot(new).await.response(&id).await
}

pub(super) async fn visit_in(url: &str, key: &str, cwd: &str) -> Visit {
    let client = Client::with_key(url, key).await;
    let answer = new_in(&client, cwd, &[]).await;
    let session = answer["result"]["sessionId"].as_str();
    let session = session.unwrap_or_else(|| panic!("{answer}")).to_owned();
    Visit::of(client, session).await
}

/// It got nothing, and could do what an agent does.
pub(super) async fn comes_away_with_nothing(visit: &mut Visit, orders: Value) {
    let said = visit.says(&orders.to_string()).await;
    let report: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"));
    assert_eq!(report["loot"], json!([]), "{report:#}");
    let own = ["mine", "mine", "mine", "ok", "Name:", "MemTotal:"];
    assert_eq!(report["own"], json!(own), "{report:#}");
}

/// Nobody in the sandbox may reach it by name.
fn abstract_socket() -> (UnixListener, String) {
    let name = format!("baton-test-{}", free_port());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let listener = UnixListener::bind_addr(&address).expect("a socket");
    (listener, format!("@{name}"))
}

#[tokio::test]
async fn f3_a_hostile_agent_comes_away_with_nothing_in_one_process() {
    let space = Workspace::new();
    let (keys, root) = (write_keys(space.dir.path()), space.text("root"));
    let agent = hostile();
    let arguments = [
        "--auth",
        "keys",
        "--auth-keys",
        &keys,
        "--agent",
        &agent,
        "--workspace-root",
        &root,
    ];
    let baton = Served::start_with(&arguments).await;
    let _alice = visit_in(&baton.url(), ALICE, &space.text("root/alice")).await;
    let mut bob = visit_in(&baton.url(), BOB, &space.text("root/bob")).await;
    let data = baton.data_dir();
    let all = fs::read_dir(&data).expect("it is there").flatten();
    let files: Vec<_> = all
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .collect();
    assert!(!files.is_empty(), "the key that signs tokens is there");
    let (_listener, name) = abstract_socket();
    let serve = baton.process.id();
    let started = crate::stdio::descendants(&serve.to_string());
    let started = started.iter().filter_map(|pid| pid.parse().ok());
    // Its own processes are the agent's to look into.
    let mut pids: Vec<u32> = started
        .filter(|pid| is_guard(*pid) || is_alices(*pid))
        .collect();
    assert!(pids.iter().any(|pid| is_alices(*pid)), "alice's agent runs");
    pids.push(serve);
    let mut files = files;
    files.extend([
        PathBuf::from(&keys),
        space.path("root/alice/diary"),
        space.path("outside"),
    ]);
    comes_away_with_nothing(
        &mut bob,
        json!({
            "pids": pids,
            "files": files,
            "folders": [data, space.path("root/alice"), space.path("root"), "/root/.ssh"],
            "sockets": [name],
            "own": [space.path("root/bob")],
        }),
    )
    .await;
    assert_eq!(
        fs::read_to_string(space.path("root/alice/diary")).expect("it is there"),
        "dear diary"
    );
}

fn is_guard(pid: u32) -> bool {
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    command.windows(7).any(|word| word == b"\0guard\0")
}

fn is_alices(pid: u32) -> bool {
    fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.ends_with("alice"))
}

const PASSWORD: &str = "only-the-worker-knows";

#[tokio::test]
async fn f3_a_hostile_agent_comes_away_with_nothing_in_a_cluster() {
    let space = Workspace::new();
    let redis = Redis::start().await;
    redis_cli(redis.port, &["config", "set", "requirepass", PASSWORD]);
    let store = format!("redis://:{PASSWORD}@127.0.0.1:{}", redis.port);
    let signing = space.path("keys.json");
    write_signing_keys(&signing);
    let keys = write_keys(space.dir.path());
    let (port, admin) = (free_port(), free_port());
    let mut command = baton();
    command.arg("gateway").env("BATON_STORE", &store);
    command.args([
        "--listen",
        &address(port),
        "--admin-listen",
        &address(admin),
    ]);
    command.args(["--auth", "keys", "--auth-keys", &keys]);
    command.arg("--keys").arg(&signing);
    let gateway = Process::start(space.dir.path(), "gateway", &mut command);
    let worker = |name: &str, more: &[&str]| {
        let mut command = baton();
        command.arg("worker").env("BATON_STORE", &store);
        command.args(["--agent", &hostile(), "--agent-name", name]);
        command
            .args(["--workspace-root", &space.text("root")])
            .args(more);
        Process::start(space.dir.path(), name, &mut command)
    };
    let workers = [
        worker("open", &[]),
        worker("closed", &["--agent-connect", "443"]),
    ];
    ready(port).await;
    let orders = json!({
        "pids": [gateway.id(), workers[0].id(), workers[1].id()],
        "files": [signing, keys, space.path("root/alice/diary"), space.path("outside")],
        "folders": [space.path("root/alice"), space.path("root"), space.dir.path()],
        "redis": [redis.port],
        "own": [space.path("root/bob")],
    });
    for (name, ports) in [
        ("open", json!([])),
        ("closed", json!([admin, redis.port, port])),
    ] {
        let url = format!("http://{}/acp/{name}", address(port));
        until("the agent is there", async || {
            Client::try_with_key(&url, BOB).await
        })
        .await;
        let mut bob = visit_in(&url, BOB, &space.text("root/bob")).await;
        let mut orders = orders.clone();
        orders["ports"] = ports;
        comes_away_with_nothing(&mut bob, orders).await;
    }
}

/// What an agent puts in the place of a directory counts for nothing: the sandbox is made of what is there
/// when it is made, and that must lie where it may.
#[tokio::test]
async fn f3_a_session_in_a_link_that_leads_out_is_refused() {
    let space = Workspace::new();
    let agent = hostile();
    let root = space.text("root");
    let baton = Served::start_with(&["--agent", &agent, "--workspace-root", &root]).await;
    std::os::unix::fs::symlink(space.dir.path(), space.path("root/bob/out")).expect("a link");
    let client = Client::initialize(&baton.url()).await;
    for (cwd, more) in [
        ("root/bob/out", "root/bob"),
        ("root/bob", "root/bob/out/root/alice"),
    ] {
        let answer = new_in(&client, &space.text(cwd), &[&space.text(more)]).await;
        let wanted = cwd == "root/bob";
        // Through the link it is beneath the root again, and as good as any other.
        assert_eq!(answer.get("result").is_some(), wanted, "{cwd}: {answer}");
    }
}

#[tokio::test]
async fn f3_a_session_around_our_own_files_is_refused() {
    let agent = hostile();
    let dir = TempDir::new().expect("a temporary directory");
    let keys = write_keys(dir.path());
    let arguments = ["--agent", &agent, "--auth", "keys", "--auth-keys", &keys];
    let baton = Served::start_with(&arguments).await;
    let client = Client::with_key(&baton.url(), ALICE).await;
    let data = baton.data_dir();
    let above = data.parent().expect("it is in one").to_owned();
    for path in [
        data.as_path(),
        &above,
        Path::new("/"),
        Path::new("/proc"),
        Path::new("/dev/shm"),
    ] {
        let answer = new_in(&client, &path.display().to_string(), &[]).await;
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(
            message.contains("params.cwd"),
            "{}: {answer}",
            path.display()
        );
        let answer = new_in(&client, "/tmp/not-there", &[&path.display().to_string()]).await;
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(
            message.contains("params.additionalDirectories"),
            "{}: {answer}",
            path.display()
        );
    }
    let log = baton.process.output();
    assert!(log.contains("agents are confined by Landlock"), "{log}");
}

#[tokio::test]
async fn f3_on_ones_own_machine_a_session_may_be_around_the_data() {
    let agent = hostile();
    let baton = Served::start_with(&["--agent", &agent]).await;
    let client = Client::initialize(&baton.url()).await;
    let data = baton.data_dir();
    let above = data.parent().expect("it is in one").display().to_string();
    let answer = new_in(&client, &above, &[]).await;
    assert!(answer["result"]["sessionId"].is_string(), "{answer}");
    let answer = new_in(&client, "/proc", &[]).await;
    assert!(answer["error"].is_object(), "{answer}");
}

#[test]
fn f3_bad_options_are_named() {
    let said = |arguments: &[&str]| {
        let mut command: Command = baton();
        let output = command
            .arg("serve")
            .args(arguments)
            .output()
            .expect("baton runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(64), "{said}");
        said
    };
    let all = said(&[
        "--agent-sandbox-read",
        "relative",
        "--agent-sandbox-write",
        "/not/there",
        "--agent-connect",
        "443,http",
    ]);
    for fault in [
        "--agent-sandbox-read relative",
        "--agent-sandbox-write /not/there",
        "--agent-connect \"http\"",
    ] {
        assert!(all.contains(fault), "{fault}: {all}");
    }
    let all = said(&[
        "--agent-sandbox",
        "none",
        "--agent-sandbox-read",
        "/etc",
        "--agent-connect",
        "1",
    ]);
    for fault in ["--agent-sandbox-read: ", "--agent-connect: "] {
        assert!(all.contains(fault), "{fault}: {all}");
    }
    said(&["--agent-sandbox", "chroot"]);
}

/// Whatever was checked before: what is open when the sandbox is made must lie where it may.
#[test]
fn f3_a_link_put_in_the_place_of_a_directory_confines_nobody_to_another() {
    let space = Workspace::new();
    std::os::unix::fs::symlink(space.path("root/alice"), space.path("root/bob/swap"))
        .expect("a link");
    let run = |beneath: &str, kept: &str| {
        let mut command = baton();
        command.args([
            "confine",
            "--sandbox",
            "--enforced",
            "--read",
            "/usr",
            "--read",
            "/bin",
        ]);
        command.args(["--read", "/lib", "--read", "/lib64", "--read", "/etc"]);
        command.args(["--directory", &space.text("root/bob/swap")]);
        command.args([
            "--beneath",
            &space.text(beneath),
            "--kept",
            &space.text(kept),
        ]);
        command.args(["--", "/bin/cat", &space.text("root/bob/swap/diary")]);
        let output = command.output().expect("baton runs");
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    };
    assert_eq!(run("root", "outside"), (Some(0), "dear diary".to_owned()));
    assert_eq!(run("root/bob", "outside"), (Some(127), String::new()));
    assert_eq!(run("root", "root/alice"), (Some(127), String::new()));
    assert_eq!(run("root", "root/alice/diary"), (Some(127), String::new()));
}
