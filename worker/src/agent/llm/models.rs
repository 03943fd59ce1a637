//! The models that there are, each with its endpoint.

use super::config::{LlmConfig, ModelConfig};
use super::provider::ModelProvider;

/// Shared by all sessions.
pub struct ModelEndpoints(Vec<ModelProvider>);

/// A model, and who has it.
#[derive(Clone, Copy)]
pub struct ChosenModel<'a> {
    pub config: &'a ModelConfig,
    pub provider: &'a ModelProvider,
}

impl ModelEndpoints {
    /// Fails if a URL or certificates cannot be used; does not connect.
    pub fn new(config: &LlmConfig) -> Result<Self, String> {
        let all = config.endpoints.iter().cloned();
        all.map(ModelProvider::new)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// The model that is chosen, or the first one if there is none of this name.
    pub fn model<'a>(&'a self, config: &'a LlmConfig, id: &str) -> ChosenModel<'a> {
        let chosen = config.models.iter().find(|model| model.id == id);
        let model = chosen.unwrap_or(&config.models[0]);
        ChosenModel {
            config: model,
            provider: &self.0[model.endpoint],
        }
    }
}
