//! The built-in agent that talks to a model, with a model that says what the tests want.

mod bad_input;
mod client_servers;
mod compacting;
mod configuring;
mod editor;
mod kill_matrix;
mod mcp_servers;
mod moments;
mod surviving;
mod tools;
mod turns;

use serde_json::json;

use crate::stdio::Staged;
use crate::support::Served;
use crate::support::model_server::{ModelScript, ModelServer, WireProtocol};
use crate::support::process::Process;

pub(crate) const MODEL: &str = "test-model";

/// A model, and Baton in one process.
pub(crate) async fn served(arguments: &[&str]) -> (ModelServer, Served) {
    let model = ModelServer::start().await;
    let url = model.url(WireProtocol::Chat);
    let mut all = vec![
        "--agent",
        "llm",
        "--llm-url",
        &url,
        "--llm-model",
        MODEL,
        "--ephemeral",
    ];
    all.extend(arguments);
    let served = Served::start_with(&all).await;
    (model, served)
}

/// A model, and a cluster with two workers.
pub(crate) async fn staged() -> (ModelServer, Staged) {
    staged_with(&[]).await
}

/// The same, with more variables for the workers.
pub(crate) async fn staged_with(more: &[(&str, &str)]) -> (ModelServer, Staged) {
    let model = ModelServer::start().await;
    let url = model.url(WireProtocol::Chat);
    let all = [&variables(&url)[..], more].concat();
    let staged = Staged::with("llm", "llm", &all).await;
    (model, staged)
}

fn variables(url: &str) -> [(&'static str, &str); 2] {
    [("BATON_LLM_URL", url), ("BATON_LLM_MODEL", MODEL)]
}

/// Another worker like those that were there.
pub(crate) fn worker(staged: &Staged, model: &ModelServer, number: usize) -> Process {
    let url = model.url(WireProtocol::Chat);
    staged.cluster.worker_with(number, |command| {
        command.env("BATON_AGENT", "llm").envs(variables(&url));
    })
}

/// A model that reads a file.
pub(crate) fn reads(path: &str) -> ModelScript {
    ModelScript::call("read_file", &json!({ "path": path }))
}

pub(crate) fn runs(command: &str) -> ModelScript {
    ModelScript::call("run_command", &json!({ "command": command }))
}
