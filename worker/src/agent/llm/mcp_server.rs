//! An MCP server of a session, wherever it is: a program that is started here, a server on the
//! network, or one that lives in the client.
//!
//! | file | what |
//! |---|---|
//! | [`connected`] | one with a connection of its own, made again when it is gone |
//! | [`local_process`], [`closable_input`] | a program under the same guard as agents |
//! | [`streamable_http`], [`sse_transport`] | servers on the network |
//! | [`in_client`] | a server in the client, over ACP |
//! | [`server_events`] | what servers say and ask of their own accord |
//! | [`request_limit`] | how much they may ask |
//! | [`try_pause`] | when a server that fails is tried again |

use std::sync::Arc;

use rmcp::model::{Prompt, Tool};
use serde::Deserialize;
use serde_json::value::RawValue;

use self::connected::ConnectedServer;
pub use self::connected::{CallUnderWay, UNUSED_PATIENCE};
pub use self::in_client::{ClientServer, MCP_MESSAGE, client_result};
use self::local_process::LocalProcess;
pub use self::local_process::McpLaunch;
pub use self::server_events::{ServerProgress, ServerQuestion, ServerSaid};
use self::streamable_http::WebServer;
use crate::agent::Turn;
use crate::agent::stdio::sandbox::ProcessPaths;
use crate::mcp::AdmittedServer;

mod closable_input;
mod connected;
mod in_client;
mod local_process;
mod request_limit;
mod server_events;
mod sse_transport;
mod streamable_http;
mod try_pause;

/// Texts of a server in errors, which go to logs and to the model.
const MAX_WHY: usize = 400;

pub struct McpServer {
    pub name: String,
    pub link: ServerLink,
}

pub enum ServerLink {
    Connected(Box<ConnectedServer>),
    InClient(ClientServer),
}

/// What a server offers at the moment.
#[derive(Clone, Default)]
pub struct ServerOffer {
    pub tools: Arc<[Tool]>,
    pub prompts: Arc<[Prompt]>,
}

/// An entry of `mcpServers`, as much of it as is needed here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EntryFields {
    name: String,
    r#type: Option<String>,
    command: Option<String>,
    args: Option<Vec<String>>,
    env: Option<Vec<EntryPair>>,
    url: Option<String>,
    headers: Option<Vec<EntryPair>>,
    server_id: Option<String>,
}

/// A variable, or a header.
#[derive(Deserialize)]
struct EntryPair {
    name: String,
    value: String,
}

impl EntryFields {
    fn read(entry: &RawValue) -> Option<Self> {
        serde_json::from_str(entry.get()).ok()
    }
}

impl McpServer {
    pub fn of(
        server: &AdmittedServer,
        launch: &Arc<McpLaunch>,
        paths: &ProcessPaths,
    ) -> Option<Self> {
        let entry = EntryFields::read(server.written())?;
        let name = entry.name.clone();
        let link = match entry.r#type.as_deref().unwrap_or("stdio") {
            "stdio" => {
                let process = LocalProcess::of(entry, launch.clone(), paths.clone())?;
                ServerLink::Connected(ConnectedServer::new(&name, process.into()).into())
            }
            "http" | "sse" => {
                let web = WebServer::of(entry, server.clone())?;
                ServerLink::Connected(ConnectedServer::new(&name, web.into()).into())
            }
            "acp" => ServerLink::InClient(ClientServer::new(entry.server_id?)),
            _ => return None,
        };
        Some(Self { name, link })
    }

    /// Starts or connects it if need be. An error says why it cannot be used.
    pub async fn offer(&self, turn: &Turn) -> Result<ServerOffer, String> {
        match &self.link {
            ServerLink::Connected(server) => server.offer().await,
            ServerLink::InClient(server) => server.offer(turn).await,
        }
    }
}

fn shortened(why: &str) -> String {
    why.chars().take(MAX_WHY).collect()
}
