//! The built-in agent that talks to a model, with a model that says what the tests want.

mod editor;
mod surviving;
mod tools;
mod turns;

use serde_json::json;

use crate::stdio::Staged;
use crate::support::Served;
use crate::support::model_server::{ModelScript, ModelServer, WireProtocol};

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
    let model = ModelServer::start().await;
    let url = model.url(WireProtocol::Chat);
    let variables = [("BATON_LLM_URL", url.as_str()), ("BATON_LLM_MODEL", MODEL)];
    let staged = Staged::with("llm", "llm", &variables).await;
    (model, staged)
}

/// A model that reads a file.
pub(crate) fn reads(path: &str) -> ModelScript {
    ModelScript::call("read_file", &json!({ "path": path }))
}

pub(crate) fn runs(command: &str) -> ModelScript {
    ModelScript::call("run_command", &json!({ "command": command }))
}
