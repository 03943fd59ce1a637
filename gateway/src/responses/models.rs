//! Agents as models: `GET /v1/models`, `GET /v1/models/NAME`.

use baton_protocol::limits::echo;
use baton_session::store::AgentCard;
use serde_json::{Value, json};

use super::ResponseServices;
use crate::agents::AgentDirectory;
use crate::auth::CallerRights;
use crate::error::{FaultKind, GatewayError, fault};

pub async fn list(
    services: ResponseServices<'_>,
    rights: &CallerRights,
) -> Result<Value, GatewayError> {
    let directory = services.agents.directory(rights).await?;
    let models = directory.agents.iter().map(|(card, _)| model(card));
    let models: Vec<Value> = models.collect();
    Ok(json!({ "object": "list", "data": models }))
}

pub async fn one(
    services: ResponseServices<'_>,
    rights: &CallerRights,
    name: &str,
) -> Result<Value, GatewayError> {
    let directory = services.agents.directory(rights).await?;
    let card = directory.choose(Some(name)).ok();
    card.map(model).ok_or_else(|| unknown(name, &directory))
}

pub fn unknown(name: &str, directory: &AgentDirectory) -> GatewayError {
    let names = directory.agents.iter().map(|(card, _)| card.name.as_str());
    let names: Vec<&str> = names.collect();
    let text = match names[..] {
        [] => "no worker has registered an agent yet: start one with `baton worker`".to_owned(),
        _ => format!(
            "there is no model {}: models are agents, and here are {}",
            echo(name),
            names.join(", ")
        ),
    };
    fault(FaultKind::NotFound, "model_not_found", Some("model"), text)
}

/// Agents do not say when they were made.
fn model(card: &AgentCard) -> Value {
    json!({ "id": card.name, "object": "model", "created": 0, "owned_by": "baton" })
}
