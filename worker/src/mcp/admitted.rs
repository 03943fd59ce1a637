//! An MCP server that an agent may use.

use std::net::IpAddr;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use url::Url;

use super::server_entry::{ServerEntry, ServerTransport};
use super::url::{UrlPattern, plain};

#[derive(Clone, Debug)]
pub struct AdmittedServer {
    written: Box<RawValue>,
    /// The patterns that admitted the URL of a client's server. The operator's own servers may be
    /// anywhere.
    patterns: Option<Arc<[UrlPattern]>>,
}

impl AdmittedServer {
    pub(super) fn own(entry: ServerEntry) -> Self {
        Self {
            written: entry.into_written(),
            patterns: None,
        }
    }

    pub(super) fn of_client(entry: ServerEntry, patterns: &[UrlPattern]) -> Self {
        let url = match &entry.transport {
            ServerTransport::Http { url } | ServerTransport::Sse { url } => plain(url).ok(),
            ServerTransport::Stdio { .. } | ServerTransport::Acp => None,
        };
        let fits = |pattern: &&UrlPattern| url.as_ref().is_some_and(|url| pattern.fits(url));
        let patterns = patterns.iter().filter(fits).cloned().collect();
        Self {
            written: entry.into_written(),
            patterns: Some(patterns),
        }
    }

    #[cfg(test)]
    pub(crate) fn unchecked(written: Box<RawValue>) -> Self {
        Self {
            written,
            patterns: None,
        }
    }

    /// The entry of `mcpServers`, as it was written.
    pub fn written(&self) -> &RawValue {
        &self.written
    }

    /// Whether a connection may go to this address. Asked again for each connection, because a name
    /// may lead elsewhere by then.
    pub fn admits_address(&self, address: IpAddr) -> bool {
        let patterns = self.patterns.as_deref();
        patterns.is_none_or(|all| all.iter().any(|it| it.admits(address)))
    }

    /// Whether the server may have requests sent to this URL of its own host.
    pub fn admits_url(&self, url: &Url) -> bool {
        let patterns = self.patterns.as_deref();
        patterns.is_none_or(|all| all.iter().any(|it| it.fits(url)))
    }
}

impl Serialize for AdmittedServer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.written.serialize(serializer)
    }
}
