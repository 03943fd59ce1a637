//! Claude Code itself goes on with a session that was exported.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

use super::{exported, id_of, import, seed, shown};
use crate::support::model_server::{ModelScript, ModelServer, WireProtocol};
use crate::support::{Served, within};

/// The program that the adapter of Claude Code brings along.
fn claude() -> PathBuf {
    let folder = "tests/agents/product/node_modules/@anthropic-ai";
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(folder);
    let packages = fs::read_dir(folder).expect("scripts/setup has installed it");
    let mut programs = packages.map(|package| package.expect("a folder").path().join("claude"));
    programs
        .find(|program| program.is_file())
        .expect("the program")
}

#[tokio::test]
async fn claude_code_resumes_what_was_exported() {
    let (baton, model) = (Served::start().await, ModelServer::start().await);
    model.always(|_| ModelScript::text("It said hello."));
    let home = TempDir::new().unwrap();
    let project = home.path().join("my project");
    fs::create_dir(&project).unwrap();
    let project = project.canonicalize().unwrap();
    let file = seed("claude_file", "plain.jsonl");
    let arguments = ["--cwd", project.to_str().unwrap(), "--from", "claude"];
    let arguments = [&arguments[..], &[file.to_str().unwrap()]].concat();
    let brought = import(&baton.url(), &arguments);
    let (lines, said) = exported(&baton.url(), id_of(&brought, ""), "claude");
    let place = said
        .strip_prefix("as ~/")
        .and_then(|rest| rest.split(',').next());
    let place = home.path().join(place.expect("a place"));
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::write(&place, &lines).unwrap();
    let id = said.trim().rsplit(' ').next().expect("an id");

    let answer = Command::new(claude())
        .args([
            "--resume",
            id,
            "-p",
            "What did it say?",
            "--output-format",
            "json",
        ])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home.path())
        .env("ANTHROPIC_BASE_URL", model.url(WireProtocol::Anthropic))
        .env("ANTHROPIC_API_KEY", "none")
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .env("DISABLE_AUTOUPDATER", "1")
        .current_dir(&project)
        .stdin(Stdio::null())
        .output();
    let answer = within("an answer of Claude Code", answer)
        .await
        .expect("it runs");
    let result: Value = serde_json::from_slice(&answer.stdout)
        .unwrap_or_else(|fault| panic!("{fault}: {answer:?}"));
    assert_eq!(
        (&result["session_id"], &result["is_error"]),
        (&id.into(), &false.into())
    );
    let calls = model.calls();
    let told = calls.iter().map(|call| call.body["messages"].to_string());
    let told = told.max_by_key(String::len).expect("a call");
    for part in [
        "What is in a.txt?",
        "It says hello.",
        "toolu_2",
        "What did it say?",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    // The file that it has written on in comes back.
    let path = place.to_str().unwrap();
    let again = import(&baton.url(), &["--from", "claude", path]);
    let words = shown(&baton.url(), id_of(&again, ""));
    assert!(
        words.contains("What did it say?") && words.contains("It said hello."),
        "{words}"
    );
    assert_eq!(
        again["files"][0]["report"]["unknown"],
        serde_json::json!({}),
        "{again}"
    );
}
