//! The tools of a session's MCP servers, as a model is offered them.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::join_all;
use rmcp::model::{CallToolResult, Tool};
use serde_json::{Value, json};

use super::mcp_prompts::McpPrompt;
use super::mcp_server::{McpLaunch, McpServer, ServerLink};
use super::model::ToolDefinition;
use super::tool::ToolEffect;
use super::tool_view::ToolOutcome;
use crate::agent::stdio::sandbox::ProcessPaths;
use crate::agent::{SessionOpening, Turn};

/// Providers allow no longer names.
const MAX_NAME: usize = 64;
pub const MAX_TOOLS: usize = 256;
const MAX_TITLE: usize = 200;
const MAX_DESCRIPTION: usize = 4 << 10;
const MAX_SCHEMA: usize = 64 << 10;
/// Of the images, resources and other things in a result.
const MAX_ATTACHED: usize = 8 << 20;

/// The MCP servers of a session.
#[derive(Default)]
pub struct McpServers(Vec<Arc<McpServer>>);

pub struct McpTool {
    pub server: Arc<McpServer>,
    /// As its server knows it.
    pub name: String,
    pub title: String,
    pub definition: ToolDefinition,
    pub reads_only: bool,
    pub is_idempotent: bool,
}

/// The offer of the servers at the moment.
#[derive(Default)]
pub struct OfferedTools {
    pub tools: Vec<Arc<McpTool>>,
    pub prompts: Vec<McpPrompt>,
    /// Servers that cannot be used, and why.
    pub missing: Vec<(String, String)>,
}

impl McpServers {
    pub fn of(opening: &SessionOpening, launch: &Arc<McpLaunch>) -> Self {
        let directories = opening.directories();
        let directories = directories.as_array().into_iter().flatten();
        let directories = directories.filter_map(Value::as_str).map(PathBuf::from);
        let cwd = PathBuf::from(&opening.cwd);
        let directories = [cwd.clone()].into_iter().chain(directories);
        let paths = ProcessPaths {
            cwd: Some(cwd),
            directories: directories.filter(|path| path.is_absolute()).collect(),
            beneath: opening.beneath.clone(),
            home: None,
        };
        let servers = opening.mcp_servers().iter();
        let servers = servers.filter_map(|it| McpServer::of(it, launch, &paths));
        Self(servers.map(Arc::new).collect())
    }

    /// Starts what does not run.
    pub async fn offered(&self, turn: &Turn) -> OfferedTools {
        let offers = join_all(self.0.iter().map(|server| server.offer(turn))).await;
        let mut offered = OfferedTools::default();
        let mut names = HashSet::new();
        for (server, offer) in self.0.iter().zip(offers) {
            match offer {
                Ok(offer) => {
                    let tools = offer.tools.iter().map(|tool| McpTool::of(server, tool));
                    let new = tools.filter(|tool| names.insert(tool.definition.name.clone()));
                    offered.tools.extend(new.map(Arc::new));
                    let prompts = offer.prompts.iter();
                    let prompts = prompts.map(|it| McpPrompt::of(server, it.clone()));
                    offered.prompts.extend(prompts);
                }
                Err(why) => offered.missing.push((server.name.clone(), why)),
            }
        }
        offered.tools.truncate(MAX_TOOLS);
        offered
    }

    /// Takes what the client says about servers that live in it.
    pub fn note(&self, notice: &Value) {
        for server in &self.0 {
            if let ServerLink::InClient(server) = &server.link {
                server.note(notice);
            }
        }
    }
}

impl McpTool {
    fn of(server: &Arc<McpServer>, tool: &Tool) -> Self {
        let hints = tool.annotations.as_ref();
        let hint = |hint: Option<Option<bool>>| hint.flatten().unwrap_or(false);
        let schema = json!(tool.input_schema);
        let fits = schema.to_string().len() <= MAX_SCHEMA;
        let description = tool.description.as_deref().unwrap_or_default();
        let title = hints.and_then(|it| it.title.clone()).or(tool.title.clone());
        Self {
            title: shortened(
                &title.unwrap_or_else(|| format!("{}: {}", server.name, tool.name)),
                MAX_TITLE,
            ),
            definition: ToolDefinition {
                name: model_name(&server.name, &tool.name),
                description: shortened(description, MAX_DESCRIPTION),
                parameters: if fits {
                    schema
                } else {
                    json!({ "type": "object" })
                },
            },
            reads_only: hint(hints.map(|it| it.read_only_hint)),
            is_idempotent: hint(hints.map(|it| it.idempotent_hint)),
            name: tool.name.clone().into_owned(),
            server: server.clone(),
        }
    }

    /// By its annotations.
    pub fn effect(&self) -> ToolEffect {
        if self.reads_only {
            ToolEffect::Reads
        } else {
            ToolEffect::Unknown
        }
    }
}

fn shortened(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

/// Providers allow letters, digits, `_` and `-`.
fn model_name(server: &str, tool: &str) -> String {
    plain_name([server, "__", tool])
}

pub fn plain_name(parts: [&str; 3]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let name = parts.iter().flat_map(|part| part.chars());
    let name = name.map(|c| if plain(c) { c } else { '_' });
    name.take(MAX_NAME).collect()
}

pub fn outcome_of(result: &CallToolResult) -> ToolOutcome {
    let blocks = result.content.iter().map(|block| json!(block));
    let mut room = MAX_ATTACHED;
    let mut fits = |block: &Value| {
        // Texts are cut later, together.
        let is_text = block["type"] == "text";
        let length = if is_text { 0 } else { block.to_string().len() };
        let fits = length <= room;
        room -= if fits { length } else { 0 };
        fits
    };
    let blocks: Vec<Value> = blocks.filter(|block| fits(block)).collect();
    let text = |block: &Value| {
        let text = block["text"]
            .as_str()
            .or(block["resource"]["text"].as_str());
        let uri = block["uri"].as_str().or(block["resource"]["uri"].as_str());
        text.or(uri).map(str::to_owned)
    };
    let mut texts: Vec<String> = blocks.iter().filter_map(text).collect();
    if texts.is_empty()
        && let Some(structured) = &result.structured_content
    {
        texts.push(structured.to_string());
    }
    let shown = blocks.into_iter().filter(|block| block["type"] != "text");
    let shown = shown.map(|block| json!({ "type": "content", "content": block }));
    ToolOutcome {
        text: texts.join("\n"),
        is_error: result.is_error.unwrap_or(false),
        content: Some(shown.collect()),
        shows_text: true,
        kind: None,
    }
}
