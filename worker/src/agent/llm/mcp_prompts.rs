//! Prompts of MCP servers, as commands: the user writes `/SERVER__PROMPT` and its arguments, and
//! the model is told what the server makes of them.

use std::sync::Arc;

use rmcp::model::{ContentBlock, JsonObject, Prompt, PromptArgument, PromptMessage, Role};
use serde_json::{Value, json};

use super::mcp_server::{McpServer, ServerLink};
use super::mcp_tools::plain_name;
use super::model::MessagePart;
use super::step_mark::{marked, prompt_meta};
use super::tool_view::cut;
use super::turn_context::TurnContext;
use super::turn_record::TurnRecord;
use super::user_content::part_of;

/// Of a prompt, what the model gets.
const MAX_PROMPT: usize = 256 << 10;
const MAX_TEXT: usize = 200;

#[derive(Clone)]
pub struct McpPrompt {
    server: Arc<McpServer>,
    prompt: Prompt,
    /// What the user writes after the slash.
    pub command: String,
}

impl McpPrompt {
    pub fn of(server: &Arc<McpServer>, prompt: Prompt) -> Self {
        Self {
            server: server.clone(),
            command: plain_name([&server.name, "__", &prompt.name]),
            prompt,
        }
    }

    fn arguments(&self) -> &[PromptArgument] {
        self.prompt.arguments.as_deref().unwrap_or_default()
    }

    /// As clients list it.
    pub fn announcement(&self) -> Value {
        let short = |text: &str| text.chars().take(MAX_TEXT).collect::<String>();
        let title = self
            .prompt
            .description
            .as_ref()
            .or(self.prompt.title.as_ref());
        let title = title.map_or_else(
            || format!("A prompt of {}", self.server.name),
            |it| short(it),
        );
        let names = self.arguments().iter().map(|it| it.name.as_str());
        let hint = short(&names.collect::<Vec<_>>().join(" "));
        let mut command = json!({ "name": self.command, "description": title });
        if !hint.is_empty() {
            command["input"] = json!({ "hint": hint });
        }
        command
    }

    /// What the server makes of it.
    async fn text(&self, written: &str) -> Result<String, String> {
        let ServerLink::Connected(server) = &self.server.link else {
            return Err("it has no prompts".into());
        };
        let arguments = arguments(self.arguments(), written);
        let got = server.prompt(&self.prompt.name, arguments).await?;
        Ok(cut(text_of(&got.messages), MAX_PROMPT))
    }
}

/// `NAME=VALUE` for an argument with this name; what else there is goes to the arguments in their
/// order, and all the rest to the last one.
fn arguments(known: &[PromptArgument], written: &str) -> JsonObject {
    let mut found = JsonObject::new();
    let mut rest = written.trim();
    while let Some((word, after)) = next_word(rest)
        && let Some((name, value)) = word.split_once('=')
        && known.iter().any(|it| it.name == name)
    {
        found.insert(name.to_owned(), json!(value));
        rest = after;
    }
    let open: Vec<_> = known
        .iter()
        .filter(|it| !found.contains_key(&it.name))
        .collect();
    for (at, argument) in open.iter().enumerate() {
        let is_last = at + 1 == open.len();
        let Some((word, after)) = next_word(rest) else {
            break;
        };
        let value = if is_last { rest } else { word };
        found.insert(argument.name.clone(), json!(value));
        rest = after;
    }
    found
}

fn next_word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    (!word.is_empty()).then(|| (word, rest.trim_start()))
}

fn text_of(messages: &[PromptMessage]) -> String {
    let several = messages.iter().any(|it| it.role == Role::Assistant);
    let texts = messages.iter().map(|message| {
        let text = match &message.content {
            ContentBlock::Text(text) => text.text.clone(),
            other => match part_of(&json!(other)) {
                MessagePart::Text(text) => text,
                MessagePart::Image { .. } => "[an image, which a prompt cannot show]".into(),
            },
        };
        match (several, &message.role) {
            (true, Role::Assistant) => format!("Assistant: {text}"),
            (true, _) => format!("User: {text}"),
            (false, _) => text,
        }
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

/// Replaces a command by its prompt, once in a turn. An error is for the user.
pub async fn expand(
    context: TurnContext<'_>,
    record: &mut TurnRecord,
    prompts: &[McpPrompt],
) -> Result<(), String> {
    let [MessagePart::Text(text)] = &record.user[..] else {
        return Ok(());
    };
    let Some(written) = text.trim().strip_prefix('/') else {
        return Ok(());
    };
    let (command, rest) = next_word(written).unwrap_or_default();
    let Some(prompt) = prompts.iter().find(|it| it.command == command) else {
        return Ok(());
    };
    if !record.steps.is_empty() || record.expanded {
        return Ok(());
    }
    let text = prompt.text(rest).await;
    let text = text.map_err(|why| format!("The prompt {command} cannot be used: {why}"))?;
    let update = json!({
        "sessionUpdate": "user_message_chunk",
        "content": { "type": "text", "text": text },
    });
    context
        .turn
        .update(marked(update, prompt_meta(command)))
        .await;
    record.expanded = true;
    record.user.push(MessagePart::Text(text));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_have_names_or_places() {
        let known = ["city", "style"].map(PromptArgument::new);
        let read = |written: &str| json!(arguments(&known, written));
        assert_eq!(read(""), json!({}));
        assert_eq!(read(" Oslo "), json!({ "city": "Oslo" }));
        let both = json!({ "city": "Oslo", "style": "short and dry" });
        assert_eq!(read("Oslo short and dry"), both);
        assert_eq!(read("city=Oslo  short and dry"), both);
        let other = json!({ "city": "a=b", "style": "c" });
        assert_eq!(read("a=b c"), other);
        assert_eq!(json!(arguments(&[], "anything")), json!({}));
    }

    #[test]
    fn a_prompt_of_several_voices_says_whose_they_are() {
        let message = |role, text: &str| PromptMessage::new_text(role, text);
        assert_eq!(text_of(&[message(Role::User, "Hi")]), "Hi");
        let both = [message(Role::User, "Hi"), message(Role::Assistant, "Ho")];
        assert_eq!(text_of(&both), "User: Hi\n\nAssistant: Ho");
    }
}
