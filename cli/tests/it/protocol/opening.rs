//! `initialize` and `session/new`.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::scene::{CWD, Scene, refused, setup};
use super::{EVERYWHERE, Row, SOCKET, row};

pub fn rows() -> Vec<Row> {
    vec![
        row!(
            "initialize",
            "the answer names the version that is spoken",
            "version 1 for a client that offers 1, and for one that offers a later one",
            EVERYWHERE,
            version
        ),
        row!(
            "initialize",
            "says what works with any agent",
            "`loadSession`, and `list`, `resume`, `close`, `delete`, `fork` and \
             `additionalDirectories` among `sessionCapabilities`",
            EVERYWHERE,
            capabilities
        ),
        row!(
            "initialize",
            "needs a version",
            "-32602 names `protocolVersion` if it is missing or no number",
            EVERYWHERE,
            version_is_required
        ),
        row!(
            "initialize",
            "opens a connection once",
            "-32600 for a second one on the same socket, which goes on",
            SOCKET,
            only_once
        ),
        row!(
            "session/new",
            "`cwd` is required and absolute",
            "-32602 names `params.cwd` if it is missing, relative, empty or no text",
            EVERYWHERE,
            cwd
        ),
        row!(
            "session/new",
            "`mcpServers` is required",
            "-32602 names `params.mcpServers` and `[]` if it is missing or no array",
            EVERYWHERE,
            mcp_servers
        ),
        row!(
            "session/new",
            "`params` is an object",
            "-32602 for an array",
            EVERYWHERE,
            params_are_an_object
        ),
        row!(
            "session/new",
            "every session has an id of its own",
            "20 sessions of two connections, created at the same time",
            EVERYWHERE,
            unique_ids
        ),
        row!(
            "session/new",
            "returns modes and config options",
            "the current mode, all modes, and an option of each shape with its value",
            EVERYWHERE,
            modes_and_options
        ),
        row!(
            "session/new",
            "hands servers and directories to the agent",
            "the agent names two MCP servers and two additional directories",
            EVERYWHERE,
            servers_and_directories
        ),
        row!(
            "session/new",
            "MCP servers that the operator has not allowed are refused",
            "-32602 names the server and the option, for a command, a URL and a private address; \
             the connection goes on",
            EVERYWHERE,
            forbidden_servers
        ),
        row!(
            "session/new",
            "`additionalDirectories` are absolute",
            "-32602 names the field if it is no array, or holds something else than absolute paths",
            EVERYWHERE,
            directories_are_absolute
        ),
    ]
}

async fn version(scene: Scene) {
    for offered in [1, 2, 65_535] {
        let peer = scene
            .initialize(json!({ "protocolVersion": offered }))
            .await;
        let greeting = peer.expect("initialize succeeds").greeting;
        assert_eq!(greeting["protocolVersion"], 1, "offered {offered}");
    }
}

async fn capabilities(scene: Scene) {
    let greeting = scene.peer().await.greeting;
    let capabilities = &greeting["agentCapabilities"];
    assert_eq!(capabilities["loadSession"], true);
    for name in [
        "list",
        "resume",
        "close",
        "delete",
        "fork",
        "additionalDirectories",
    ] {
        let capability = &capabilities["sessionCapabilities"][name];
        assert!(capability.is_object(), "{name}: {greeting}");
    }
}

async fn version_is_required(scene: Scene) {
    for params in [json!({}), json!({ "protocolVersion": "one" })] {
        let answer = scene.initialize(params).await.map(|_| Value::Null);
        refused(answer, -32602, &["protocolVersion"]);
    }
}

async fn only_once(scene: Scene) {
    let peer = scene.peer().await;
    let again = peer
        .call("initialize", json!({ "protocolVersion": 1 }))
        .await;
    refused(again, -32600, &["initialized already"]);
    peer.new_session().await;
}

async fn cwd(scene: Scene) {
    let peer = scene.peer().await;
    let missing = peer.call("session/new", json!({ "mcpServers": [] })).await;
    refused(missing, -32602, &["params.cwd", "absolute"]);
    for cwd in [json!("project"), json!(""), json!(7), json!(null)] {
        let answer = peer.call("session/new", setup(json!({ "cwd": cwd }))).await;
        refused(answer, -32602, &["params.cwd", "absolute"]);
    }
}

async fn mcp_servers(scene: Scene) {
    let peer = scene.peer().await;
    let missing = peer.call("session/new", json!({ "cwd": CWD })).await;
    refused(missing, -32602, &["params.mcpServers", "[]"]);
    for servers in [json!({}), json!("none"), json!(null)] {
        let params = setup(json!({ "mcpServers": servers }));
        let answer = peer.call("session/new", params).await;
        refused(answer, -32602, &["params.mcpServers", "[]"]);
    }
}

async fn params_are_an_object(scene: Scene) {
    let peer = scene.peer().await;
    let answer = peer.call("session/new", json!([])).await;
    refused(answer, -32602, &["params", "object"]);
}

async fn unique_ids(scene: Scene) {
    let peers = [scene.peer().await, scene.peer().await];
    let mut asked = Vec::new();
    for _ in 0..10 {
        for peer in &peers {
            asked.push((peer, peer.ask("session/new", setup(json!({}))).await));
        }
    }
    let mut ids = HashSet::new();
    for (peer, asked) in &asked {
        let created = peer.answer(asked).await.expect("session/new succeeds");
        ids.insert(created["sessionId"].to_string());
    }
    assert_eq!(ids.len(), asked.len());
}

async fn modes_and_options(scene: Scene) {
    let peer = scene.peer().await;
    let created = peer.call("session/new", setup(json!({}))).await;
    let created = created.expect("session/new succeeds");
    assert_eq!(created["modes"]["currentModeId"], "code");
    let modes = created["modes"]["availableModes"].as_array();
    let modes: Vec<_> = modes
        .expect("modes")
        .iter()
        .map(|mode| &mode["id"])
        .collect();
    assert_eq!(modes, ["ask", "code", "architect"]);
    let options = created["configOptions"].as_array().expect("options");
    let options = options
        .iter()
        .map(|option| (&option["id"], &option["currentValue"]));
    let expected = [
        (&json!("model"), &json!("small")),
        (&json!("tone"), &json!("plain")),
        (&json!("verbose"), &json!(false)),
    ];
    assert_eq!(options.collect::<Vec<_>>(), expected);
}

async fn servers_and_directories(scene: Scene) {
    let peer = scene.peer().await;
    let servers = json!([
        { "name": "files", "command": "/bin/true", "args": [], "env": [] },
        { "name": "web", "type": "http", "url": "http://127.0.0.1:1/", "headers": [] },
    ]);
    let directories = json!(["/srv/a", "/srv/b"]);
    let more = json!({ "mcpServers": servers, "additionalDirectories": directories });
    let session = peer.new_session_with(more).await;
    let turn = peer.prompt(&session, "/servers").await;
    let said = turn.words().concat();
    assert_eq!(
        said.trim(),
        "servers: files, web; directories: /srv/a, /srv/b"
    );
}

async fn forbidden_servers(scene: Scene) {
    let peer = scene.peer().await;
    for (server, rule) in [
        (
            json!({ "name": "it", "command": "/bin/sh", "args": ["-c", "true"], "env": [] }),
            "--allow-mcp-stdio",
        ),
        (
            json!({ "name": "it", "type": "http", "url": "http://127.0.0.1:2/", "headers": [] }),
            "--allow-mcp-url",
        ),
        (
            json!({ "name": "it", "type": "sse", "url": "https://169.254.169.254/", "headers": [] }),
            "--allow-mcp-url",
        ),
    ] {
        let params = setup(json!({ "mcpServers": [server] }));
        let answer = peer.call("session/new", params).await;
        refused(answer, -32602, &["\"it\"", rule]);
    }
    let session = peer.new_session().await;
    peer.works(&session).await;
}

async fn directories_are_absolute(scene: Scene) {
    let peer = scene.peer().await;
    for directories in [json!("/srv"), json!(["srv"]), json!([7])] {
        let params = setup(json!({ "additionalDirectories": directories }));
        let answer = peer.call("session/new", params).await;
        refused(answer, -32602, &["params.additionalDirectories"]);
    }
}
