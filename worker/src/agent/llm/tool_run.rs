//! Carries out the tool calls of a step.

use std::time::Duration;

use baton_protocol::Method;
use serde_json::json;

use super::call_run::{CallRun, TurnEnds};
use super::step_mark::{call_meta, marked};
use super::tool::{McpCall, ToolBox, ToolCall, plan};
use super::tool_view::{ToolOutcome, ToolView};
use super::turn_context::TurnContext;
use super::turn_record::CallRecord;
use crate::agent::{Failure, StopReason};

const CANCELLED: &str = "The user cancelled the turn before this tool call was finished.";
const UNKNOWN: &str = "The outcome of this tool call is unknown: the worker that made it stopped \
                       before the answer came. It may have had its effect, so it was not made \
                       again. Find out before you repeat it.";
/// A client that is gone answers nothing.
const RELEASE_PATIENCE: Duration = Duration::from_secs(1);

/// Runs the call if it has no result yet; `Some` ends the turn.
pub async fn run(
    context: TurnContext<'_>,
    call: &mut CallRecord,
    tools: &ToolBox,
) -> Result<Option<StopReason>, Failure> {
    if call.result.is_some() {
        return Ok(None);
    }
    let read = tools.read(&call.tool, &call.arguments);
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
            (view, tool.effect().is_asked_about(mode))
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
    let outcome = match read {
        Ok(tool) => carry_out(&tool, &mut run).await,
        // A server that is gone by now.
        Err(_) if run.call.started => Ok(unknown_outcome(&run)),
        Err(explained) => Ok(ToolOutcome::failed(explained)),
    };
    match outcome {
        Ok(outcome) => {
            run.finish(outcome).await;
            Ok(None)
        }
        Err(TurnEnds) => Ok(Some(StopReason::Cancelled)),
    }
}

/// The turn ends: a call that clients take for running is over, and its command is, too.
pub async fn close(context: TurnContext<'_>, call: &mut CallRecord) {
    if call.result.is_some() || !call.announced {
        return;
    }
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

fn unknown_view(tool: &str) -> ToolView {
    ToolView {
        title: tool.chars().take(100).collect(),
        kind: "other",
        locations: Vec::new(),
    }
}

async fn carry_out(tool: &ToolCall, run: &mut CallRun<'_>) -> Result<ToolOutcome, TurnEnds> {
    match tool {
        ToolCall::ReadFile(call) => Ok(call.run(run).await),
        ToolCall::WriteFile(call) => call.run(run).await,
        ToolCall::EditFile(call) => call.run(run).await,
        ToolCall::RunCommand(call) => call.run(run).await,
        ToolCall::UpdatePlan(_) => Ok(ToolOutcome::default()),
        ToolCall::Mcp(call) => of_server(call, run).await,
    }
}

/// A call whose worker died may have had its effect: it runs again only if that does no harm.
async fn of_server(call: &McpCall, run: &mut CallRun<'_>) -> Result<ToolOutcome, TurnEnds> {
    if run.call.started && !call.tool.may_run_again() {
        return Ok(unknown_outcome(run));
    }
    if let Some(rejected) = run.permit(&[]).await? {
        return Ok(rejected);
    }
    run.start().await;
    // A later worker has to know that it may have run.
    run.context.turn.wait_until_written().await;
    Ok(call.tool.call(call.arguments.clone()).await)
}

fn unknown_outcome(run: &CallRun<'_>) -> ToolOutcome {
    tracing::warn!(
        session.id = %run.context.turn.session(),
        tool = run.call.tool,
        "the outcome of a tool call is unknown: its worker stopped while it ran"
    );
    ToolOutcome::failed(UNKNOWN)
}
