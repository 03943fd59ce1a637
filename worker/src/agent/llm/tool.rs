//! The tools that a model is offered: those made of what the client can do. Each file has one.

use std::sync::Arc;

use baton_session::command::ClientCapabilities;
use rmcp::model::JsonObject;
use serde::de::DeserializeOwned;

use self::edit_file::EditFileCall;
use self::plan::PlanCall;
use self::read_file::ReadFileCall;
use self::run_command::RunCommandCall;
use self::write_file::WriteFileCall;
use super::mcp_prompts::McpPrompt;
use super::mcp_tools::{McpTool, OfferedTools};
use super::model::ToolDefinition;
use super::settings::AgentMode;
use super::tool_rules::ToolRules;
use super::tool_view::{ToolView, file_view};
use super::turn_context::TurnContext;

pub(super) mod edit_file;
pub(super) mod plan;
pub(super) mod read_file;
pub(super) mod run_command;
mod schema;
pub(super) mod write_file;

/// The possible effect of a call, which decides whether the user is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolEffect {
    Reads,
    /// Changes files of the session, through the client.
    Edits,
    /// Whatever it likes.
    Unknown,
}

impl ToolEffect {
    pub(super) fn is_asked_about(self, mode: AgentMode) -> bool {
        match mode {
            AgentMode::Ask => self != Self::Reads,
            AgentMode::Code | AgentMode::Architect => self == Self::Unknown,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientTool {
    ReadFile,
    WriteFile,
    EditFile,
    RunCommand,
    UpdatePlan,
}

const CLIENT_TOOLS: [ClientTool; 5] = [
    ClientTool::ReadFile,
    ClientTool::WriteFile,
    ClientTool::EditFile,
    ClientTool::RunCommand,
    ClientTool::UpdatePlan,
];

impl ClientTool {
    fn definition(self) -> ToolDefinition {
        match self {
            Self::ReadFile => read_file::definition(),
            Self::WriteFile => write_file::definition(),
            Self::EditFile => edit_file::definition(),
            Self::RunCommand => run_command::definition(),
            Self::UpdatePlan => plan::definition(),
        }
    }

    fn effect(self) -> ToolEffect {
        match self {
            Self::ReadFile | Self::UpdatePlan => ToolEffect::Reads,
            Self::WriteFile | Self::EditFile => ToolEffect::Edits,
            Self::RunCommand => ToolEffect::Unknown,
        }
    }

    fn is_possible(self, client: ClientCapabilities) -> bool {
        match self {
            Self::ReadFile => client.read_file,
            Self::WriteFile => client.write_file,
            Self::EditFile => client.read_file && client.write_file,
            Self::RunCommand => client.terminal,
            Self::UpdatePlan => true,
        }
    }
}

/// The name of a tool of our own.
pub(super) fn own_name(tool: &str) -> Option<&'static str> {
    let names = [
        read_file::NAME,
        write_file::NAME,
        edit_file::NAME,
        run_command::NAME,
        plan::NAME,
    ];
    names.into_iter().find(|name| *name == tool)
}

/// The tools of a step.
pub(super) struct ToolBox {
    definitions: Arc<[ToolDefinition]>,
    servers: Vec<Arc<McpTool>>,
    prompts: Vec<McpPrompt>,
    rules: ToolRules,
    /// MCP servers that cannot be used, and why.
    missing: Vec<(String, String)>,
}

/// A call that can be carried out.
pub(super) enum ToolCall {
    ReadFile(ReadFileCall),
    WriteFile(WriteFileCall),
    EditFile(EditFileCall),
    RunCommand(RunCommandCall),
    UpdatePlan(PlanCall),
    Mcp(McpCall),
}

/// A call of an MCP server's tool.
pub(super) struct McpCall {
    pub tool: Arc<McpTool>,
    /// A call that may have run can be made again.
    pub may_run_again: bool,
    pub arguments: JsonObject,
}

impl ToolBox {
    pub async fn of(context: TurnContext<'_>) -> Self {
        let offered = context.servers.offered(context.turn).await;
        let mode = context.memory.fields().settings.mode;
        Self::new(context.turn.client(), mode, offered, &context.config.rules)
    }

    fn new(
        client: ClientCapabilities,
        mode: AgentMode,
        offered: OfferedTools,
        rules: &ToolRules,
    ) -> Self {
        let may = |name: &str, by_itself: ToolEffect| {
            rules.is_offered(mode, name, rules.effect(name, by_itself))
        };
        let own = CLIENT_TOOLS.into_iter();
        let own = own.filter(|tool| tool.is_possible(client));
        let own = own.map(|tool| (tool.definition(), tool.effect()));
        let own = own.filter(|(tool, effect)| may(&tool.name, *effect));
        let servers = offered.tools;
        let own = own.map(|(tool, _)| tool);
        let theirs = servers.iter();
        let theirs = theirs.filter(|tool| may(&tool.definition.name, tool.effect()));
        let theirs = theirs.map(|tool| tool.definition.clone());
        Self {
            definitions: own.chain(theirs).collect(),
            servers,
            prompts: offered.prompts,
            rules: rules.clone(),
            missing: offered.missing,
        }
    }

    /// Whether the user is asked before this call.
    pub fn is_asked_about(&self, mode: AgentMode, name: &str, call: &ToolCall) -> bool {
        let effect = self.rules.effect(name, call.effect());
        self.rules.is_asked_about(mode, name, effect)
    }

    /// Whether this call only looks, so that others may be carried out at the same time.
    pub fn only_reads(&self, mode: AgentMode, name: &str, arguments: &str) -> bool {
        match self.read(name, arguments) {
            Ok(call) => {
                let effect = self.rules.effect(name, call.effect());
                effect == ToolEffect::Reads && !self.is_asked_about(mode, name, &call)
            }
            Err(_) => true,
        }
    }

    /// Prompts of MCP servers.
    pub fn prompts(&self) -> &[McpPrompt] {
        &self.prompts
    }

    /// MCP servers that cannot be used, and why.
    pub fn missing(&self) -> &[(String, String)] {
        &self.missing
    }

    pub fn definitions(&self) -> Arc<[ToolDefinition]> {
        self.definitions.clone()
    }

    /// A model's call, or what to tell the model instead.
    pub fn read(&self, name: &str, arguments: &str) -> Result<ToolCall, String> {
        if !self.definitions.iter().any(|tool| tool.name == name) {
            let known: Vec<&str> = self.definitions.iter().map(|it| it.name.as_str()).collect();
            let name: String = name.chars().take(100).collect();
            let known = known.join(", ");
            return Err(format!(
                "There is no tool {name:?} here. The tools are: {known}"
            ));
        }
        self.read_any(name, arguments)
    }

    /// The same for a call that has begun: whether it would be offered now makes no difference.
    pub fn read_any(&self, name: &str, arguments: &str) -> Result<ToolCall, String> {
        Ok(match name {
            read_file::NAME => ToolCall::ReadFile(arguments_of(arguments)?),
            write_file::NAME => ToolCall::WriteFile(arguments_of(arguments)?),
            edit_file::NAME => ToolCall::EditFile(arguments_of(arguments)?),
            run_command::NAME => ToolCall::RunCommand(arguments_of(arguments)?),
            plan::NAME => ToolCall::UpdatePlan(arguments_of(arguments)?),
            _ => {
                let mut servers = self.servers.iter();
                let tool = servers.find(|tool| tool.definition.name == name);
                let tool = tool.ok_or("This tool is not there any more.")?.clone();
                let effect = self.rules.effect(name, tool.effect());
                let is_idempotent = self.rules.is_idempotent(name, tool.is_idempotent);
                ToolCall::Mcp(McpCall {
                    tool,
                    may_run_again: effect == ToolEffect::Reads || is_idempotent,
                    arguments: arguments_of(arguments)?,
                })
            }
        })
    }
}

fn arguments_of<T: DeserializeOwned>(arguments: &str) -> Result<T, String> {
    serde_json::from_str(arguments).map_err(|error| {
        format!(
            "The arguments of this call cannot be understood: {error}. Send one JSON object that \
             fits the schema of the tool."
        )
    })
}

impl ToolCall {
    pub fn effect(&self) -> ToolEffect {
        match self {
            Self::ReadFile(_) => ClientTool::ReadFile.effect(),
            Self::WriteFile(_) => ClientTool::WriteFile.effect(),
            Self::EditFile(_) => ClientTool::EditFile.effect(),
            Self::RunCommand(_) => ClientTool::RunCommand.effect(),
            Self::UpdatePlan(_) => ClientTool::UpdatePlan.effect(),
            Self::Mcp(call) => call.tool.effect(),
        }
    }

    pub fn view(&self, cwd: &str) -> ToolView {
        match self {
            Self::ReadFile(call) => call.view(cwd),
            Self::WriteFile(call) => file_view("Write", "edit", &call.path, cwd),
            Self::EditFile(call) => file_view("Edit", "edit", &call.path, cwd),
            Self::RunCommand(call) => call.view(),
            Self::UpdatePlan(_) => ToolView {
                title: "Plan".into(),
                kind: "think",
                locations: Vec::new(),
            },
            Self::Mcp(call) => ToolView {
                title: call.tool.title.clone(),
                kind: if call.tool.reads_only {
                    "read"
                } else {
                    "other"
                },
                locations: Vec::new(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(letters: &str) -> ClientCapabilities {
        ClientCapabilities::from_letters(letters)
    }

    fn names(tools: &ToolBox) -> Vec<&str> {
        tools
            .definitions
            .iter()
            .map(|tool| tool.name.as_str())
            .collect()
    }

    #[test]
    fn only_what_the_client_has_announced_is_offered() {
        let rules = ToolRules::default();
        let offered =
            |letters, mode| ToolBox::new(client(letters), mode, OfferedTools::default(), &rules);
        assert_eq!(names(&offered("", AgentMode::Code)), ["update_plan"]);
        assert_eq!(
            names(&offered("w", AgentMode::Code)),
            ["write_file", "update_plan"]
        );
        let all = [
            "read_file",
            "write_file",
            "edit_file",
            "run_command",
            "update_plan",
        ];
        assert_eq!(names(&offered("rwt", AgentMode::Ask)), all);
        let reading = ["read_file", "update_plan"];
        assert_eq!(names(&offered("rwt", AgentMode::Architect)), reading);
    }

    #[test]
    fn each_mode_asks_for_what_it_says() {
        let asked = |mode: AgentMode| {
            [ToolEffect::Reads, ToolEffect::Edits, ToolEffect::Unknown]
                .map(|effect| effect.is_asked_about(mode))
        };
        assert_eq!(asked(AgentMode::Ask), [false, true, true]);
        assert_eq!(asked(AgentMode::Code), [false, false, true]);
    }

    #[test]
    fn a_call_that_cannot_be_carried_out_is_explained_to_the_model() {
        let offered = OfferedTools::default();
        let rules = ToolRules::default();
        let tools = ToolBox::new(client("r"), AgentMode::Code, offered, &rules);
        let explained = |name: &str, arguments: &str| tools.read(name, arguments).err().unwrap();
        assert!(explained("run_command", "{}").contains("The tools are: read_file, update_plan"));
        for broken in ["", "{", "[]", "{\"path\":7}", "{}", "{\"path\":\"/a\"} x"] {
            assert!(
                explained("read_file", broken).contains("cannot be understood"),
                "{broken}"
            );
        }
        assert!(
            tools
                .read("read_file", "{\"path\":\"a\",\"more\":1}")
                .is_ok()
        );
    }
}
