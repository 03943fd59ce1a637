//! Decides which MCP servers an agent gets: those of the client that the operator allows, then the
//! operator's own. Allowed entries pass byte for byte. Nothing here prints more of an entry than
//! its name, since headers, variables, arguments and queries hold credentials.

use std::collections::HashSet;

use serde_json::value::RawValue;

pub use self::admitted::AdmittedServer;
pub use self::command::CommandPattern;
pub use self::refusal::McpRefusal;
use self::refusal::RefusalReason;
pub use self::server_entry::ServerEntry;
use self::server_entry::ServerTransport;
pub use self::transports::McpTransports;
pub use self::url::UrlPattern;
pub use self::variable::VariablePattern;

mod admitted;
mod command;
pub(crate) mod functions;
pub(crate) mod glob;
mod headers;
pub(crate) mod over_acp;
mod package;
mod reach;
mod refusal;
mod server_entry;
mod transports;
mod url;
mod variable;

/// The maximum number of servers; each costs the agent a process or a connection.
pub const MAX_SERVERS: usize = 64;

#[derive(Clone, Debug, Default)]
pub struct McpPolicy {
    /// Commands that clients may have started.
    pub commands: Vec<CommandPattern>,
    /// Variables that clients may set for them.
    pub variables: Vec<VariablePattern>,
    /// Where clients may have the agent connect to.
    pub urls: Vec<UrlPattern>,
    /// The operator's own, for every session. They are not held against the rest.
    pub own: Vec<ServerEntry>,
}

impl McpPolicy {
    /// Returns the entries that the agent gets.
    pub async fn admit(
        &self,
        asked: &[&RawValue],
        agent: McpTransports,
    ) -> Result<Vec<AdmittedServer>, McpRefusal> {
        if asked.len() > MAX_SERVERS {
            return Err(McpRefusal::of_all(RefusalReason::TooMany));
        }
        let own = self.own.iter().map(|entry| entry.name.as_str());
        let mut names: HashSet<String> = own.map(str::to_owned).collect();
        let mut admitted = Vec::new();
        for entry in asked {
            let entry = ServerEntry::read(entry)?;
            if !names.insert(entry.name.clone()) {
                return Err(entry.refused(RefusalReason::NameTaken));
            }
            if let Err(reason) = self.check(&entry, agent).await {
                return Err(entry.refused(reason));
            }
            admitted.push(AdmittedServer::of_client(entry, &self.urls));
        }
        let own = self.own(agent).cloned();
        admitted.extend(own.map(AdmittedServer::own));
        Ok(admitted)
    }

    async fn check(&self, entry: &ServerEntry, agent: McpTransports) -> Result<(), RefusalReason> {
        if !agent.take(&entry.transport) {
            return Err(RefusalReason::NotTaken(entry.transport.kind()));
        }
        match &entry.transport {
            ServerTransport::Stdio { command, args, env } => {
                if !self.commands.iter().any(|it| it.fits(command, args)) {
                    return Err(RefusalReason::Command(command.clone()));
                }
                let forbidden = |name: &&String| !self.variables.iter().any(|it| it.fits(name));
                match env.iter().find(forbidden) {
                    Some(name) => Err(RefusalReason::Variable(name.clone())),
                    None => Ok(()),
                }
            }
            ServerTransport::Http { url } | ServerTransport::Sse { url } => {
                url::check(&self.urls, url).await
            }
            ServerTransport::Acp => Ok(()),
        }
    }

    fn own(&self, agent: McpTransports) -> impl Iterator<Item = &ServerEntry> {
        self.own.iter().filter(move |entry| {
            let takes = agent.take(&entry.transport);
            if !takes {
                tracing::warn!(
                    server = entry.name,
                    kind = entry.transport.kind(),
                    "the agent does not support this MCP server of --mcp-server: leaving it out"
                );
            }
            takes
        })
    }
}

#[cfg(any(fuzzing, test))]
pub(crate) mod fuzzing;
#[cfg(test)]
mod tests;
