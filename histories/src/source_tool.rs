use serde::{Deserialize, Serialize};

/// The tool whose files are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceTool {
    Claude,
    Codex,
    Opencode,
    Goose,
}

impl SourceTool {
    pub const ALL: [Self; 4] = [Self::Claude, Self::Codex, Self::Opencode, Self::Goose];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Opencode => "opencode",
            Self::Goose => "goose",
        }
    }

    /// How often a file is read.
    pub const fn passes(self) -> u64 {
        2
    }

    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }
}
