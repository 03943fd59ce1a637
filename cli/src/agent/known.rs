//! Product agents by name: `--agent claude` is the command, the variables and the installation of
//! this table. `docs/guide/agents.md` is written from it.

/// A product that speaks ACP, and what it takes to run it.
#[derive(Debug)]
pub struct KnownAgent {
    /// For `--agent`, and the name that clients see.
    pub name: &'static str,
    pub title: &'static str,
    /// The program and its arguments.
    pub command: &'static [&'static str],
    /// A shell command that installs it.
    pub install: &'static str,
    /// Programs that it starts itself, beside its own.
    pub also: &'static [&'static str],
    /// The oldest Node.js that runs it, if it is run by Node.js.
    pub node: Option<NodeVersion>,
    /// Variables with its credentials. One of them is enough.
    pub credentials: &'static [&'static str],
    /// More variables that it gets if the worker has them.
    pub settings: &'static [&'static str],
    /// How it gets its credentials, on one line.
    pub login: &'static str,
}

/// Major and minor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeVersion(pub u32, pub u32);

impl std::fmt::Display for NodeVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self(major, 0) => write!(f, "{major}"),
            Self(major, minor) => write!(f, "{major}.{minor}"),
        }
    }
}

impl NodeVersion {
    /// Of what `node --version` prints.
    pub fn parse(printed: &str) -> Option<Self> {
        let mut parts = printed.trim().trim_start_matches('v').split('.');
        let mut number = || parts.next()?.parse().ok();
        Some(Self(number()?, number()?))
    }
}

impl KnownAgent {
    pub fn program(&self) -> &'static str {
        self.command.first().copied().unwrap_or_default()
    }

    /// Variables that pass to it as if `--agent-env` named them.
    pub fn environment(&self) -> impl Iterator<Item = &'static str> {
        let credentials = self.credentials.iter();
        credentials.chain(self.settings).copied()
    }
}

pub fn by_name(name: &str) -> Option<&'static KnownAgent> {
    KNOWN.iter().find(|agent| agent.name == name)
}

/// The product that has this program, also if a path leads to it.
pub fn by_program(program: &str) -> Option<&'static KnownAgent> {
    let name = program.rsplit('/').next()?;
    KNOWN.iter().find(|agent| agent.program() == name)
}

/// Keys of the providers that agents with many providers have in common.
const PROVIDER_KEYS: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "OPENROUTER_API_KEY",
];

pub static KNOWN: &[KnownAgent] = &[
    KnownAgent {
        name: "claude",
        title: "Claude Code",
        command: &["claude-agent-acp"],
        install: "npm install -g @agentclientprotocol/claude-agent-acp",
        also: &[],
        node: Some(NodeVersion(22, 0)),
        credentials: &[
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "CLAUDE_CODE_OAUTH_TOKEN",
        ],
        settings: &[
            "ANTHROPIC_BASE_URL",
            "ANTHROPIC_MODEL",
            "CLAUDE_CONFIG_DIR",
            "ENABLE_TOOL_SEARCH",
        ],
        login: "set `ANTHROPIC_API_KEY`, or log in with `claude` as the user and in the HOME of \
            the agent",
    },
    KnownAgent {
        name: "codex",
        title: "Codex",
        command: &["codex-acp"],
        install: "npm install -g @agentclientprotocol/codex-acp",
        also: &[],
        node: Some(NodeVersion(20, 0)),
        credentials: &["CODEX_API_KEY", "OPENAI_API_KEY"],
        settings: &[
            "CODEX_CONFIG",
            "CODEX_HOME",
            "DEFAULT_AUTH_REQUEST",
            "INITIAL_AGENT_MODE",
            "MODEL_PROVIDER",
            "NO_BROWSER",
            "OPENAI_BASE_URL",
        ],
        login: "set `OPENAI_API_KEY` and `DEFAULT_AUTH_REQUEST='{\"methodId\":\"api-key\"}'`, or \
            log in with `codex login`",
    },
    KnownAgent {
        name: "gemini",
        title: "Gemini CLI",
        command: &["gemini", "--acp"],
        install: "npm install -g @google/gemini-cli",
        also: &[],
        node: Some(NodeVersion(20, 0)),
        credentials: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        settings: &[
            "GEMINI_MODEL",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "GOOGLE_CLOUD_LOCATION",
            "GOOGLE_CLOUD_PROJECT",
            "GOOGLE_GEMINI_BASE_URL",
            "GOOGLE_GENAI_USE_VERTEXAI",
        ],
        login: "set `GEMINI_API_KEY`, or log in with `gemini` first",
    },
    KnownAgent {
        name: "qwen",
        title: "Qwen Code",
        command: &["qwen", "--acp"],
        install: "npm install -g @qwen-code/qwen-code",
        also: &[],
        node: Some(NodeVersion(22, 0)),
        credentials: &["OPENAI_API_KEY", "DASHSCOPE_API_KEY"],
        settings: &["OPENAI_BASE_URL", "OPENAI_MODEL"],
        login: "set `OPENAI_API_KEY`, `OPENAI_BASE_URL` and `OPENAI_MODEL`, or log in with `qwen` \
            first",
    },
    KnownAgent {
        name: "opencode",
        title: "opencode",
        command: &["opencode", "acp"],
        install: "npm install -g opencode-ai",
        also: &[],
        node: None,
        credentials: &[
            "OPENCODE_API_KEY",
            "ANTHROPIC_API_KEY",
            "OPENAI_API_KEY",
            "GEMINI_API_KEY",
            "OPENROUTER_API_KEY",
        ],
        settings: &["OPENCODE_CONFIG", "OPENCODE_CONFIG_CONTENT"],
        login: "set the key of a provider, or log in with `opencode auth login`",
    },
    KnownAgent {
        name: "goose",
        title: "goose",
        command: &["goose", "acp"],
        install: "npm install -g @aaif/goose-binary-linux-x64 && ln -s goose-binary-linux-x64 \
            \"$(npm prefix -g)/bin/goose\"",
        also: &[],
        node: None,
        credentials: PROVIDER_KEYS,
        settings: &[
            "GOOSE_DISABLE_KEYRING",
            "GOOSE_MODE",
            "GOOSE_MODEL",
            "GOOSE_PROVIDER",
            "OPENAI_HOST",
        ],
        login: "set `GOOSE_PROVIDER`, `GOOSE_MODEL` and the provider's key, or run `goose \
            configure`",
    },
    KnownAgent {
        name: "copilot",
        title: "GitHub Copilot",
        command: &["copilot", "--acp"],
        install: "npm install -g @github/copilot",
        also: &[],
        node: Some(NodeVersion(22, 0)),
        credentials: &[
            "COPILOT_GITHUB_TOKEN",
            "GH_TOKEN",
            "GITHUB_TOKEN",
            "COPILOT_PROVIDER_API_KEY",
        ],
        settings: &[
            "COPILOT_MODEL",
            "COPILOT_PROVIDER_BASE_URL",
            "COPILOT_PROVIDER_TYPE",
            "COPILOT_PROVIDER_WIRE_API",
        ],
        login: "set `COPILOT_GITHUB_TOKEN`, or log in with `copilot login`; with \
            `COPILOT_PROVIDER_BASE_URL` and a key it uses another provider",
    },
    KnownAgent {
        name: "pi",
        title: "pi",
        command: &["pi-acp"],
        install: "npm install -g pi-acp @earendil-works/pi-coding-agent",
        also: &["pi"],
        node: Some(NodeVersion(22, 19)),
        credentials: PROVIDER_KEYS,
        settings: &["PI_ACP_PI_COMMAND", "PI_CODING_AGENT_DIR"],
        login: "set the key of a provider, or log in with `pi` and `/login`",
    },
    KnownAgent {
        name: "fast-agent",
        title: "fast-agent",
        command: &["fast-agent", "acp"],
        install: "uv tool install --python 3.13 fast-agent-mcp",
        also: &[],
        node: None,
        credentials: PROVIDER_KEYS,
        settings: &["FAST_AGENT_MODEL", "GENERIC_BASE_URL", "OPENAI_BASE_URL"],
        login: "set the key of a provider, or write it into `fastagent.secrets.yaml`",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_node_are_compared_as_numbers() {
        let version = |text| NodeVersion::parse(text).expect("a version");
        assert!(version("v9.11.2\n") < NodeVersion(22, 0));
        assert!(version("v22.9.0") < NodeVersion(22, 19));
        assert!(version("v22.19.0") >= NodeVersion(22, 19));
        assert_eq!(NodeVersion::parse("node: not found"), None);
        assert_eq!(NodeVersion(22, 19).to_string(), "22.19");
        assert_eq!(NodeVersion(20, 0).to_string(), "20");
    }

    #[test]
    fn every_agent_can_be_named_started_and_reached() {
        for agent in KNOWN {
            assert!(baton_session::store::AgentCard::is_name(agent.name));
            assert!(!agent.program().is_empty() && agent.install.contains(' '));
            assert!(!agent.credentials.is_empty(), "{}", agent.name);
            for name in agent.environment() {
                assert!(baton_worker::agent::stdio::environment::refusal(name).is_none());
            }
            assert!(std::ptr::eq(by_name(agent.name).unwrap(), agent));
        }
        let found = by_program("/opt/bin/codex-acp").expect("known");
        assert_eq!(found.name, "codex");
        assert!(by_program("sh").is_none());
    }
}
