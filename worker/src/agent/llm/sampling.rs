//! An MCP server that asks the model something of its own. The user has to agree; what the model
//! answers goes to the server alone.

use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::call_run::CallRun;
use super::model::{
    AssistantMessage, AssistantPart, MessagePart, ModelEvent, ModelMessage, ModelReply,
    ModelRequest, ModelStop,
};
use super::tool_view::{cut, text_content};
use super::user_content::part_of;

/// Whatever the server asks for.
const MAX_TOKENS: u32 = 8192;
const MAX_MESSAGES: usize = 64;
const MAX_BYTES: usize = 1 << 20;
/// Of what is asked, what the user is shown.
const MAX_SHOWN: usize = 2000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SamplingParams {
    messages: Vec<SaidBefore>,
    #[serde(default)]
    system_prompt: Option<String>,
    max_tokens: u32,
}

#[derive(Deserialize)]
struct SaidBefore {
    role: String,
    /// A block, or several.
    content: Value,
}

/// The result of `sampling/createMessage`.
pub async fn answer(run: &mut CallRun<'_>, server: &str, params: Value) -> Result<Value, String> {
    if params.to_string().len() > MAX_BYTES {
        return Err("this is more than a model is asked here".into());
    }
    let params: SamplingParams =
        serde_json::from_value(params).map_err(|error| error.to_string())?;
    let last = params.messages.last().map(|it| parts_of(&it.content));
    let shown = last.iter().flatten().filter_map(|part| match part {
        MessagePart::Text(text) => Some(text.as_str()),
        MessagePart::Image { .. } => None,
    });
    let shown = cut(shown.collect::<Vec<_>>().join("\n"), MAX_SHOWN);
    let key = format!("{server} asks the model");
    let title = format!("The MCP server {server} wants to ask the model");
    if !run
        .permit_aside(&key, &title, &[text_content(&shown)])
        .await
    {
        return Err("the user has rejected this".into());
    }
    let request = request(run, params);
    let reply = ask(run, &request).await?;
    let stop = match reply.stop {
        ModelStop::MaxTokens => "maxTokens",
        _ => "endTurn",
    };
    Ok(json!({
        "role": "assistant",
        "content": { "type": "text", "text": reply.message.text() },
        "model": request.model,
        "stopReason": stop,
    }))
}

fn request(run: &CallRun<'_>, params: SamplingParams) -> ModelRequest {
    let skipped = params.messages.len().saturating_sub(MAX_MESSAGES);
    let messages = params.messages.into_iter().skip(skipped).map(|said| {
        let parts = parts_of(&said.content);
        if said.role == "assistant" {
            let parts = parts.into_iter().filter_map(|part| match part {
                MessagePart::Text(text) => Some(AssistantPart::Text(text)),
                MessagePart::Image { .. } => None,
            });
            return ModelMessage::Assistant(AssistantMessage {
                parts: parts.collect(),
            });
        }
        ModelMessage::User(parts)
    });
    ModelRequest {
        model: run.context.model().config.name.clone(),
        system: params.system_prompt.unwrap_or_default(),
        messages: messages.collect(),
        tools: [].into(),
        max_output_tokens: Some(params.max_tokens.min(MAX_TOKENS)),
        reasoning_effort: None,
        parallel_tools: false,
    }
}

fn parts_of(content: &Value) -> Vec<MessagePart> {
    match content {
        Value::Array(blocks) => blocks.iter().map(part_of).collect(),
        block => vec![part_of(block)],
    }
}

async fn ask(run: &CallRun<'_>, request: &ModelRequest) -> Result<ModelReply, String> {
    let cancel = CancellationToken::new();
    let stream = run.context.model().provider.stream(request, &cancel).await;
    let mut stream = stream.map_err(|error| error.to_string())?;
    while let Some(event) = stream.next().await {
        if let ModelEvent::Done(reply) = event.map_err(|error| error.to_string())? {
            return Ok(*reply);
        }
    }
    Err("the model broke off".into())
}
