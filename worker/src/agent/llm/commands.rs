//! Commands that a user writes as the first word of a prompt. They are carried out without a model.

use serde_json::{Value, json};

use super::mcp_prompts::McpPrompt;
use super::model::MessagePart;
use super::turn_record::TurnRecord;

#[derive(Debug, PartialEq, Eq)]
pub enum UserCommand {
    /// Shows the models, or chooses one.
    Model(Option<String>),
    /// Sums the conversation up.
    Compact,
}

/// Those that there are, as clients list them.
pub fn announcement(prompts: &[McpPrompt]) -> Value {
    let own = json!({
        "name": "model",
        "description": "Show the models, or choose one",
        "input": { "hint": "name of a model" },
    });
    let compact = json!({
        "name": "compact",
        "description": "Sum up the conversation, so that there is room for more",
    });
    let theirs = prompts.iter().map(McpPrompt::announcement);
    let all: Vec<Value> = [own, compact].into_iter().chain(theirs).collect();
    json!({ "sessionUpdate": "available_commands_update", "availableCommands": all })
}

/// The command in a prompt, if it is one.
pub fn command_in(turn: &TurnRecord) -> Option<UserCommand> {
    let [MessagePart::Text(text)] = &turn.user[..] else {
        return None;
    };
    if text.trim() == "/compact" {
        return Some(UserCommand::Compact);
    }
    let rest = text.trim().strip_prefix("/model")?;
    match rest.trim() {
        "" => Some(UserCommand::Model(None)),
        name if rest.starts_with(char::is_whitespace) => {
            Some(UserCommand::Model(Some(name.to_owned())))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_word_is_a_command() {
        let command = |text: &str| {
            command_in(&TurnRecord {
                user: vec![MessagePart::Text(text.into())],
                ..TurnRecord::default()
            })
        };
        assert_eq!(command(" /model "), Some(UserCommand::Model(None)));
        assert_eq!(
            command("/model a/b:c"),
            Some(UserCommand::Model(Some("a/b:c".into())))
        );
        assert_eq!(command("/models"), None);
        assert_eq!(command(" /compact\n"), Some(UserCommand::Compact));
        assert_eq!(command("/compact now"), None);
        assert_eq!(command("what is /model"), None);
    }
}
