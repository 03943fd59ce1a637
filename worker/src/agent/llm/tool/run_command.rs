//! `run_command`: a shell command in a terminal of the client. The terminal is the client's, so a
//! command goes on when the worker dies, and the next worker waits for the same end.

use std::time::Duration;

use baton_protocol::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::schema;
use crate::agent::llm::call_run::{CallRun, TurnEnds};
use crate::agent::llm::model::ToolDefinition;
use crate::agent::llm::tool_view::{ToolOutcome, ToolView, absolute};

pub const NAME: &str = "run_command";
pub const KILL: &str = "terminal/kill";
const SHOWN_CHARS: usize = 120;
/// Unless the model says how long.
const PATIENCE: u64 = 600;
const LONGEST: u64 = 24 * 3600;

#[derive(Debug, Deserialize)]
pub struct RunCommandCall {
    command: String,
    cwd: Option<String>,
    timeout_seconds: Option<u64>,
}

pub fn definition() -> ToolDefinition {
    ToolDefinition {
        name: NAME.into(),
        description:
            "Runs a command with sh on the user's machine, waits for its end, and returns \
                      what it printed. It gets no input."
                .into(),
        parameters: json!({
            "type": "object",
            "properties": {
                "command": { "type": "string" },
                "cwd": schema::text("instead of the working directory"),
                "timeout_seconds": schema::count("after this it is killed; 600 by default"),
            },
            "required": ["command"],
        }),
    }
}

impl RunCommandCall {
    pub fn view(&self) -> ToolView {
        let mut title: String = self.command.chars().take(SHOWN_CHARS).collect();
        if title.len() < self.command.len() {
            title.push('…');
        }
        ToolView {
            title,
            kind: "execute",
            locations: Vec::new(),
        }
    }

    pub async fn run(&self, run: &mut CallRun<'_>) -> Result<ToolOutcome, TurnEnds> {
        if let Some(rejected) = run.permit(&[]).await? {
            return Ok(rejected);
        }
        run.start().await;
        Ok(self
            .in_terminal(run)
            .await
            .unwrap_or_else(ToolOutcome::failed))
    }

    async fn in_terminal(&self, run: &mut CallRun<'_>) -> Result<ToolOutcome, String> {
        let cwd = match &self.cwd {
            Some(cwd) => absolute(run.cwd(), cwd),
            None => run.cwd().to_owned(),
        };
        let params = json!({
            "command": "sh",
            "args": ["-c", self.command],
            "cwd": cwd,
            "outputByteLimit": run.max_output(),
        });
        let created = run.ask(Method::CreateTerminal.name(), params).await?;
        let terminal = created["terminalId"].as_str();
        let terminal = terminal.ok_or("The client opened no terminal.")?.to_owned();
        run.show_terminal(&terminal).await;
        let same = json!({ "terminalId": terminal });
        let patience = self.timeout_seconds.unwrap_or(PATIENCE).min(LONGEST);
        let exit = run.ask(Method::WaitForTerminalExit.name(), same.clone());
        let exit = tokio::time::timeout(Duration::from_secs(patience), exit).await;
        if exit.is_err() {
            run.ask(KILL, same.clone()).await?;
        }
        let printed = run.ask(Method::TerminalOutput.name(), same.clone()).await;
        // The outcome is known, whether or not the terminal can be given back.
        let _ = run.ask(Method::ReleaseTerminal.name(), same).await;
        let output = output_of(&printed?);
        Ok(match exit {
            Err(_) => {
                let text = format!("Killed after {patience} seconds.\n{output}");
                ToolOutcome {
                    text,
                    is_error: true,
                    ..ToolOutcome::default()
                }
            }
            Ok(exit) => ended(&exit?, &output),
        })
    }
}

fn output_of(printed: &Value) -> String {
    let text = printed["output"].as_str().unwrap_or_default();
    match printed["truncated"].as_bool() {
        Some(true) => format!("[only the end of the output]\n{text}"),
        _ => text.to_owned(),
    }
}

fn ended(exit: &Value, output: &str) -> ToolOutcome {
    let how = match (exit["exitCode"].as_i64(), exit["signal"].as_str()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    };
    ToolOutcome {
        text: format!("{how}\n{output}"),
        is_error: exit["exitCode"].as_i64().is_none_or(|code| code != 0),
        ..ToolOutcome::default()
    }
}
