//! Every command of the front page and of the guide is run by a test.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::commands::{BATON, Shell, folder, free_port, has_chunks, until_it_succeeds};
use super::markdown::shell_commands;
use super::{project, read};

/// The beginning of each command, the file that has it run, and a word by which it is found there.
const RUN: [(&str, &str, &str); 37] = [
    ("make run", HERE, "fn make_run_builds_and_serves"),
    ("make test", ".ci/run", "make test"),
    ("target/quick/baton chat", HERE, "fn one_process_serves"),
    ("redis-server --appendonly yes &", COMMANDS, CLUSTER),
    ("baton token keygen --file keys.json", COMMANDS, CLUSTER),
    (
        "baton gateway --store redis://127.0.0.1:6379 --keys keys.json --listen 127.0.0.1:8081 &",
        COMMANDS,
        CLUSTER,
    ),
    (
        "baton gateway --store redis://127.0.0.1:6379 --keys keys.json --listen 127.0.0.1:8082 &",
        COMMANDS,
        CLUSTER,
    ),
    (
        "baton worker --store redis://127.0.0.1:6379 &",
        COMMANDS,
        CLUSTER,
    ),
    // They need a container engine, or a cluster.
    (
        "docker compose -f deploy/compose.yaml up --build",
        "scripts/deploy-test",
        "compose",
    ),
    ("helm install baton", "scripts/check-charts", "helm"),
    ("helm test baton", "scripts/check-charts", "helm"),
    ("baton serve --agent claude", HERE, "fn agents_are_started"),
    (
        "baton serve --agent \"stdio:my-agent acp\"",
        HERE,
        "fn agents_are_started",
    ),
    (
        "baton worker --store redis://127.0.0.1:6379 --agent claude",
        HERE,
        "fn workers_start",
    ),
    (
        "baton worker --store redis://127.0.0.1:6379 --agent stdio:codex-acp",
        HERE,
        "fn workers_start",
    ),
    (
        "baton connect https://baton.example.com",
        HERE,
        "fn one_process_serves",
    ),
    (
        "baton chat http://127.0.0.1:8080 --prompt",
        COMMANDS,
        "fn the_first_turn_takes_one_line",
    ),
    ("URL=http://127.0.0.1:8080/acp", NEWCOMER, CURL),
    ("JSON=", NEWCOMER, CURL),
    ("STREAM=", NEWCOMER, CURL),
    ("CONNECTION=$(curl", NEWCOMER, CURL),
    ("SESSION=$(curl", NEWCOMER, CURL),
    ("curl -sN $URL", NEWCOMER, CURL),
    (
        "baton serve --listen 127.0.0.1:8080 --data-dir /var/lib/baton",
        HERE,
        "fn one_process_serves",
    ),
    ("curl -N $URL", HERE, "fn a_stream_is_resumed"),
    (
        "baton chat https://baton.example.com --credential-file",
        HERE,
        "fn one_process_serves",
    ),
    (
        "baton chat https://baton.example.com --prompt",
        HERE,
        "fn one_process_serves",
    ),
    (
        "baton serve --agent llm --llm-url",
        "cli/tests/it/llm.rs",
        "async fn served",
    ),
    (
        "baton worker --store redis://127.0.0.1:6379 --agent llm --llm-url",
        "cli/tests/it/llm.rs",
        "async fn staged",
    ),
    (
        "baton gateway --auth jwt --auth-issuer",
        "cli/tests/it/console/logins.rs",
        "--auth-oidc-client",
    ),
    (
        "baton serve --demo",
        "cli/tests/it/console/operators.rs",
        "fn a_demonstration_kills_a_worker",
    ),
    ("baton sessions import --from", HISTORIES, "fn baton_import"),
    ("baton sessions export ID --to", HISTORIES, "fn exported"),
    // What the other tools write is converted in the tests of their formats.
    (
        "goose session export",
        "histories/tests/it/documents.rs",
        "goose",
    ),
    (
        "opencode export",
        "histories/tests/it/documents.rs",
        "opencode",
    ),
    ("baton doctor", "cli/tests/it/doctor.rs", "fn doctor"),
    ("baton agents", "cli/tests/it/pages/agents.rs", "agents"),
];

const HERE: &str = "cli/tests/it/pages/guide.rs";
const COMMANDS: &str = "cli/tests/it/pages/commands.rs";
const HISTORIES: &str = "cli/tests/it/histories.rs";
const NEWCOMER: &str = "cli/tests/it/newcomer.rs";
const CLUSTER: &str = "fn the_five_commands_of_the_front_page";
const CURL: &str = "fn the_documented_requests_stream_a_whole_turn";

fn guide() -> Vec<String> {
    let folder = project().join("docs/guide");
    let names = fs::read_dir(folder).expect("a guide");
    let names = names.map(|entry| entry.expect("a page").file_name());
    let pages = names.map(|name| format!("docs/guide/{}", name.to_string_lossy()));
    pages.chain(["README.md".to_owned()]).collect()
}

#[test]
fn every_command_of_the_front_page_and_the_guide_is_run_by_a_test() {
    let mut unknown = BTreeSet::new();
    for page in guide() {
        for command in shell_commands(&read(&page)) {
            let known = RUN.iter().any(|(start, ..)| command.starts_with(start));
            if !known {
                unknown.insert(format!("{page}: {command}"));
            }
        }
    }
    assert!(unknown.is_empty(), "no test runs these: {unknown:#?}");
    for (command, file, place) in RUN {
        assert!(
            read(file).contains(place),
            "{command}: no {place} in {file}"
        );
    }
}

/// The command of a page that begins so.
fn command(page: &str, start: &str) -> String {
    let commands = shell_commands(&read(page));
    let found = commands.into_iter().find(|one| one.starts_with(start));
    found.unwrap_or_else(|| panic!("{page} has no {start}"))
}

/// In the page's place there is a server of this test.
fn here(command: &str, port: &str, folder: &Path) -> String {
    command
        .replace("127.0.0.1:8080", &format!("127.0.0.1:{port}"))
        .replace(
            "https://baton.example.com",
            &format!("http://127.0.0.1:{port}"),
        )
        .replace("~/.config/baton/key", &folder.join("key").to_string_lossy())
        .replace("target/quick/baton", "baton")
        .replace("/var/lib/baton", &folder.join("data").to_string_lossy())
        .replace("/srv/homes", &folder.join("homes").to_string_lossy())
}

/// What a shell says with this on its standard input.
fn say(command: &str, input: &str) -> Output {
    let baton = Path::new(BATON).parent().expect("a folder");
    let path = std::env::var("PATH").expect("a PATH");
    let mut shell = Command::new("sh")
        .args(["-c", command])
        .env("PATH", format!("{}:{path}", baton.display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("sh runs");
    let mut stdin = shell.stdin.take().expect("a pipe");
    // One that has ended reads no more; its exit code tells.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    shell.wait_with_output().expect("it ends")
}

fn program(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::write(&path, text).expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a program");
}

/// As `make run` finds it: it builds what is built already.
const CARGO: &str = r#"#!/bin/sh
echo "$*" >"$BATON_DATA_DIR.cargo"
while [ "$1" != -- ]; do shift; done
shift
exec baton "$@"
"#;

#[test]
fn make_run_builds_and_serves() {
    let (folder, port) = (folder("make-run"), free_port());
    program(&folder, "cargo", CARGO);
    let data = folder.join("data");
    let make = command("README.md", "make run");
    let script = format!(
        "unset CARGO_TARGET_DIR MAKEFLAGS; cd {}; BATON_LISTEN=127.0.0.1:{port} BATON_DATA_DIR={} exec {make}",
        project().display(),
        data.display()
    );
    let _make = Shell::run(folder.clone(), &script);
    let chat = here(
        &command("README.md", "target/quick/baton chat"),
        &port,
        &folder,
    );
    has_chunks(&until_it_succeeds("chat", || say(&chat, "/count 5\n")), 5);
    let cargo = fs::read_to_string(folder.join("data.cargo")).expect("it was called");
    assert_eq!(
        cargo.trim(),
        "run --profile quick --locked --package baton -- serve"
    );
}

#[test]
fn one_process_serves_the_front_page_the_terminal_and_editors() {
    let (folder, port) = (folder("one-process"), free_port());
    fs::write(folder.join("key"), "a-key").expect("a file");
    let serve = command("docs/guide/one-process.md", "baton serve");
    let _serve = Shell::run(folder.clone(), &here(&serve, &port, &folder));
    for page in ["README.md", "docs/guide/terminal.md"] {
        let start = if page == "README.md" {
            "target/quick/baton"
        } else {
            "baton chat"
        };
        let chat = here(&command(page, start), &port, &folder);
        has_chunks(&until_it_succeeds(&chat, || say(&chat, "/count 5\n")), 5);
    }
    let start = "baton chat https://baton.example.com --prompt";
    let chat = here(&command("docs/guide/terminal.md", start), &port, &folder);
    let said = until_it_succeeds(&chat, || say(&chat, ""));
    assert!(said.contains("say hello"), "{said}");
    let connect = here(
        &command("docs/guide/editors.md", "baton connect"),
        &port,
        &folder,
    );
    let opening =
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#;
    let answer = until_it_succeeds(&connect, || say(&connect, &format!("{opening}\n")));
    assert!(answer.contains(r#""protocolVersion":1"#), "{answer}");
}

/// A turn of the first page on the session's stream, then that stream from after its first chunk on.
#[test]
fn a_stream_is_resumed_as_the_page_says() {
    let (folder, port) = (folder("resume"), free_port());
    let serve = format!("exec baton serve --ephemeral --listen 127.0.0.1:{port}");
    let _serve = Shell::run(folder.clone(), &serve);
    let first = shell_commands(&read("docs/guide/first-turn.md"));
    let first = first.iter().skip_while(|line| !line.starts_with("URL="));
    let mut first: Vec<String> = first.map(|line| here(line, &port, &folder)).collect();
    let prompt = first.pop().expect("a prompt");
    let script = format!(
        "cd {folder}\n\
         trap 'kill $! 2>/dev/null' EXIT\n\
         has() {{ for i in $(seq 300); do grep -q \"$1\" $2 && return; sleep 0.1; done; exit 1; }}\n\
         {opening}\n\
         [ \"$SESSION\" ] || exit 1\n\
         CURSOR=0\n\
         {resume} >all &\n\
         has '^id:' all\n\
         {prompt}\n\
         has end_turn all; kill $!\n\
         CURSOR=$(grep -B1 'chunk 1 of 5' all | sed -n 's/^id: *//p')\n\
         {resume} >rest &\n\
         has end_turn rest; kill $!\n\
         cat rest",
        folder = folder.display(),
        opening = first.join("\n"),
        resume = command("docs/guide/resume.md", "curl -N $URL").replace("12.97997619", "$CURSOR"),
        // Its answer comes on the stream.
        prompt = prompt.replace(r#" -H "$STREAM""#, ""),
    );
    let resumed = until_it_succeeds("curl", || say(&script, ""));
    let chunks = (1..=5).filter(|k| resumed.contains(&format!("chunk {k} of 5")));
    assert_eq!(chunks.collect::<Vec<_>>(), [2, 3, 4, 5], "{resumed}");
}

/// As much of an agent as a turn needs.
const AGENT: &str = r#"#!/usr/bin/env python3
import json, sys

RESULTS = {
    "initialize": {"protocolVersion": 1, "agentInfo": {"name": "stub", "version": "1"}},
    "session/new": {"sessionId": "s"},
    "session/prompt": {"stopReason": "end_turn"},
}


def say(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "session/prompt":
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "the stub's words"}}
        say({"method": "session/update", "params": {"sessionId": "s", "update": update}})
    if "id" in message:
        say({"id": message["id"], "result": RESULTS.get(message["method"], {})})
"#;

/// A folder with the programs that the pages name.
fn agents(name: &str) -> std::path::PathBuf {
    let folder = folder(name);
    for name in ["claude-agent-acp", "codex-acp", "my-agent"] {
        program(&folder, name, AGENT);
    }
    program(&folder, "node", "#!/bin/sh\necho v24.0.0\n");
    fs::create_dir(folder.join("homes")).expect("a folder");
    folder
}

fn answers(url: &str) {
    let chat = format!("baton chat {url} --prompt hello");
    let said = until_it_succeeds(&chat, || say(&chat, ""));
    assert!(said.contains("the stub's words"), "{said}");
}

#[test]
fn agents_are_started_by_name_and_by_command() {
    let page = "docs/guide/agents.md";
    assert_eq!(
        command("README.md", "baton serve"),
        command(page, "baton serve")
    );
    for start in ["baton serve --agent claude", "baton serve --agent \"stdio"] {
        let (folder, port) = (agents("agent"), free_port());
        let serve = command(page, start);
        let script = format!(
            "export BATON_LISTEN=127.0.0.1:{port} BATON_AGENT_SANDBOX_READ={}; exec {serve}",
            folder.display()
        );
        let _serve = Shell::run(folder, &script);
        answers(&format!("http://127.0.0.1:{port}"));
    }
}

#[test]
fn workers_start_the_agents_of_the_page() {
    let (folder, port, redis) = (agents("agents"), free_port(), free_port());
    let store = format!("redis://127.0.0.1:{redis}");
    let worker = |start: &str| {
        let worker = here(&command("docs/guide/agents.md", start), &port, &folder);
        worker.replace("redis://127.0.0.1:6379", &store)
    };
    let script = format!(
        "export BATON_AGENT_SANDBOX_READ={folder}\n\
         redis-server --port {redis} --save '' >redis.log &\n\
         baton token keygen --file keys.json\n\
         baton gateway --store {store} --keys keys.json --listen 127.0.0.1:{port} &\n\
         {claude} &\n{codex} &\nwait",
        folder = folder.display(),
        claude = worker("baton worker --store redis://127.0.0.1:6379 --agent claude"),
        codex = worker("baton worker --store redis://127.0.0.1:6379 --agent stdio:codex-acp"),
    );
    let _cluster = Shell::run(folder, &script);
    for agent in ["claude", "stub"] {
        answers(&format!("http://127.0.0.1:{port}/acp/{agent}"));
    }
}
