//! The JSON-RPC messages the load client sends.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

pub const INITIALIZE: u64 = 0;
pub const NEW_SESSION: u64 = 1;
pub const LOAD_SESSION: u64 = 1;

pub fn initialize() -> String {
    json!({"jsonrpc": "2.0", "id": INITIALIZE, "method": "initialize", "params": {
        "protocolVersion": 1,
        "clientCapabilities": {"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false},
        "clientInfo": {"name": "baton-bench", "version": env!("CARGO_PKG_VERSION")},
    }})
    .to_string()
}

pub fn new_session() -> String {
    json!({"jsonrpc": "2.0", "id": NEW_SESSION, "method": "session/new",
        "params": {"cwd": "/tmp", "mcpServers": []}})
    .to_string()
}

pub fn load_session(session: &str) -> String {
    json!({"jsonrpc": "2.0", "id": LOAD_SESSION, "method": "session/load",
        "params": {"sessionId": session, "cwd": "/tmp", "mcpServers": []}})
    .to_string()
}

pub fn prompt(id: u64, session: &str, text: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"session/prompt","params":{{"sessionId":"{session}","prompt":[{{"type":"text","text":"{text}"}}]}}}}"#
    )
}

/// The result of an answer, or its error as ours.
pub fn result(answer: &Value) -> Result<&Value> {
    if let Some(error) = answer.get("error") {
        bail!("answered with an error: {error}");
    }
    answer.get("result").context("an answer without a result")
}

pub fn session_id(answer: &Value) -> Result<String> {
    let id = result(answer)?["sessionId"].as_str();
    Ok(id
        .context("session/new answered without a sessionId")?
        .to_owned())
}
