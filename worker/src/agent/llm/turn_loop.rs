//! The loop of a turn: a model's message, its tool calls, the next message. Everything that it does
//! is decided by the turn's record, so it goes on from wherever an earlier worker was.

use baton_protocol::ErrorCode;
use baton_session::id::random_text;
use futures_util::future::join_all;
use serde_json::json;
use tokio::time::Instant;

use super::commands::{self, UserCommand, command_in};
use super::compaction::{self, CompactionOutcome};
use super::mcp_prompts::{self, McpPrompt};
use super::model::{MessagePart, ModelStop};
use super::model_step;
use super::step_mark::{closing_meta, marked};
use super::tool::ToolBox;
use super::tool_run;
use super::turn_context::{TurnContext, text_chunk};
use super::turn_record::{CallRecord, StepRecord, TurnRecord};
use crate::agent::{Failure, StopReason};

/// Of a title, what is taken from the first prompt.
const TITLE_CHARS: usize = 60;

pub struct TurnLoop<'a>(pub TurnContext<'a>);

impl TurnLoop<'_> {
    pub async fn run(&self, record: &mut TurnRecord) -> Result<StopReason, Failure> {
        if let Some(reason) = record.closed {
            return Ok(reason);
        }
        self.give_title(record).await;
        if let Some(command) = command_in(record) {
            return self.carry_out(command, record).await;
        }
        let mut clock = Instant::now();
        loop {
            self.check_session()?;
            if let Some(text) = self.used_up(record) {
                return Ok(self
                    .close_with(record, &text, StopReason::MaxTurnRequests)
                    .await);
            }
            let tools = ToolBox::of(self.0).await;
            self.announce(tools.prompts()).await;
            if let Err(why) = mcp_prompts::expand(self.0, record, tools.prompts()).await {
                return Ok(self.close_with(record, &why, StopReason::EndTurn).await);
            }
            compaction::if_needed(self.0, record, &tools).await;
            if !record.has_finished_step() {
                model_step::run(self.0, record, &tools, &mut clock).await?;
            }
            let step = record.steps.last_mut().expect("a step was just finished");
            if let Some(reason) = self.carry_out_calls(&mut step.calls, &tools).await? {
                return Ok(reason);
            }
            if let Some(reason) = self.end(record) {
                return Ok(reason);
            }
            record.bound(self.0.memory.fields().history.most_bytes());
            let next = StepRecord::new(random_text(16));
            record.steps.push(next);
        }
    }

    /// Carries out the calls of a step in their order; of those that follow each other and only
    /// look, all at the same time.
    async fn carry_out_calls(
        &self,
        calls: &mut [CallRecord],
        tools: &ToolBox,
    ) -> Result<Option<StopReason>, Failure> {
        let mode = self.0.memory.fields().settings.mode;
        let parallel = self.0.config.parallel_tools;
        let looks =
            |call: &CallRecord| parallel && tools.only_reads(mode, &call.tool, &call.arguments);
        for batch in calls.chunk_by_mut(|before, after| looks(before) && looks(after)) {
            let runs = batch
                .iter_mut()
                .map(|call| tool_run::run(self.0, call, tools));
            for ended in join_all(runs).await {
                if let Some(reason) = ended? {
                    return Ok(Some(reason));
                }
            }
        }
        Ok(None)
    }

    /// Whether the turn is over after this step.
    fn end(&self, record: &TurnRecord) -> Option<StopReason> {
        let step = record.steps.last()?;
        let stop = step.finished.as_ref()?.stop;
        let goes_on = !step.calls.is_empty() || stop == ModelStop::Paused;
        if goes_on {
            let full = record.step_count() >= self.0.config.max_steps;
            return full.then_some(StopReason::MaxTurnRequests);
        }
        Some(match stop {
            ModelStop::MaxTokens => StopReason::MaxTokens,
            ModelStop::Refusal => StopReason::Refusal,
            ModelStop::EndTurn | ModelStop::ToolCalls | ModelStop::Paused => StopReason::EndTurn,
        })
    }

    /// Clients learn of commands that have come or gone.
    async fn announce(&self, prompts: &[McpPrompt]) {
        let names: Vec<_> = prompts.iter().map(|it| it.command.clone()).collect();
        if self.0.memory.fields().settings.prompts_said == names {
            return;
        }
        let said = || self.0.memory.change(|it| it.prompts_said = names);
        let update = commands::announcement(prompts);
        self.0.turn.update_with(update, said).await;
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
    ) -> Result<StopReason, Failure> {
        let text = match command {
            UserCommand::Compact => self.compact(record).await,
            UserCommand::Model(Some(name)) => {
                let value = json!(name);
                let update = self.0.memory.change(|it| it.set("model", &value))?;
                self.0.turn.update(update).await;
                format!("The model is {name} from now on.")
            }
            UserCommand::Model(None) => {
                let memory = self.0.memory.fields();
                let all: Vec<&str> = memory.settings.models().collect();
                let all = all.join(", ");
                format!("The model is {}. There are: {all}", memory.settings.model)
            }
        };
        Ok(self.close_with(record, &text, StopReason::EndTurn).await)
    }

    async fn compact(&self, record: &mut TurnRecord) -> String {
        if !record.compacted {
            let tools = ToolBox::of(self.0).await;
            match compaction::run(self.0, record, &tools).await {
                CompactionOutcome::Done => {}
                CompactionOutcome::Nothing => return "There is nothing to sum up yet.".into(),
                CompactionOutcome::Failed(why) => {
                    return format!("The conversation could not be summed up: {why}");
                }
            }
        }
        "The conversation was summed up; from here on I know what the summary says.".into()
    }

    /// The last words of a turn, which no model has said. They and its end are one event.
    async fn close_with(
        &self,
        record: &mut TurnRecord,
        text: &str,
        reason: StopReason,
    ) -> StopReason {
        let id = random_text(16);
        record.step(&id).said.push_str(text);
        record.closed = Some(reason);
        let update = text_chunk("agent_message_chunk", &id, text);
        self.0
            .turn
            .update(marked(update, closing_meta(reason)))
            .await;
        reason
    }

    /// What the turn has used up of what it may use.
    fn used_up(&self, record: &TurnRecord) -> Option<String> {
        let limits = &self.0.config.limits;
        let used = limits.turn.reached(record.used, &limits.currency)?;
        Some(format!(
            "This turn has used {used}, and may not use more. Say how to go on."
        ))
    }

    /// The time of the turn is over.
    pub async fn end_of_time(&self, record: &mut TurnRecord) -> StopReason {
        let limit = self.0.config.limits.turn.time.unwrap_or_default();
        let text = format!(
            "This turn has taken {} seconds, and may not take more. Say how to go on.",
            limit.as_secs()
        );
        self.close_with(record, &text, StopReason::MaxTurnRequests)
            .await
    }

    /// A session that has used up what it may use answers no more prompts.
    fn check_session(&self) -> Result<(), Failure> {
        let limits = &self.0.config.limits;
        let used = self.0.memory.fields().used;
        let Some(used) = limits.session.reached(used, &limits.currency) else {
            return Ok(());
        };
        let text = format!(
            "this session has used {used}, and may not use more. Begin a new one, or have the \
             operator raise limits.session in --llm-config"
        );
        Err(Failure {
            data: Some(json!({ "retryable": false, "kind": "session_limit" })),
            ..Failure::new(ErrorCode::ModelFailed, text)
        })
    }

    /// The turn ends: tool calls that were announced come to an end, too.
    pub async fn close(&self, record: &mut TurnRecord) {
        compaction::close(self.0, record, "The turn ended before.").await;
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
