//! How an endpoint is reached and spoken to. Read in `cli`, handed down.

use std::fmt::{self, Debug, Formatter};
use std::str::FromStr;
use std::time::Duration;

use super::continuation::ContinuationWay;
use crate::agent::llm::model::ModelProtocol;
use crate::http_client::ProxyRule;

#[derive(Clone, Debug)]
pub struct ProviderConfig {
    pub protocol: ModelProtocol,
    /// As the official clients have it: `https://api.openai.com/v1`, `https://api.anthropic.com`.
    pub url: String,
    pub key: Option<ModelKey>,
    /// Sent with every request. They replace those of the protocol.
    pub headers: Vec<(String, ModelKey)>,
    /// Certificates to trust beside those of the system, PEM.
    pub ca: Option<Vec<u8>>,
    /// Only Chat Completions have dialects.
    pub dialect: ChatDialect,
    /// How a broken answer is continued, if not as the dialect has it.
    pub continuation: Option<ContinuationWay>,
    pub proxy: ProxyRule,
    pub connect_timeout: Duration,
    /// From the request to the first byte of its answer: a model that is loaded or thinks takes
    /// its time.
    pub first_byte_timeout: Duration,
    /// Between two pieces of an answer.
    pub silence_timeout: Duration,
    pub retry: RetryPolicy,
    /// An answer may be no larger, tool calls and all.
    pub max_reply_bytes: usize,
}

impl ProviderConfig {
    pub fn new(protocol: ModelProtocol, url: impl Into<String>) -> Self {
        let url = url.into();
        Self {
            protocol,
            dialect: ChatDialect::of_url(&url),
            url,
            key: None,
            headers: Vec::new(),
            ca: None,
            continuation: None,
            proxy: ProxyRule::Environment,
            connect_timeout: Duration::from_secs(10),
            first_byte_timeout: Duration::from_secs(300),
            silence_timeout: Duration::from_secs(120),
            retry: RetryPolicy::default(),
            max_reply_bytes: 4 << 20,
        }
    }
}

/// How often and for how long a request that failed is repeated.
#[derive(Clone, Debug)]
pub struct RetryPolicy {
    /// After the first attempt.
    pub retries: u32,
    /// Before the first retry, twice as long before each one after it, and by chance shorter.
    pub first_pause: Duration,
    /// Also for an endpoint that asks for more with `Retry-After`: it is then given up at once.
    pub longest_pause: Duration,
    /// No retry begins later than this after the first attempt.
    pub within: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            retries: 4,
            first_pause: Duration::from_millis(500),
            longest_pause: Duration::from_secs(60),
            within: Duration::from_secs(180),
        }
    }
}

/// A secret that is sent and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct ModelKey(String);

impl ModelKey {
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl Debug for ModelKey {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str("(secret)")
    }
}

/// Servers agree on most of Chat Completions, and differ in these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChatDialect {
    #[default]
    Plain,
    OpenAi,
    OpenRouter,
    Vllm,
    LlamaCpp,
    Ollama,
    LiteLlm,
    DeepSeek,
    Mistral,
}

const DIALECTS: [(&str, ChatDialect); 9] = [
    ("plain", ChatDialect::Plain),
    ("openai", ChatDialect::OpenAi),
    ("openrouter", ChatDialect::OpenRouter),
    ("vllm", ChatDialect::Vllm),
    ("llama.cpp", ChatDialect::LlamaCpp),
    ("ollama", ChatDialect::Ollama),
    ("litellm", ChatDialect::LiteLlm),
    ("deepseek", ChatDialect::DeepSeek),
    ("mistral", ChatDialect::Mistral),
];

impl ChatDialect {
    /// Where the address gives it away.
    pub fn of_url(url: &str) -> Self {
        let Ok(url) = url::Url::parse(url) else {
            return Self::Plain;
        };
        let host = url.host_str().unwrap_or_default();
        let of = |domain: &str| host == domain || host.ends_with(&format!(".{domain}"));
        match () {
            () if of("openai.com") || of("openai.azure.com") => Self::OpenAi,
            () if of("openrouter.ai") => Self::OpenRouter,
            () if of("deepseek.com") => Self::DeepSeek,
            () if of("mistral.ai") => Self::Mistral,
            () if url.port() == Some(11434) => Self::Ollama,
            () => Self::Plain,
        }
    }
}

impl FromStr for ChatDialect {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = DIALECTS.iter().find(|(name, _)| *name == text);
        found.map(|(_, dialect)| *dialect).ok_or_else(|| {
            let names: Vec<&str> = DIALECTS.iter().map(|(name, _)| *name).collect();
            format!("must be one of {}", names.join(", "))
        })
    }
}
