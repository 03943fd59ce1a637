//! `GET /v1/agents`: the agents that the caller may use; and `/openapi.json`.

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::http::header;
use axum::response::IntoResponse;
use baton_protocol::PROTOCOL_VERSION;
use baton_session::store::AgentCard;
use serde_json::{Value, json};

use crate::agents;
use crate::app::App;
use crate::auth::{Caller, guest};
use crate::error::GatewayError;
use crate::openapi;

/// What is under `/v1`, for programs.
pub async fn openapi() -> impl IntoResponse {
    let body = openapi::document().to_string();
    ([(header::CONTENT_TYPE, "application/json")], body)
}

pub async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
) -> Result<impl IntoResponse, GatewayError> {
    let refusal = caller.allowance.as_ref().and_then(|it| it.request());
    refusal.map_or(Ok(()), Err)?;
    let directory = app.agents.directory(caller.rights()).await?;
    // A guest uses none.
    let is_guest = guest::session_of(&caller.principal).is_some();
    let entries = directory.agents.iter().filter(|_| !is_guest);
    let entries = entries.map(|(card, workers)| entry(card, *workers, directory.is_default(card)));
    let body = json!({ "agents": entries.collect::<Vec<_>>() }).to_string();
    Ok(([(header::CONTENT_TYPE, "application/json")], body))
}

fn entry(card: &AgentCard, workers: usize, default: bool) -> Value {
    let initialized = agents::initialized(card, PROTOCOL_VERSION, false);
    let mut entry = json!({
        "name": card.name,
        "version": card.version,
        "default": default,
        "workers": workers,
        "capabilities": initialized["agentCapabilities"],
        "path": agents::path_of(card),
    });
    if let Some(title) = initialized["agentInfo"]["title"].as_str() {
        entry["title"] = json!(title);
    }
    entry
}
