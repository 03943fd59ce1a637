//! Options of the native agent, `--agent llm`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use baton_worker::ModelMetrics;
use baton_worker::agent::Agent;
use baton_worker::agent::llm::LlmAgent;
use baton_worker::agent::llm::config::{LlmConfig, ModelConfig};
use baton_worker::agent::llm::mcp_server::McpLaunch;
use baton_worker::agent::llm::model::ModelProtocol;
use baton_worker::agent::llm::provider::{ChatDialect, ModelKey, ModelProvider, ProviderConfig};
use clap::{Args, ValueEnum};

use self::file::{LEAST_CONTEXT, LlmFile};
use crate::headings::LLM;
use crate::secrets;

mod file;
mod table;

/// What the agent gets from its worker.
pub struct LlmSurroundings {
    /// How MCP servers are started.
    pub mcp: McpLaunch,
    /// How long an idle session stays at its worker.
    pub idle: Duration,
    pub metrics: ModelMetrics,
}

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
    /// TOML file: endpoints, models, prices, limits, rules
    ///
    /// See the page about the agent. It takes the place of --llm-url, --llm-model, --llm-protocol,
    /// --llm-dialect and --llm-key-file; what it does not say is left to the other options.
    #[arg(long, env = "BATON_LLM_CONFIG", value_name = "FILE", help_heading = LLM)]
    llm_config: Option<PathBuf>,
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

impl LlmOptions {
    /// The faults of these options, if they are used.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = match &self.llm_config {
            Some(_) => self.of_options_alone(),
            None => self.missing(),
        };
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
        faults.extend(self.file().err().into_iter().flatten());
        if faults.is_empty() && self.llm_config.is_none() {
            let provider = self.provider().and_then(ModelProvider::new);
            faults.extend(provider.err().map(|fault| format!("--llm-url: {fault}")));
        }
        faults
    }

    fn missing(&self) -> Vec<String> {
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
        faults
    }

    /// Options that the file takes the place of are refused beside it.
    fn of_options_alone(&self) -> Vec<String> {
        let given = [
            ("--llm-url", self.llm_url.is_some()),
            ("--llm-model", !self.llm_model.is_empty()),
            ("--llm-dialect", self.llm_dialect.is_some()),
            ("--llm-key-file", self.llm_key_file.is_some()),
        ];
        let given = given.iter().filter(|(_, given)| *given);
        given
            .map(|(flag, _)| format!("{flag}: with --llm-config the file says that"))
            .collect()
    }

    /// Files that agents and their tools must not read.
    pub fn kept(&self) -> Vec<PathBuf> {
        let file = self.file().ok().flatten();
        let keys = file.map(|file| file.kept).unwrap_or_default();
        self.llm_key_file.iter().cloned().chain(keys).collect()
    }

    fn file(&self) -> Result<Option<LlmFile>, Vec<String>> {
        let Some(path) = &self.llm_config else {
            return Ok(None);
        };
        let key = secrets::llm_key().map(ModelKey::new);
        LlmFile::read(path, key.as_ref(), self.llm_context).map(Some)
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

    fn models(&self) -> Vec<ModelConfig> {
        let mut models: Vec<ModelConfig> = Vec::new();
        for name in self.llm_model.iter().map(|name| name.trim()) {
            if !name.is_empty() && !models.iter().any(|known| known.id == name) {
                models.push(ModelConfig::named(name, self.llm_context));
            }
        }
        models
    }

    fn config(&self, around: LlmSurroundings) -> Result<LlmConfig, String> {
        let file = self.file().map_err(|faults| faults.join("; "))?;
        let file = match file {
            Some(file) => file,
            None => LlmFile {
                endpoints: vec![self.provider()?],
                models: self.models(),
                ..LlmFile::default()
            },
        };
        Ok(LlmConfig {
            endpoints: file.endpoints,
            models: file.models,
            system_prompt: file.system_prompt.or(self.system_prompt()?),
            max_steps: file.steps.unwrap_or(self.llm_steps),
            max_tool_output: file.tool_output.unwrap_or(self.llm_tool_output) << 10,
            parallel_tools: file.parallel_tools.unwrap_or(true),
            limits: file.limits,
            rules: file.rules,
            mcp: Arc::new(around.mcp),
            idle: around.idle,
            metrics: around.metrics,
        })
    }

    pub fn agent(&self, around: LlmSurroundings) -> Result<Arc<dyn Agent>, String> {
        let agent = LlmAgent::new(self.config(around)?)?;
        Ok(Arc::new(agent))
    }
}
