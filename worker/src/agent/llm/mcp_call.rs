//! A call of an MCP server's tool. What the server says meanwhile is shown, and what it asks goes
//! to the client or the model.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::call_run::{CallRun, TurnEnds};
use super::mcp_server::{
    CallUnderWay, ClientServer, MCP_MESSAGE, ServerLink, ServerProgress, ServerQuestion,
    ServerSaid, UNUSED_PATIENCE, client_result,
};
use super::mcp_tools::outcome_of;
use super::sampling;
use super::tool::McpCall;
use super::tool_view::ToolOutcome;

/// Clients are not told of every little bit.
const PROGRESS_PAUSE: Duration = Duration::from_millis(250);
const MAX_PROGRESS: usize = 200;
/// Calls of the model that one call of a tool may lead to.
const MAX_SAMPLINGS: usize = 8;
const UNKNOWN: &str = "The outcome of this tool call is unknown: the worker that made it stopped \
                       before the answer came. It may have had its effect, so it was not made \
                       again. Find out before you repeat it.";

/// A call whose worker died may have had its effect: it runs again only if that does no harm. A
/// server in the client is asked only once, and its answer is waited for elsewhere.
pub async fn run(call: &McpCall, run: &mut CallRun<'_>) -> Result<ToolOutcome, TurnEnds> {
    let in_client = matches!(call.tool.server.link, ServerLink::InClient(_));
    if run.call.started && !in_client && !call.may_run_again {
        return Ok(unknown_outcome(run));
    }
    if let Some(rejected) = run.permit(&[]).await? {
        return Ok(rejected);
    }
    run.withdraw_asides();
    run.start().await;
    // A later worker has to know that it may have run.
    run.context.turn.wait_until_written().await;
    let result = match &call.tool.server.link {
        ServerLink::Connected(server) => {
            match server.call(&call.tool.name, call.arguments.clone()).await {
                Ok(under_way) => answered(call, under_way, run).await,
                Err(why) => Err(why),
            }
        }
        ServerLink::InClient(server) => return Ok(of_client(server, call, run).await),
    };
    run.context.turn.withdraw_abandoned();
    Ok(match result {
        Ok(result) => outcome_of(&result),
        Err(why) => ToolOutcome::failed(format!(
            "The MCP server {} failed during this call, so its outcome is unknown: {why}",
            call.tool.server.name
        )),
    })
}

pub fn unknown_outcome(run: &mut CallRun<'_>) -> ToolOutcome {
    run.withdraw_asides();
    tracing::warn!(
        session.id = %run.context.turn.session(),
        tool = run.call.tool,
        "the outcome of a tool call is unknown: its worker stopped while it ran"
    );
    ToolOutcome::failed(UNKNOWN).of_kind("unknown")
}

/// The question to the client that an earlier worker has asked, whether or not the client's server
/// is known here.
pub async fn resumed(run: &mut CallRun<'_>) -> ToolOutcome {
    of_answer(run.ask(MCP_MESSAGE.name(), Value::Null).await)
}

fn of_answer(answer: Result<Value, String>) -> ToolOutcome {
    match answer.and_then(client_result) {
        Ok(result) => outcome_of(&result),
        Err(why) => ToolOutcome::failed(format!("The tool failed: {why}")),
    }
}

async fn of_client(server: &ClientServer, call: &McpCall, run: &mut CallRun<'_>) -> ToolOutcome {
    // The same for every worker, so that progress is understood by each.
    let request = run.call.shown_id.clone();
    let (listener, mut said) = server.events.listen();
    listener.named(request.clone());
    let arguments = json!({ "name": call.tool.name, "arguments": call.arguments });
    let params = server.message(&request, "tools/call", arguments);
    let show = run.progress_view();
    let asked = run.ask(MCP_MESSAGE.name(), params);
    let mut shown = None;
    tokio::pin!(asked);
    let answer = loop {
        tokio::select! {
            biased;
            answer = &mut asked => break answer,
            Some(said) = said.recv() => {
                if let ServerSaid::Progress(progress) = said
                    && is_due(&mut shown)
                {
                    show.show(&text_of(&progress)).await;
                }
            }
        }
    };
    of_answer(answer)
}

/// Waits for the answer, and hears what the server says before it.
async fn answered(
    call: &McpCall,
    under_way: CallUnderWay,
    run: &mut CallRun<'_>,
) -> Result<rmcp::model::CallToolResult, String> {
    let CallUnderWay {
        mut said,
        mut answer,
    } = under_way;
    let (mut shown, mut samplings) = (None, 0);
    loop {
        let heard = tokio::select! {
            biased;
            outcome = &mut answer => return outcome,
            heard = said.recv() => heard,
            () = sleep(UNUSED_PATIENCE) => {
                return Err(format!("nothing was heard of it for {UNUSED_PATIENCE:?}"));
            }
        };
        let Some(heard) = heard else {
            return answer.await;
        };
        let hearing = async {
            match heard {
                ServerSaid::Progress(progress) => {
                    if is_due(&mut shown) {
                        run.progress_view().show(&text_of(&progress)).await;
                    }
                }
                ServerSaid::Question(ServerQuestion::Elicitation(params), reply) => {
                    let _ = reply.send(Ok(run.elicit(params).await));
                }
                ServerSaid::Question(ServerQuestion::Sampling(params), reply) => {
                    samplings += 1;
                    let answer = if samplings > MAX_SAMPLINGS {
                        Err(format!("one call may ask the model {MAX_SAMPLINGS} times"))
                    } else {
                        sampling::answer(run, &call.tool.server.name, params).await
                    };
                    let _ = reply.send(answer);
                }
            }
        };
        // A server that has ended does not wait for an answer.
        tokio::select! {
            biased;
            outcome = &mut answer => return outcome,
            () = hearing => {}
        }
    }
}

fn is_due(shown: &mut Option<Instant>) -> bool {
    let now = Instant::now();
    let due = shown.is_none_or(|last| now.duration_since(last) >= PROGRESS_PAUSE);
    if due {
        *shown = Some(now);
    }
    due
}

fn text_of(progress: &ServerProgress) -> String {
    let ServerProgress {
        progress,
        total,
        message,
    } = progress;
    let far = match total {
        Some(total) => format!("{progress} of {total}"),
        None => progress.to_string(),
    };
    let text = match message {
        Some(message) => format!("{far}: {message}"),
        None => far,
    };
    text.chars().take(MAX_PROGRESS).collect()
}
