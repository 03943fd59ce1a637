//! Why a client's MCP server is refused, for the client to read. It says what to do, and no more of
//! the entry than its name, and of commands, variables and URLs what is no secret.

use serde_json::json;

use super::MAX_SERVERS;
use crate::rpc::Failure;

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}{reason}", prefix(server.as_deref()))]
pub struct McpRefusal {
    server: Option<String>,
    reason: RefusalReason,
}

fn prefix(server: Option<&str>) -> String {
    server.map_or_else(
        || "mcpServers: ".into(),
        |name| format!("MCP server {name:?}: "),
    )
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(super) enum RefusalReason {
    #[error("at most {MAX_SERVERS} are taken")]
    TooMany,
    #[error("every entry is an object whose fields come once")]
    NoEntry,
    #[error("every entry has a name, of 1 to 128 characters, none of them a control character")]
    Name,
    #[error("another one has this name already: give each its own")]
    NameTaken,
    #[error("the entry is larger than 64 KiB")]
    TooLarge,
    #[error("a field is spelled like one that means something, but for upper and lower case")]
    LooksAlike,
    #[error("type must be http, sse or acp; leave it out for a command that is to be started")]
    Type,
    #[error(
        "it has fields of two kinds of servers: command, args and env, or url and headers, or \
         serverId"
    )]
    Mixed,
    #[error("{0} is missing, or not what the protocol says it is")]
    Shape(&'static str),
    #[error("a header Host would lead elsewhere than its url says: leave it out")]
    HostHeader,
    #[error("the agent takes no servers of type {0} (its mcpCapabilities say so): leave it out")]
    NotTaken(&'static str),
    #[error(
        "clients may not have {0:?} started here with these arguments. Leave the server out, or \
         have the operator add the command to --allow-mcp-stdio"
    )]
    Command(String),
    #[error(
        "clients may not set the variable {0:?} here. Leave it out, or have the operator add it \
         to --allow-mcp-env"
    )]
    Variable(String),
    #[error("url must be an absolute URL of http or https, plainly written: {0}")]
    Url(&'static str),
    #[error(
        "clients may not have {0} connected to here. Leave the server out, or have the operator \
         add it to --allow-mcp-url"
    )]
    Unlisted(String),
    #[error(
        "{0} leads to an address that is not public. Leave the server out, or have the operator \
         name the host or its network in --allow-mcp-url"
    )]
    Reach(String),
    #[error("{0} cannot be resolved here now: check the name; trying again is safe")]
    Unresolved(String),
}

impl RefusalReason {
    /// The option that decides.
    fn rule(&self) -> Option<&'static str> {
        match self {
            Self::Command(_) => Some("--allow-mcp-stdio"),
            Self::Variable(_) => Some("--allow-mcp-env"),
            Self::Unlisted(_) | Self::Reach(_) => Some("--allow-mcp-url"),
            _ => None,
        }
    }
}

impl McpRefusal {
    pub(super) fn of(server: &str, reason: RefusalReason) -> Self {
        Self {
            server: Some(server.to_owned()),
            reason,
        }
    }

    pub(super) fn of_all(reason: RefusalReason) -> Self {
        Self {
            server: None,
            reason,
        }
    }
}

impl From<McpRefusal> for Failure {
    fn from(refusal: McpRefusal) -> Self {
        let data = json!({ "mcpServer": refusal.server, "rule": refusal.reason.rule() });
        Self {
            data: Some(data),
            ..Self::invalid_params(refusal.to_string())
        }
    }
}
