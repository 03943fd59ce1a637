//! `write_file`: a file with new content.

use baton_protocol::Method;
use serde::Deserialize;
use serde_json::json;

use super::read_file::{self, diff};
use super::schema;
use crate::agent::llm::call_run::{CallRun, TurnEnds};
use crate::agent::llm::model::ToolDefinition;
use crate::agent::llm::tool_view::{ToolOutcome, absolute};

pub const NAME: &str = "write_file";

#[derive(Debug, Deserialize)]
pub struct WriteFileCall {
    pub path: String,
    content: String,
}

pub fn definition() -> ToolDefinition {
    ToolDefinition {
        name: NAME.into(),
        description: "Writes a whole text file; what was in it is replaced. To change a part of a \
                      file use edit_file."
            .into(),
        parameters: json!({
            "type": "object",
            "properties": {
                "path": schema::path(),
                "content": { "type": "string" },
            },
            "required": ["path", "content"],
        }),
    }
}

impl WriteFileCall {
    pub async fn run(&self, run: &mut CallRun<'_>) -> Result<ToolOutcome, TurnEnds> {
        // A file that cannot be read is taken for a new one.
        let old = if run.client().read_file {
            read_file::content(run, &self.path, None, None).await.ok()
        } else {
            None
        };
        let path = absolute(run.cwd(), &self.path);
        let shown = diff(&path, old.as_deref(), &self.content);
        if let Some(rejected) = run.permit(&shown).await? {
            return Ok(rejected);
        }
        run.start().await;
        Ok(match write(run, &path, &self.content).await {
            Ok(()) => {
                let bytes = self.content.len();
                ToolOutcome::done(format!("Wrote {bytes} bytes to {path}.")).showing(shown)
            }
            Err(error) => ToolOutcome::failed(error),
        })
    }
}

pub async fn write(run: &mut CallRun<'_>, path: &str, content: &str) -> Result<(), String> {
    let params = json!({ "path": path, "content": content });
    run.ask(Method::WriteTextFile.name(), params)
        .await
        .map(drop)
}
