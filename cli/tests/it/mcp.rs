//! MCP servers by policy: what clients name, what the operator allows, what the agent gets.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::http::prompt;
use crate::support::process::baton;
use crate::support::{Client, Cluster, Served};

async fn call(client: &Client, id: &str, method: &str, params: Value) -> Value {
    let id = json!(id);
    let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    client.one_shot(message).await.response(&id).await
}

async fn open(client: &Client, id: &str, servers: Value) -> Value {
    let params = json!({ "cwd": "/tmp", "mcpServers": servers });
    call(client, id, "session/new", params).await
}

async fn servers(client: &Client, id: &str, opened: &Value) -> String {
    let session = opened["result"]["sessionId"].as_str();
    let session = session.unwrap_or_else(|| panic!("{opened}"));
    let id = json!(id);
    let mut stream = client
        .one_shot(prompt(id.clone(), session, "/servers"))
        .await;
    stream.turn(&id).await.concat().trim().to_owned()
}

fn refused(answer: &Value, server: &str, rule: &str) {
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let data = json!({ "mcpServer": server, "rule": rule });
    assert_eq!(answer["error"]["data"], data, "{answer}");
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(
        message.contains(rule) && message.contains(server),
        "{message}"
    );
}

fn command(name: &str, line: &[&str], env: Value) -> Value {
    json!({ "name": name, "command": line[0], "args": &line[1..], "env": env })
}

fn web(name: &str, url: &str) -> Value {
    let headers = json!([{ "name": "Authorization", "value": "Bearer hush-header" }]);
    json!({ "type": "http", "name": name, "url": url, "headers": headers })
}

#[tokio::test]
async fn a_newcomer_learns_why_a_command_is_not_started() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let client = Client::initialize(&baton.url()).await;
    let files = command("files", &["npx", "-y", "server-files", "/"], json!([]));
    let answer = open(&client, "1", json!([files])).await;
    refused(&answer, "files", "--allow-mcp-stdio");
    for (id, url) in [
        ("2", "http://127.0.0.1:9/mcp"),
        ("3", "https://localhost/"),
        ("4", "https://169.254.169.254/latest"),
        ("5", "https://[::ffff:a9fe:a9fe]/"),
        ("6", "http://1.1.1.1/"),
    ] {
        let answer = open(&client, id, json!([web("web", url)])).await;
        refused(&answer, "web", "--allow-mcp-url");
    }
    // Public hosts are for everybody to reach. It is the agent that would connect.
    let opened = open(&client, "7", json!([web("web", "https://1.1.1.1/mcp")])).await;
    assert_eq!(
        servers(&client, "8", &opened).await,
        "servers: web; directories:"
    );
}

#[tokio::test]
async fn what_is_allowed_reaches_the_agent_wherever_the_session_is_taken_up() {
    let mut cluster = Cluster::start().await;
    cluster.workers.clear();
    for number in 2..4 {
        let worker = cluster.worker_with(number, |command| {
            command.env(
                "BATON_ALLOW_MCP_STDIO",
                "npx -y @example/*,uvx mcp-git==1.0 **",
            );
            command.env("BATON_ALLOW_MCP_ENV", "GIT_*");
            command.env("BATON_ALLOW_MCP_URL", "http://localhost:*,*.example.com");
        });
        cluster.workers.push(worker);
    }
    let client = Client::initialize(&cluster.url()).await;
    let allowed = json!([
        command("files", &["npx", "-y", "@example/files@1.2.3"], json!([])),
        command(
            "git",
            &["uvx", "mcp-git==1.0", "--repository", "/x"],
            json!([{ "name": "GIT_DIR", "value": "hush" }])
        ),
        web("near", "http://localhost:3000/mcp"),
    ]);
    let opened = open(&client, "1", allowed).await;
    let expected = "servers: files, git, near; directories:";
    assert_eq!(servers(&client, "2", &opened).await, expected);
    cluster.workers[0].kill();
    assert_eq!(servers(&client, "3", &opened).await, expected);
    for (id, server, rule) in [
        (
            "4",
            command("it", &["npx", "-y", "@example/files", "-c", "x"], json!([])),
            "--allow-mcp-stdio",
        ),
        (
            "5",
            command(
                "it",
                &["npx", "-y", "@example/x"],
                json!([{ "name": "LD_PRELOAD", "value": "x" }]),
            ),
            "--allow-mcp-env",
        ),
        ("6", web("it", "https://example.com/"), "--allow-mcp-url"),
        ("7", web("it", "http://127.0.0.1:3000/"), "--allow-mcp-url"),
    ] {
        refused(&open(&client, id, json!([server])).await, "it", rule);
    }
}

/// Load is answered from the log, so it is the next turn that is refused; the next load mends it.
#[tokio::test]
async fn a_session_that_was_loaded_with_forbidden_servers_says_so_until_it_is_loaded_without() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let client = Client::initialize(&baton.url()).await;
    let opened = open(&client, "1", json!([])).await;
    let session = &opened["result"]["sessionId"];
    let load =
        |servers: Value| json!({ "sessionId": session, "cwd": "/tmp", "mcpServers": servers });
    let shell = json!([command("shell", &["/bin/sh"], json!([]))]);
    call(&client, "2", "session/load", load(shell)).await;
    let prompted = prompt(json!("3"), session.as_str().unwrap(), "/servers");
    let answer = client.one_shot(prompted).await.response(&json!("3")).await;
    refused(&answer, "shell", "--allow-mcp-stdio");
    call(&client, "4", "session/load", load(json!([]))).await;
    assert_eq!(
        servers(&client, "5", &opened).await,
        "servers: ; directories:"
    );
}

#[tokio::test]
async fn every_session_gets_the_operators_own_servers() {
    let dir = TempDir::new().unwrap();
    let write = |name: &str, servers: Value| {
        let path = dir.path().join(name);
        fs::write(&path, servers.to_string()).unwrap();
        path.display().to_string()
    };
    let one = write(
        "one.json",
        command(
            "house",
            &["/opt/house"],
            json!([{ "name": "PATH", "value": "hush" }]),
        ),
    );
    let two = write("two.json", json!([web("wiki", "http://10.0.0.1/")]));
    let baton =
        Served::start_with(&["--ephemeral", "--mcp-server", &one, "--mcp-server", &two]).await;
    let client = Client::initialize(&baton.url()).await;
    let opened = open(&client, "1", json!([web("mine", "https://1.1.1.1/")])).await;
    let said = servers(&client, "2", &opened).await;
    assert_eq!(said, "servers: mine, house, wiki; directories:");
    // Nobody takes the name of one of them.
    let answer = open(&client, "3", json!([web("house", "https://1.1.1.1/")])).await;
    assert_eq!(answer["error"]["data"]["mcpServer"], "house", "{answer}");
}

#[tokio::test]
async fn sessions_live_beneath_the_workspace_root() {
    let dir = TempDir::new().unwrap();
    let root = dir.path().join("root");
    fs::create_dir_all(root.join("project")).unwrap();
    symlink("/", root.join("way-out")).unwrap();
    let root = root.display().to_string();
    let baton = Served::start_with(&["--ephemeral", "--workspace-root", &root]).await;
    let client = Client::initialize(&baton.url()).await;
    let new = |cwd: String, more: Value| json!({ "cwd": cwd, "mcpServers": [], "additionalDirectories": more });
    let inside = new(format!("{root}/project"), json!([format!("{root}/other")]));
    let opened = call(&client, "1", "session/new", inside).await;
    assert!(opened["result"]["sessionId"].is_string(), "{opened}");
    for (id, params, field) in [
        ("2", new("/tmp".into(), json!([])), "params.cwd"),
        (
            "3",
            new(format!("{root}/project/../.."), json!([])),
            "params.cwd",
        ),
        (
            "4",
            new(format!("{root}/way-out/etc"), json!([])),
            "params.cwd",
        ),
        (
            "5",
            new(root.clone(), json!(["/etc"])),
            "params.additionalDirectories",
        ),
    ] {
        let answer = call(&client, id, "session/new", params).await;
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        assert!(
            message.contains(field) && message.contains("--workspace-root"),
            "{message}"
        );
    }
}

#[test]
fn every_fault_of_the_policy_is_named_at_the_start() {
    let dir = TempDir::new().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let broken = write(
        "broken.json",
        r#"{"name":"a","command":"hush","command":"hush"}"#,
    );
    let twice = write(
        "twice.json",
        r#"[{"name":"a","command":"a"},{"name":"a","command":"b"}]"#,
    );
    let output = baton()
        .args(["serve", "--ephemeral", "--listen", "127.0.0.1:0"])
        .args([
            "--allow-mcp-stdio",
            "./run",
            "--allow-mcp-env",
            "A=B",
            "--allow-mcp-url",
            "ftp://a",
        ])
        .args([
            "--mcp-server",
            &broken,
            "--mcp-server",
            &twice,
            "--mcp-server",
            "/missing",
        ])
        .args(["--workspace-root", "/missing"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(64));
    let said = String::from_utf8_lossy(&output.stderr);
    for fault in [
        "--allow-mcp-stdio \"./run\"",
        "--allow-mcp-env \"A=B\"",
        "--allow-mcp-url \"ftp://a\"",
        "broken.json: ",
        "two servers have the name \"a\"",
        "--mcp-server /missing: ",
        "--workspace-root /missing: ",
    ] {
        assert!(said.contains(fault), "{fault}: {said}");
    }
    assert!(!said.contains("hush"), "{said}");
}

#[tokio::test]
async fn credentials_of_mcp_servers_are_in_no_log_and_no_error() {
    let mut cluster = Cluster::start_with(&[]).await;
    let dir = TempDir::new().unwrap();
    let own = dir.path().join("own.json");
    let house = command(
        "house",
        &["/opt/house", "hush-own-argument"],
        json!([{ "name": "A", "value": "hush-own" }]),
    );
    fs::write(&own, house.to_string()).unwrap();
    cluster.workers.clear();
    let worker = cluster.worker_with(2, |command| {
        command.env("BATON_ALLOW_MCP_STDIO", "/bin/true **");
        command.env("BATON_ALLOW_MCP_URL", "https://*");
        command.env("BATON_MCP_SERVER", &own);
        command.env("BATON_LOG", "trace");
    });
    cluster.workers.push(worker);
    let client = Client::initialize(&cluster.url()).await;
    let env = json!([{ "name": "A_TOKEN", "value": "hush-variable" }]);
    let allowed = json!([
        command("files", &["/bin/true", "hush-argument"], env),
        web("web", "https://1.1.1.1/hush-path?key=hush-query"),
    ]);
    let opened = open(&client, "1", allowed).await;
    assert_eq!(
        servers(&client, "2", &opened).await,
        "servers: files, web, house; directories:"
    );
    let env = |name: &str| json!([{ "name": name, "value": "hush-variable" }]);
    for (id, server) in [
        (
            "3",
            command("it", &["/bin/sh", "hush-argument"], env("A_TOKEN")),
        ),
        ("4", command("it", &["/bin/true"], env("PATH"))),
        ("5", web("it", "http://127.0.0.1/hush-path?key=hush-query")),
        ("6", web("it", "https://me:hush-password@1.1.1.1/")),
        (
            "7",
            json!({ "type": "http", "name": "it", "url": "https://1.1.1.1/", "headers": "hush-header" }),
        ),
    ] {
        let answer = open(&client, id, json!([server])).await;
        assert_eq!(answer["error"]["data"]["mcpServer"], "it", "{answer}");
        assert!(!answer.to_string().contains("hush"), "{answer}");
    }
    let log = cluster.workers[0].output();
    for said in ["MCP servers admitted", "--allow-mcp-stdio"] {
        assert!(log.contains(said), "{said}: {log}");
    }
    for line in log.lines() {
        assert!(!line.contains("hush"), "{line}");
    }
}
