//! The spans of a worker. They go on with the trace that a command has brought along, and what they
//! are about travels on with its answer. A command without a trace makes no spans.

use baton_session::clock::unix_millis;
use baton_session::command::QueuedCommand;
use baton_session::event::Event;
use baton_session::id::SessionId;
use baton_session::store::Claim;
use baton_session::trace::{TARGET, TraceContext};
use serde_json::value::RawValue;
use tracing::Span;
use tracing::field::Empty;

use crate::rpc::Failure;
use crate::stop_reason::StopReason;

/// A session was taken up; lasts until its agent is open.
pub fn claimed(claim: &Claim) -> Span {
    let traced = |queued: &QueuedCommand| Some((queued.command.trace.clone()?, waited(queued)));
    let Some((trace, waited_ms)) = claim.inbox.iter().find_map(traced) else {
        return Span::none();
    };
    let span = tracing::info_span!(
        target: TARGET,
        parent: None,
        "session.claim",
        otel.kind = "consumer",
        session.id = claim.session.as_str(),
        waited_ms,
        resumed = claim.running.is_some(),
    );
    trace.adopt(&span);
    span
}

/// A prompt from begin to answer.
pub fn turn(session: &SessionId, queued: &mut QueuedCommand) -> Span {
    if queued.command.trace.is_none() {
        return Span::none();
    }
    let span = tracing::info_span!(
        target: TARGET,
        parent: None,
        "session.turn",
        otel.kind = "consumer",
        otel.status_code = Empty,
        session.id = session.as_str(),
        connection.id = queued.command.connection.as_str(),
        waited_ms = waited(queued),
        stop_reason = Empty,
        error.type = Empty,
    );
    go_on(queued, span)
}

/// Any other command.
pub fn command(session: &SessionId, queued: &mut QueuedCommand) -> Span {
    if queued.command.trace.is_none() {
        return Span::none();
    }
    let span = tracing::info_span!(
        target: TARGET,
        parent: None,
        "session.command",
        otel.kind = "consumer",
        session.id = session.as_str(),
        connection.id = queued.command.connection.as_str(),
        command = queued.command.kind.as_str(),
        waited_ms = waited(queued),
    );
    go_on(queued, span)
}

/// The results of the command become part of this span.
fn go_on(queued: &mut QueuedCommand, span: Span) -> Span {
    if let Some(trace) = &mut queued.command.trace {
        trace.adopt(&span);
        // Other processes may trace although this one does not.
        if let Some(here) = TraceContext::of(&span) {
            *trace = here;
        }
    }
    span
}

/// The agent at work, in the turn that is current.
pub fn agent(queued: &QueuedCommand) -> Span {
    match queued.command.trace {
        Some(_) => tracing::info_span!(target: TARGET, "agent.prompt", otel.kind = "client"),
        None => Span::none(),
    }
}

/// A call of a model, in the turn that is current.
pub fn model_call(model: &str, provider: &'static str) -> Span {
    if Span::current().is_none() {
        return Span::none();
    }
    tracing::info_span!(
        target: TARGET,
        "chat",
        otel.name = format!("chat {model}"),
        otel.kind = "client",
        otel.status_code = Empty,
        error.type = Empty,
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = provider,
        gen_ai.request.model = model,
        gen_ai.response.finish_reasons = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        gen_ai.usage.cache_read.input_tokens = Empty,
    )
}

/// A call of a tool, in the turn that is current.
pub fn tool_call(tool: &str, id: &str) -> Span {
    if Span::current().is_none() {
        return Span::none();
    }
    tracing::info_span!(
        target: TARGET,
        "execute_tool",
        otel.name = format!("execute_tool {tool}"),
        otel.kind = "internal",
        otel.status_code = Empty,
        error.type = Empty,
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = tool,
        gen_ai.tool.call.id = id,
    )
}

/// How the current turn ended.
pub fn ended(queued: &QueuedCommand, outcome: &Result<Box<RawValue>, Failure>) {
    if queued.command.trace.is_none() {
        return;
    }
    let span = Span::current();
    match outcome {
        Ok(answer) => {
            if let Some(reason) = StopReason::of(answer) {
                span.record("stop_reason", reason.as_str());
            }
        }
        Err(failure) => {
            span.record("error.type", failure.code.to_string());
            span.record("otel.status_code", "ERROR");
        }
    }
}

/// The write that makes an answer known. It comes last in its frame.
pub fn append(events: &[Event]) -> Span {
    let Some(trace) = answered(events) else {
        return Span::none();
    };
    let events = events.len() as i64;
    let span = tracing::info_span!(
        target: TARGET,
        parent: None,
        "store.append",
        otel.kind = "client",
        events,
    );
    trace.adopt(&span);
    span
}

/// The trace of the answer that these events end with.
pub fn answered(events: &[Event]) -> Option<&TraceContext> {
    match events.last()? {
        Event::Response { to, .. } => to.trace.as_ref(),
        _ => None,
    }
}

fn waited(queued: &QueuedCommand) -> i64 {
    unix_millis().saturating_sub(queued.command.taken_at) as i64
}
