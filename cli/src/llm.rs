//! Options of the native agent, `--agent llm`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use baton_worker::agent::Agent;
use baton_worker::agent::llm::LlmAgent;
use baton_worker::agent::llm::config::LlmConfig;
use baton_worker::agent::llm::mcp_server::McpLaunch;
use baton_worker::agent::llm::model::ModelProtocol;
use baton_worker::agent::llm::provider::{ChatDialect, ModelKey, ModelProvider, ProviderConfig};
use clap::{Args, ValueEnum};

use crate::headings::LLM;
use crate::secrets;

#[derive(Args)]
pub struct LlmOptions {
    /// Model endpoint of --agent llm, such as http://127.0.0.1:11434/v1
    ///
    /// As the official client libraries have it: with /v1 for OpenAI's protocols, without for
    /// Anthropic's. The key is read from the environment variable BATON_LLM_KEY or from
    /// --llm-key-file.
    #[arg(long, env = "BATON_LLM_URL", value_name = "URL", help_heading = LLM)]
    llm_url: Option<String>,
    /// Models to choose from, as the endpoint names them; the first is the default
    #[arg(
        long,
        env = "BATON_LLM_MODEL",
        value_delimiter = ',',
        value_name = "NAME",
        help_heading = LLM
    )]
    llm_model: Vec<String>,
    /// Protocol of the model endpoint
    #[arg(long, env = "BATON_LLM_PROTOCOL", default_value = "chat", help_heading = LLM)]
    llm_protocol: ProtocolOption,
    /// Dialect of the chat protocol, such as vllm or llama.cpp
    ///
    /// One of plain, openai, openrouter, vllm, llama.cpp, ollama, litellm, deepseek and mistral.
    /// Without this option it is what the URL suggests, and otherwise plain.
    #[arg(long, env = "BATON_LLM_DIALECT", value_name = "NAME", help_heading = LLM)]
    llm_dialect: Option<String>,
    /// File that contains the key of the model endpoint
    #[arg(long, env = "BATON_LLM_KEY_FILE", value_name = "FILE", help_heading = LLM)]
    llm_key_file: Option<PathBuf>,
    /// Tokens that fit into the context of the models
    ///
    /// Of a longer conversation the beginning is left out.
    #[arg(
        long,
        env = "BATON_LLM_CONTEXT",
        default_value_t = 128_000,
        value_name = "TOKENS",
        help_heading = LLM
    )]
    llm_context: u64,
    /// File with the system prompt, instead of Baton's own
    #[arg(long, env = "BATON_LLM_SYSTEM", value_name = "FILE", help_heading = LLM)]
    llm_system: Option<PathBuf>,
    /// Maximum number of model calls in a turn
    #[arg(
        long,
        env = "BATON_LLM_STEPS",
        default_value_t = 100,
        value_name = "N",
        help_heading = LLM
    )]
    llm_steps: usize,
    /// Maximum length of a tool's output, in KiB
    ///
    /// Of a longer one the model gets the beginning and the end.
    #[arg(
        long,
        env = "BATON_LLM_TOOL_OUTPUT",
        default_value_t = 64,
        value_name = "KIB",
        help_heading = LLM
    )]
    llm_tool_output: usize,
}

#[derive(Clone, Copy, ValueEnum)]
enum ProtocolOption {
    /// OpenAI Chat Completions, also of vLLM, Ollama, llama.cpp, LiteLLM and OpenRouter
    Chat,
    /// OpenAI Responses
    Responses,
    /// Anthropic Messages
    Anthropic,
}

/// Shorter than what any model has to be told.
const LEAST_CONTEXT: u64 = 1024;

impl LlmOptions {
    /// The faults of these options, if they are used.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.llm_url.is_none() {
            let example = "--llm-url http://127.0.0.1:11434/v1";
            faults.push(format!(
                "--agent llm: name the model endpoint, such as {example}"
            ));
        }
        if self.llm_model.iter().all(|name| name.trim().is_empty()) {
            faults.push("--agent llm: name a model with --llm-model".into());
        }
        if self.llm_context < LEAST_CONTEXT {
            faults.push(format!(
                "--llm-context {}: must be {LEAST_CONTEXT} at least",
                self.llm_context
            ));
        }
        let numbers = [
            ("--llm-steps", self.llm_steps),
            ("--llm-tool-output", self.llm_tool_output),
        ];
        for (flag, _) in numbers.iter().filter(|(_, number)| *number == 0) {
            faults.push(format!("{flag} 0: the agent could do nothing with that"));
        }
        faults.extend(self.dialect().err());
        faults.extend(self.key().err());
        faults.extend(self.system_prompt().err());
        if faults.is_empty() {
            let provider = self.provider().and_then(ModelProvider::new);
            faults.extend(provider.err().map(|fault| format!("--llm-url: {fault}")));
        }
        faults
    }

    /// Files that agents and their tools must not read.
    pub fn kept(&self) -> Vec<PathBuf> {
        self.llm_key_file.iter().cloned().collect()
    }

    fn dialect(&self) -> Result<Option<ChatDialect>, String> {
        let named = self.llm_dialect.as_deref().map(str::parse).transpose();
        named.map_err(|fault: String| {
            let name = self.llm_dialect.as_deref().unwrap_or_default();
            format!("--llm-dialect {name:?}: {fault}")
        })
    }

    fn key(&self) -> Result<Option<ModelKey>, String> {
        let from_environment = secrets::llm_key();
        let Some(path) = &self.llm_key_file else {
            return Ok(from_environment.map(ModelKey::new));
        };
        if from_environment.is_some() {
            return Err("BATON_LLM_KEY and --llm-key-file: give one of them".into());
        }
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("--llm-key-file {shown}: {error}"))?;
        match text.trim() {
            "" => Err(format!("--llm-key-file {shown}: the file is empty")),
            key => Ok(Some(ModelKey::new(key))),
        }
    }

    fn system_prompt(&self) -> Result<Option<String>, String> {
        let read = |path: &PathBuf| {
            std::fs::read_to_string(path)
                .map_err(|error| format!("--llm-system {}: {error}", path.display()))
        };
        self.llm_system.as_ref().map(read).transpose()
    }

    fn provider(&self) -> Result<ProviderConfig, String> {
        let protocol = match self.llm_protocol {
            ProtocolOption::Chat => ModelProtocol::Chat,
            ProtocolOption::Responses => ModelProtocol::Responses,
            ProtocolOption::Anthropic => ModelProtocol::Anthropic,
        };
        let url = self.llm_url.as_deref().unwrap_or_default();
        let mut provider = ProviderConfig::new(protocol, url);
        provider.key = self.key()?;
        if let Some(dialect) = self.dialect()? {
            provider.dialect = dialect;
        }
        Ok(provider)
    }

    fn config(&self, mcp: McpLaunch, idle: Duration) -> Result<LlmConfig, String> {
        let mut models: Vec<String> = Vec::new();
        for name in self.llm_model.iter().map(|name| name.trim()) {
            if !name.is_empty() && !models.iter().any(|known| known == name) {
                models.push(name.to_owned());
            }
        }
        Ok(LlmConfig {
            provider: self.provider()?,
            mcp: Arc::new(mcp),
            models,
            context: self.llm_context,
            system_prompt: self.system_prompt()?,
            max_steps: self.llm_steps,
            max_tool_output: self.llm_tool_output << 10,
            idle,
        })
    }

    /// `mcp`: how MCP servers are started. `idle`: how long an idle session stays at its worker.
    pub fn agent(&self, mcp: McpLaunch, idle: Duration) -> Result<Arc<dyn Agent>, String> {
        let agent = LlmAgent::new(self.config(mcp, idle)?)?;
        Ok(Arc::new(agent))
    }
}
