//! The administrators' port: whoever is on the machine is not yet an administrator, least of all an agent.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use reqwest::StatusCode;
use tempfile::TempDir;

use crate::revocation::is_refused;
use crate::stdio::{Visit, actor};
use crate::support::cluster::{Redis, address, ready, url, write_keys as write_signing_keys};
use crate::support::process::{ADMIN_TOKEN, Process, baton, free_port};
use crate::support::{Client, Served, until};

fn revoke(admin: &str) -> Output {
    let mut command = baton();
    command.env_remove("BATON_ADMIN_TOKEN_FILE");
    command.args([
        "token",
        "revoke",
        "--admin",
        admin,
        "--principal",
        "anonymous",
    ]);
    command.output().expect("baton runs")
}

#[tokio::test]
async fn f3_an_agent_is_no_administrator() {
    let dir = TempDir::new().expect("a temporary directory");
    let socket = dir.path().join("admin.sock");
    let agent = actor("");
    let listen = format!("unix:{}", socket.display());
    let arguments = ["--agent", &agent, "--admin-listen", &listen];
    let baton = Served::start_with(&arguments).await;
    let mode = fs::metadata(&socket)
        .expect("a socket")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut visit = Visit::begin(&baton.url()).await;
    for way in ["admin", "admin-orphan"] {
        let said = visit.says(&format!("{way} {}", socket.display())).await;
        // If it does not see the socket, so much the better.
        let refused = ["HTTP/1.1 401 ", "Permission denied", "No such file"];
        assert!(
            refused.iter().any(|way| said.starts_with(way)),
            "{way}: {said}"
        );
    }
    // Whoever has started it is.
    let client = Client::initialize(&baton.url()).await;
    let revoked = revoke(&listen);
    assert!(revoked.status.success(), "{revoked:?}");
    is_refused(&client).await;
}

#[tokio::test]
async fn f3_a_port_asks_for_its_secret() {
    let admin = format!("127.0.0.1:{}", free_port());
    let baton = Served::start_with(&["--ephemeral", "--admin-listen", &admin]).await;
    let client = Client::initialize(&baton.url()).await;
    let url = format!("http://{admin}/revocations");
    let body = r#"{"principal":"anonymous"}"#;
    let http = reqwest::Client::new();
    for secret in [None, Some(""), Some("wrong"), Some(&ADMIN_TOKEN[1..])] {
        for request in [http.get(&url), http.post(&url).body(body)] {
            let request = request.header("content-type", "application/json");
            let request = match secret {
                Some(secret) => request.bearer_auth(secret),
                None => request,
            };
            let answer = request.send().await.expect("an answer");
            assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{secret:?}");
        }
    }
    client.new_session().await;
    let refused = revoke(&format!("http://{admin}"));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && said.contains("--admin-token-file"),
        "{said}"
    );
}

#[test]
fn f3_the_administrators_port_is_not_opened_to_everybody() {
    let dir = TempDir::new().expect("a temporary directory");
    let short = dir.path().join("short");
    fs::write(&short, "short").expect("a file");
    let short = short.display().to_string();
    let taken = format!("unix:{}", dir.path().display());
    for (arguments, code, expected) in [
        (
            &["--admin-listen", "127.0.0.1:0"][..],
            64,
            "--admin-token-file",
        ),
        (&["--admin-listen", "unix:"], 64, "--admin-listen"),
        (&["--admin-listen", "nowhere"], 64, "unix:PATH"),
        (
            &[
                "--admin-listen",
                "127.0.0.1:0",
                "--admin-token-file",
                &short,
            ],
            64,
            "32 or more",
        ),
        (
            &[
                "--admin-listen",
                "127.0.0.1:0",
                "--admin-token-file",
                "/none",
            ],
            64,
            "/none",
        ),
        (&["--admin-listen", &taken], 1, "something else"),
    ] {
        let mut command = baton();
        command.env_remove("BATON_ADMIN_TOKEN_FILE");
        command.args(["serve", "--ephemeral", "--listen", "127.0.0.1:0"]);
        let refused = command.args(arguments).output().expect("baton runs");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains(expected), "{arguments:?}: {said}");
        assert_eq!(refused.status.code(), Some(code), "{arguments:?}: {said}");
    }
}

/// As without any option, in a folder of its own.
fn by_default(command: &mut Command, folder: &Path) {
    command.env_remove("BATON_ADMIN_LISTEN");
    // As systemd names it. Then others on this machine are not looked for.
    command.env("RUNTIME_DIRECTORY", folder.join("baton"));
}

/// Without any option: the command finds the only gateway there is, and two gateways do not meet.
#[tokio::test]
async fn f3_the_only_gateway_of_a_machine_is_found_by_itself() {
    let dir = TempDir::new().expect("a temporary directory");
    let start = async || {
        let port = free_port();
        let mut command = baton();
        command.env_remove("BATON_ADMIN_TOKEN_FILE");
        by_default(&mut command, dir.path());
        command.args(["serve", "--ephemeral", "--listen", &address(port)]);
        let process = Process::start(dir.path(), &format!("serve-{port}"), &mut command);
        ready(port).await;
        (process, port)
    };
    let revoke = |more: &[&str]| {
        let mut command = baton();
        command.env_remove("BATON_ADMIN_TOKEN_FILE");
        by_default(&mut command, dir.path());
        command.args(["token", "revoke", "--principal", "anonymous"]);
        let output = command.args(more).output().expect("baton runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), said)
    };
    let socket = |port: u16| dir.path().join(format!("baton/admin-{port}.sock"));
    let (done, said) = revoke(&[]);
    assert!(!done && said.contains("no gateway"), "{said}");
    let (mut first, port) = start().await;
    let mode = |path: &Path| {
        fs::metadata(path)
            .expect("it is there")
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(mode(&socket(port)), 0o600);
    assert_eq!(mode(&dir.path().join("baton")), 0o700);
    let client = Client::initialize(&url(port)).await;
    let (done, said) = revoke(&[]);
    assert!(done, "{said}");
    is_refused(&client).await;
    // With a second one it has to be said which.
    let (_second, other) = start().await;
    let client = Client::initialize(&url(other)).await;
    let (done, said) = revoke(&[]);
    assert!(!done && said.contains("several gateways"), "{said}");
    for port in [port, other] {
        assert!(said.contains(&socket(port).display().to_string()), "{said}");
    }
    let admin = format!("unix:{}", socket(other).display());
    assert!(revoke(&["--admin", &admin]).0);
    is_refused(&client).await;
    // One that was killed leaves its socket, and nobody is misled by it.
    first.kill();
    let (done, said) = revoke(&[]);
    assert!(done, "{said}");
}

#[tokio::test]
async fn f3_a_place_of_somebody_else_is_not_used_for_the_socket() {
    let dir = TempDir::new().expect("a temporary directory");
    let taken = dir.path().join("baton");
    fs::create_dir(&taken).expect("a directory");
    fs::set_permissions(&taken, fs::Permissions::from_mode(0o777)).expect("it is ours");
    for arguments in [&[][..], &["--admin-listen", "none"]] {
        let port = free_port();
        let mut command = baton();
        by_default(&mut command, dir.path());
        command.args(["serve", "--ephemeral", "--listen", &address(port)]);
        command.args(arguments);
        let _process = Process::start(dir.path(), "serve", &mut command);
        ready(port).await;
        assert_eq!(fs::read_dir(&taken).expect("it is there").count(), 0);
    }
}

/// Workers on the same machine may have another name, as from another version's file.
#[tokio::test]
async fn f3_an_agent_of_a_worker_is_no_administrator_of_a_gateway_beside_it() {
    let dir = TempDir::new().expect("a temporary directory");
    let redis = Redis::start().await;
    let store = format!("redis://127.0.0.1:{}", redis.port);
    let keys = dir.path().join("keys.json");
    write_signing_keys(&keys);
    let program = dir.path().join("another-name");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_baton"), &program).expect("a link");
    let (port, socket) = (free_port(), dir.path().join("admin.sock"));
    let mut gateway = Command::new(program);
    gateway.args(["gateway", "--listen", &address(port), "--keys"]);
    gateway.arg(&keys).arg("--store-file");
    fs::write(dir.path().join("store"), &store).expect("a file");
    gateway.arg(dir.path().join("store"));
    gateway.args(["--admin-listen", &format!("unix:{}", socket.display())]);
    let _gateway = Process::start(dir.path(), "gateway", &mut gateway);
    let mut worker = baton();
    worker.args(["worker", "--agent-sandbox", "none", "--agent", &actor("")]);
    worker.args(["--store", &store]);
    let _worker = Process::start(dir.path(), "worker", &mut worker);
    ready(port).await;
    let url = url(port);
    until("the agent is there", async || {
        Client::try_with_key(&url, "nobody-asks").await
    })
    .await;
    let mut visit = Visit::begin(&url).await;
    for way in ["admin", "admin-orphan"] {
        let said = visit.says(&format!("{way} {}", socket.display())).await;
        assert!(said.starts_with("HTTP/1.1 401 "), "{way}: {said}");
    }
}
