//! The loop of a turn: a model's message, its tool calls, the next message. Everything that it does
//! is decided by the turn's record, so it goes on from wherever an earlier worker was.

use baton_session::id::random_text;
use serde_json::json;

use super::commands::{UserCommand, command_in};
use super::model::{MessagePart, ModelStop};
use super::model_step;
use super::tool::ToolBox;
use super::tool_run;
use super::turn_context::{TurnContext, text_chunk};
use super::turn_record::{StepRecord, TurnRecord};
use crate::agent::{Failure, StopReason};

/// Of a title, what is taken from the first prompt.
const TITLE_CHARS: usize = 60;

pub struct TurnLoop<'a>(pub TurnContext<'a>);

impl TurnLoop<'_> {
    pub async fn run(&self, record: &mut TurnRecord) -> Result<StopReason, Failure> {
        self.give_title(record).await;
        if let Some(command) = command_in(record) {
            self.carry_out(command, record).await?;
            return Ok(StopReason::EndTurn);
        }
        loop {
            let tools = ToolBox::of(self.0).await;
            if !record.has_finished_step() {
                model_step::run(self.0, record, &tools).await?;
            }
            let step = record.steps.last_mut().expect("a step was just finished");
            for call in &mut step.calls {
                if let Some(reason) = tool_run::run(self.0, call, &tools).await? {
                    return Ok(reason);
                }
            }
            if let Some(reason) = self.end(record) {
                return Ok(reason);
            }
            let next = StepRecord::new(random_text(16));
            record.steps.push(next);
        }
    }

    /// Whether the turn is over after this step.
    fn end(&self, record: &TurnRecord) -> Option<StopReason> {
        let step = record.steps.last()?;
        let stop = step.finished.as_ref()?.stop;
        let goes_on = !step.calls.is_empty() || stop == ModelStop::Paused;
        if goes_on {
            let full = record.steps.len() >= self.0.config.max_steps;
            return full.then_some(StopReason::MaxTurnRequests);
        }
        Some(match stop {
            ModelStop::MaxTokens => StopReason::MaxTokens,
            ModelStop::Refusal => StopReason::Refusal,
            ModelStop::EndTurn | ModelStop::ToolCalls | ModelStop::Paused => StopReason::EndTurn,
        })
    }

    /// The first words of the first prompt.
    async fn give_title(&self, record: &TurnRecord) {
        if self.0.memory.fields().settings.titled {
            return;
        }
        let words = record.user.iter().find_map(|part| match part {
            MessagePart::Text(text) if !text.trim().is_empty() => Some(text.trim()),
            _ => None,
        });
        let Some(words) = words else { return };
        let title = title_of(words);
        let update = json!({ "sessionUpdate": "session_info_update", "title": title });
        let memory = self.0.memory;
        let named = || memory.change(|settings| settings.titled = true);
        self.0.turn.update_with(update, named).await;
    }

    async fn carry_out(
        &self,
        command: UserCommand,
        record: &mut TurnRecord,
    ) -> Result<(), Failure> {
        // It has said all that it has to say at once.
        if !record.steps.is_empty() {
            return Ok(());
        }
        let UserCommand::Model(name) = command;
        let text = match name {
            Some(name) => {
                let value = json!(name);
                let update = self.0.memory.change(|it| it.set("model", &value))?;
                self.0.turn.update(update).await;
                format!("The model is {name} from now on.")
            }
            None => {
                let memory = self.0.memory.fields();
                let all = memory.settings.models().join(", ");
                format!("The model is {}. There are: {all}", memory.settings.model)
            }
        };
        self.say(record, &text).await;
        Ok(())
    }

    /// Says something that no model has said.
    pub async fn say(&self, record: &mut TurnRecord, text: &str) {
        let id = random_text(16);
        record.step(&id).said.push_str(text);
        self.0
            .turn
            .update(text_chunk("agent_message_chunk", &id, text))
            .await;
    }

    /// The turn ends: tool calls that were announced come to an end, too.
    pub async fn close(&self, record: &mut TurnRecord) {
        for call in record.steps.iter_mut().flat_map(|step| &mut step.calls) {
            tool_run::close(self.0, call).await;
        }
    }
}

impl TurnRecord {
    fn has_finished_step(&self) -> bool {
        self.steps
            .last()
            .is_some_and(|step| step.finished.is_some())
    }
}

fn title_of(words: &str) -> String {
    let line = words.lines().next().unwrap_or_default();
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(TITLE_CHARS) {
        None => line,
        Some((end, _)) => {
            let cut = line[..end].rfind(' ').unwrap_or(end);
            format!("{}…", &line[..cut])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_one_short_line() {
        assert_eq!(title_of("Fix  the\tbug\nin main"), "Fix the bug");
        let long = title_of(&"wörter und ".repeat(20));
        assert!(
            long.chars().count() <= TITLE_CHARS + 1 && long.ends_with('…'),
            "{long}"
        );
        assert!(title_of(&"x".repeat(200)).chars().count() == TITLE_CHARS + 1);
    }
}
