//! Compaction: a model sums up the conversation so far, and from then on this takes its place. It
//! is a step of its own, shown as a tool call: begun when it is announced, done when its summary is
//! in the log. A worker that finds it begun makes it under the same id.

use baton_session::id::random_text;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::model::{MessagePart, ModelEvent, ModelMessage, ModelReply, ModelRequest};
use super::model_error::ModelError;
use super::spending::UsedSoFar;
use super::step_mark::{CompactionMark, compaction_meta, marked};
use super::tool::ToolBox;
use super::tool_view::{cut, text_content};
use super::turn_context::TurnContext;
use super::turn_record::TurnRecord;

/// Of the context, in percent: then there is little room for the turn that runs.
const FULL_PERCENT: usize = 80;
const MAX_SUMMARY: usize = 64 << 10;
const SUMMARY_TOKENS: u32 = 4096;
const TITLE: &str = "Sum up the conversation";
const REQUEST: &str = "\
Sum up our conversation so far, for yourself: it will be all that you know of it. Say what the \
user wants, what was decided and why, what was done to which files, what commands have shown, \
what is left to do, and all names, paths and numbers that are still needed. Use no tools. Answer \
with the summary alone.";

#[derive(Debug, PartialEq, Eq)]
pub enum CompactionOutcome {
    /// There is nothing to sum up.
    Nothing,
    Done,
    Failed(String),
}

/// Before a step: if the conversation has become too long, or an earlier worker has begun with it.
pub async fn if_needed(context: TurnContext<'_>, record: &mut TurnRecord, tools: &ToolBox) {
    let full = || {
        let most = context.model().config.context;
        let memory = context.memory.fields();
        memory.history.is_fuller_than(record, most, FULL_PERCENT)
    };
    let is_next = record.compaction.is_some() || !record.compacted && full();
    if is_next && let CompactionOutcome::Failed(why) = run(context, record, tools).await {
        tracing::warn!(
            session.id = %context.turn.session(),
            why,
            "a conversation could not be summed up: its beginning is left out"
        );
    }
}

pub async fn run(
    context: TurnContext<'_>,
    record: &mut TurnRecord,
    tools: &ToolBox,
) -> CompactionOutcome {
    if record.compaction.is_none() {
        if context.memory.fields().history.is_empty() {
            return CompactionOutcome::Nothing;
        }
        let id = format!("compaction-{}", random_text(8));
        let update = json!({
            "sessionUpdate": "tool_call", "toolCallId": id, "title": TITLE, "kind": "think",
            "status": "in_progress",
        });
        let mark = compaction_meta(CompactionMark::Begun, UsedSoFar::default());
        context.turn.update(marked(update, mark)).await;
        record.compaction = Some(id);
    }
    match summary(context, tools).await {
        Ok((summary, used)) => {
            done(context, record, summary, used).await;
            CompactionOutcome::Done
        }
        Err(error) => {
            let why = error.to_string();
            close(context, record, &why).await;
            CompactionOutcome::Failed(why)
        }
    }
}

async fn done(context: TurnContext<'_>, record: &mut TurnRecord, summary: String, used: UsedSoFar) {
    record.used += used;
    {
        let mut memory = context.memory.fields();
        memory.used += used;
        memory.history.replace_by(&summary);
    }
    let mark = compaction_meta(CompactionMark::Done, used);
    end(context, record, "completed", &summary, mark).await;
}

/// It comes to nothing, and is not tried again in this turn.
pub async fn close(context: TurnContext<'_>, record: &mut TurnRecord, why: &str) {
    if record.compaction.is_some() {
        let mark = compaction_meta(CompactionMark::Failed, UsedSoFar::default());
        end(context, record, "failed", why, mark).await;
    }
}

async fn end(
    context: TurnContext<'_>,
    record: &mut TurnRecord,
    status: &str,
    text: &str,
    mark: Value,
) {
    let id = record.compaction.take();
    record.compacted = true;
    let update = json!({
        "sessionUpdate": "tool_call_update", "toolCallId": id, "status": status,
        "rawOutput": text, "content": [text_content(text)],
    });
    context.turn.update_lasting(marked(update, mark)).await;
}

async fn summary(
    context: TurnContext<'_>,
    tools: &ToolBox,
) -> Result<(String, UsedSoFar), ModelError> {
    let model = context.model();
    let nothing = TurnRecord {
        user: vec![MessagePart::Text(REQUEST.into())],
        ..TurnRecord::default()
    };
    let messages: Vec<ModelMessage> = {
        let memory = context.memory.fields();
        memory.history.messages_with(&nothing, model.config.context)
    };
    let request = ModelRequest {
        model: model.config.name.clone(),
        system: String::new(),
        messages,
        // Some endpoints take no earlier tool calls without them.
        tools: tools.definitions(),
        max_output_tokens: Some(SUMMARY_TOKENS),
        reasoning_effort: None,
        parallel_tools: false,
    };
    let reply = ask(context, &request).await?;
    let text = cut(reply.message.text(), MAX_SUMMARY);
    if text.trim().is_empty() {
        let detail = "the model has written no summary".to_owned();
        return Err(ModelError::Malformed { detail });
    }
    let used = UsedSoFar {
        tokens: reply.usage.input + reply.usage.output,
        cost: model.config.prices.map_or(0, |it| it.cost(reply.usage)),
        millis: 0,
    };
    Ok((text, used))
}

async fn ask(context: TurnContext<'_>, request: &ModelRequest) -> Result<ModelReply, ModelError> {
    let cancel = CancellationToken::new();
    let mut stream = context.model().provider.stream(request, &cancel).await?;
    while let Some(event) = stream.next().await {
        if let ModelEvent::Done(reply) = event? {
            return Ok(*reply);
        }
    }
    let detail = "the stream ended before its end was said".to_owned();
    Err(ModelError::BrokenOff { detail })
}
