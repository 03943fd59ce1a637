//! A step of the model: asks it, shows what it says as it comes, and marks the end of its message.
//! If the stream breaks off, it is asked again with what was said already as its beginning.

use std::time::Duration;

use baton_protocol::ErrorCode;
use baton_session::id::random_text;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span};

use super::model::{ModelEvent, ModelProtocol, ModelReply, ModelRequest, TokenUsage};
use super::model_error::ModelError;
use super::models::ChosenModel;
use super::spending::{UsedSoFar, amount};
use super::step_mark::{StepMark, marked, step_meta};
use super::system_prompt::system_prompt;
use super::tool::ToolBox;
use super::turn_context::{TurnContext, text_chunk};
use super::turn_record::{StepRecord, TurnRecord};
use crate::agent::Failure;
use crate::trace;

/// How often in a row a stream may break off without having said anything new.
const MAX_BREAKS: u32 = 3;
/// How often one message may break off at all: each time the whole conversation is sent again.
const MAX_ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(500);

pub async fn run(
    context: TurnContext<'_>,
    record: &mut TurnRecord,
    tools: &ToolBox,
    clock: &mut Instant,
) -> Result<(), Failure> {
    if record
        .steps
        .last()
        .is_none_or(|step| step.finished.is_some())
    {
        record.step(&random_text(16));
    }
    let (mut breaks, mut attempts) = (0, 0);
    loop {
        let said = record.steps.last().map_or(0, |step| step.said.len());
        let model = context.model();
        let request = request(context, record, tools, model);
        let span = trace::model_call(&request.model, provider_name(model));
        let mut begun = false;
        let outcome = attempt(context, record, &request, model, &mut begun);
        let outcome = outcome.instrument(span.clone()).await;
        note(&span, &outcome);
        let metrics = &context.config.metrics;
        let kind = outcome.as_ref().map_or_else(ModelError::kind, |_| "ok");
        metrics.called(&model.config.id, kind);
        let error = match outcome {
            Ok(reply) => {
                finish(context, record, model, reply, clock).await;
                return Ok(());
            }
            Err(error) => error,
        };
        let progress = record.steps.last().map_or(0, |step| step.said.len()) > said;
        breaks = if progress { 0 } else { breaks + 1 };
        attempts += 1;
        // Calls whose answer has not begun were tried again by the provider.
        let in_the_middle = progress && error.is_retryable();
        let goes_on = begun
            && (in_the_middle
                || matches!(
                    error,
                    ModelError::BrokenOff { .. } | ModelError::Timeout { .. }
                ));
        if !goes_on || breaks >= MAX_BREAKS || attempts >= MAX_ATTEMPTS {
            return Err(failure(&error));
        }
        tracing::warn!(
            kind = error.kind(),
            "the model's answer broke off: asking for the rest"
        );
        tokio::time::sleep(PAUSE * (breaks + 1)).await;
    }
}

/// By the protocol: who is behind it is not known.
fn provider_name(model: ChosenModel<'_>) -> &'static str {
    match model.provider.config().protocol {
        ModelProtocol::Chat | ModelProtocol::Responses => "openai",
        ModelProtocol::Anthropic => "anthropic",
    }
}

/// Adds the outcome of the call to its span.
fn note(span: &Span, outcome: &Result<ModelReply, ModelError>) {
    match outcome {
        Ok(reply) => {
            span.record("gen_ai.usage.input_tokens", reply.usage.input);
            span.record("gen_ai.usage.output_tokens", reply.usage.output);
            let cached = reply.usage.cached_input;
            span.record("gen_ai.usage.cache_read.input_tokens", cached);
            let reason = format!("[{}]", json!(reply.stop));
            span.record("gen_ai.response.finish_reasons", reason);
        }
        Err(error) => {
            span.record("error.type", error.kind());
            span.record("otel.status_code", "ERROR");
        }
    }
}

fn request(
    context: TurnContext<'_>,
    record: &TurnRecord,
    tools: &ToolBox,
    model: ChosenModel<'_>,
) -> ModelRequest {
    let memory = context.memory.fields();
    let own = context.config.system_prompt.as_deref();
    let settings = &memory.settings;
    ModelRequest {
        model: model.config.name.clone(),
        system: system_prompt(own, context.cwd, settings.mode, tools),
        messages: memory.history.messages_with(record, model.config.context),
        tools: tools.definitions(),
        max_output_tokens: model.config.max_output,
        reasoning_effort: settings.reasoning_effort(),
        parallel_tools: context.config.parallel_tools,
    }
}

/// One stream, from its first word to its last.
async fn attempt(
    context: TurnContext<'_>,
    record: &mut TurnRecord,
    request: &ModelRequest,
    model: ChosenModel<'_>,
    has_begun: &mut bool,
) -> Result<ModelReply, ModelError> {
    let metrics = &context.config.metrics;
    let step = record.steps.last_mut().expect("it was begun");
    // A dropped stream is closed; nothing else has to be told.
    let cancel = CancellationToken::new();
    let begun = Instant::now();
    let mut stream = model.provider.stream(request, &cancel).await?;
    *has_begun = true;
    metrics.begun(&model.config.id, begun.elapsed(), stream.retries());
    let thoughts = format!("{}~{}", step.id, random_text(6));
    while let Some(event) = stream.next().await {
        match event? {
            ModelEvent::Text(piece) => say(context, step, &piece).await,
            ModelEvent::Reasoning(piece) => {
                step.add_thought(&thoughts, &piece);
                let update = text_chunk("agent_thought_chunk", &thoughts, &piece);
                context.turn.update(update).await;
            }
            ModelEvent::ToolCall { .. } | ModelEvent::ToolArguments { .. } => {}
            ModelEvent::Done(reply) => return Ok(*reply),
        }
    }
    let detail = "the stream ended before its end was said".to_owned();
    Err(ModelError::BrokenOff { detail })
}

async fn say(context: TurnContext<'_>, step: &mut StepRecord, text: &str) {
    step.said.push_str(text);
    let update = text_chunk("agent_message_chunk", &step.id, text);
    context.turn.update(update).await;
}

/// The message is complete: its end and all that cannot be seen of it go into the log.
async fn finish(
    context: TurnContext<'_>,
    record: &mut TurnRecord,
    model: ChosenModel<'_>,
    reply: ModelReply,
    clock: &mut Instant,
) {
    let usage = reply.usage;
    let kinds = [
        ("input", usage.input),
        ("cached_input", usage.cached_input),
        ("output", usage.output),
        ("reasoning", usage.reasoning),
    ];
    context.config.metrics.counted(&model.config.id, kinds);
    let took = std::mem::replace(clock, Instant::now()).elapsed();
    let used = UsedSoFar {
        tokens: usage.input + usage.output,
        cost: model.config.prices.map_or(0, |prices| prices.cost(usage)),
        millis: took.as_millis() as u64,
    };
    record.used += used;
    let total = {
        let mut memory = context.memory.fields();
        memory.used += used;
        memory.used
    };
    let step = record.steps.last_mut().expect("it was begun");
    let mut mark = StepMark::of(
        &step.id,
        &model.config.id,
        model.provider.config().protocol,
        reply.stop,
        &reply.message,
        step.shown(),
    );
    mark.used = used;
    let mut update = usage_update(usage, model.config.context);
    if context.config.has_prices() {
        let currency = &context.config.limits.currency;
        update["cost"] = json!({ "amount": amount(total.cost), "currency": currency });
    }
    context.turn.update(marked(update, step_meta(&mark))).await;
    step.finish(reply.message, reply.stop);
}

/// Tells how much of the context is in use after this step.
fn usage_update(usage: TokenUsage, context: u64) -> Value {
    let used = usage.input + usage.output;
    json!({ "sessionUpdate": "usage_update", "used": used, "size": context.max(used) })
}

/// As the client is told it.
fn failure(error: &ModelError) -> Failure {
    let retry_after = error.retry_after().map(|it| it.as_millis() as u64);
    let mut data = json!({ "retryable": error.is_retryable(), "kind": error.kind() });
    if let Some(after) = retry_after {
        data["retryAfterMs"] = json!(after);
    }
    Failure {
        data: Some(data),
        ..Failure::new(ErrorCode::ModelFailed, error.to_string())
    }
}
