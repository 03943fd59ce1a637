//! Carries out the tool calls of a step.

use std::time::Duration;

use baton_protocol::Method;
use serde_json::{Value, json};
use tracing::Instrument as _;

use super::call_run::{CallRun, TurnEnds};
use super::mcp_call::{self, unknown_outcome};
use super::mcp_server::MCP_MESSAGE;
use super::step_mark::{call_meta, marked};
use super::tool::{ToolBox, ToolCall, own_name, plan, run_command};
use super::tool_view::{ToolOutcome, ToolView};
use super::turn_context::TurnContext;
use super::turn_record::CallRecord;
use crate::agent::{Failure, StopReason};
use crate::trace;

const CANCELLED: &str = "The user cancelled the turn before this tool call was finished.";
/// A client that is gone answers nothing.
const RELEASE_PATIENCE: Duration = Duration::from_secs(1);
const CREATE_PATIENCE: Duration = Duration::from_secs(3);

/// Runs the call if it has no result yet; `Some` ends the turn.
pub async fn run(
    context: TurnContext<'_>,
    call: &mut CallRecord,
    tools: &ToolBox,
) -> Result<Option<StopReason>, Failure> {
    if call.result.is_some() {
        return Ok(None);
    }
    let read = if call.started || !call.asked.is_empty() {
        tools.read_any(&call.tool, &call.arguments)
    } else {
        tools.read(&call.tool, &call.arguments)
    };
    if let Ok(ToolCall::UpdatePlan(plan)) = &read {
        let update = marked(plan.update(), call_meta(&call.shown_id));
        context.turn.update(update).await;
        call.result = Some(plan::result());
        return Ok(None);
    }
    let mode = context.memory.fields().settings.mode;
    let (view, asks) = match &read {
        Ok(tool) => {
            let view = tool.view(context.cwd);
            (view, tools.is_asked_about(mode, &call.tool, tool))
        }
        Err(_) => (unknown_view(&call.tool), false),
    };
    let mut run = CallRun {
        context,
        call,
        asks,
        view,
    };
    run.announce().await;
    let label = metric_name(&run.call.tool, &read);
    let span = trace::tool_call(&run.call.tool, &run.call.id);
    let outcome = outcome(read, &mut run).instrument(span.clone()).await;
    let ended = match &outcome {
        Ok(outcome) => outcome.kind.unwrap_or(if outcome.is_error {
            "failed"
        } else {
            "completed"
        }),
        Err(TurnEnds) => "cancelled",
    };
    if ended != "completed" {
        span.record("error.type", ended);
    }
    context.config.metrics.tool_ended(label, ended);
    match outcome {
        Ok(outcome) => {
            run.finish(outcome).await;
            Ok(None)
        }
        Err(TurnEnds) => Ok(Some(StopReason::Cancelled)),
    }
}

/// Servers choose the names of their tools, and models those of tools that do not exist.
fn metric_name(tool: &str, read: &Result<ToolCall, String>) -> &'static str {
    match read {
        Ok(ToolCall::Mcp(_)) => "mcp",
        _ => own_name(tool).unwrap_or("other"),
    }
}

async fn outcome(
    read: Result<ToolCall, String>,
    run: &mut CallRun<'_>,
) -> Result<ToolOutcome, TurnEnds> {
    match read {
        Ok(tool) => carry_out(&tool, run).await,
        Err(_) if run.call.was_asked(MCP_MESSAGE.name()) => Ok(mcp_call::resumed(run).await),
        // A server that is gone by now.
        Err(_) if run.call.started => Ok(unknown_outcome(run)),
        Err(explained) => Ok(ToolOutcome::failed(explained)),
    }
}

/// The turn ends: a call that clients take for running is over, and its command is, too.
pub async fn close(context: TurnContext<'_>, call: &mut CallRecord) {
    if call.result.is_some() || !call.announced {
        return;
    }
    find_terminal(context, call).await;
    if let Some(terminal) = call.terminal.take() {
        let params = json!({ "sessionId": context.turn.session(), "terminalId": terminal });
        let release = context.turn.request(Method::ReleaseTerminal.name(), params);
        let _ = tokio::time::timeout(RELEASE_PATIENCE, release).await;
    }
    let view = unknown_view(&call.tool);
    let mut run = CallRun {
        context,
        call,
        asks: false,
        view,
    };
    run.finish(ToolOutcome::failed(CANCELLED)).await;
}

/// The terminal that the client was just asked for: its command may run already.
async fn find_terminal(context: TurnContext<'_>, call: &mut CallRecord) {
    let create = Method::CreateTerminal.name();
    if call.terminal.is_some() || !call.started || call.tool != run_command::NAME {
        return;
    }
    let before = call.asked.iter().find(|asked| asked.method == create);
    let asked = before.map(|asked| asked.id.clone());
    let asked = asked.or_else(|| context.turn.abandoned_request(create));
    let answer = match asked {
        Some(asked) => {
            let answer = context.turn.resume_request(&asked);
            let answer = tokio::time::timeout(CREATE_PATIENCE, answer).await;
            answer.ok().and_then(Result::ok)
        }
        // It came in the moment in which the turn was cancelled.
        None => context.turn.take_opened_terminal(),
    };
    if let Some(answer) = answer {
        let created: Value = serde_json::from_str(answer.get()).unwrap_or_default();
        call.terminal = created["terminalId"].as_str().map(str::to_owned);
    }
}

fn unknown_view(tool: &str) -> ToolView {
    ToolView {
        title: tool.chars().take(100).collect(),
        kind: "other",
        locations: Vec::new(),
    }
}

async fn carry_out(tool: &ToolCall, run: &mut CallRun<'_>) -> Result<ToolOutcome, TurnEnds> {
    match tool {
        ToolCall::ReadFile(call) => match run.permit(&[]).await? {
            Some(rejected) => Ok(rejected),
            None => Ok(call.run(run).await),
        },
        ToolCall::WriteFile(call) => call.run(run).await,
        ToolCall::EditFile(call) => call.run(run).await,
        ToolCall::RunCommand(call) => call.run(run).await,
        ToolCall::UpdatePlan(_) => Ok(ToolOutcome::default()),
        ToolCall::Mcp(call) => mcp_call::run(call, run).await,
    }
}
