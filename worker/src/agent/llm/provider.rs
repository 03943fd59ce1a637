//! Model endpoints. A request is written as one protocol has it and sent; its answer is read event
//! by event, in bounded memory. As long as no event was handed out, a failure that may pass is
//! tried again.

use tokio_util::sync::CancellationToken;

use super::model::{ModelEvent, ModelRequest};
use super::model_error::ModelError;

pub use self::config::{ChatDialect, ModelKey, ProviderConfig, RetryPolicy};

mod config;

/// One endpoint, with its connections. Shared by all sessions.
pub struct ModelProvider {
    config: ProviderConfig,
}

/// An answer under way. Dropping it closes the connection.
pub struct ModelStream {}

impl ModelProvider {
    /// Fails if URL, headers or certificates cannot be used; does not connect.
    pub fn new(config: ProviderConfig) -> Result<Self, String> {
        Ok(Self { config })
    }

    pub fn config(&self) -> &ProviderConfig {
        &self.config
    }

    /// Asks the model, and returns with the first event of its answer.
    pub async fn stream(
        &self,
        request: &ModelRequest,
        cancel: &CancellationToken,
    ) -> Result<ModelStream, ModelError> {
        let _ = (request, cancel);
        todo!("comes with the protocols")
    }
}

impl ModelStream {
    /// `None` after [`ModelEvent::Done`] or an error.
    pub async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        None
    }

    /// How often the request was repeated before its answer began.
    pub fn retries(&self) -> u32 {
        0
    }
}
