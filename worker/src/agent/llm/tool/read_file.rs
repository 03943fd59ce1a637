//! `read_file`: a file, as the client has it.

use baton_protocol::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::schema;
use crate::agent::llm::call_run::CallRun;
use crate::agent::llm::model::ToolDefinition;
use crate::agent::llm::tool_view::{ToolOutcome, ToolView, absolute};

pub const NAME: &str = "read_file";

#[derive(Debug, Deserialize)]
pub struct ReadFileCall {
    path: String,
    line: Option<u32>,
    limit: Option<u32>,
}

pub fn definition() -> ToolDefinition {
    ToolDefinition {
        name: NAME.into(),
        description: "Reads a text file. Unsaved changes in the user's editor are part of it."
            .into(),
        parameters: json!({
            "type": "object",
            "properties": {
                "path": schema::path(),
                "line": schema::count("the first line to read"),
                "limit": schema::count("how many lines to read"),
            },
            "required": ["path"],
        }),
    }
}

impl ReadFileCall {
    pub fn view(&self, cwd: &str) -> ToolView {
        let path = absolute(cwd, &self.path);
        let location = match self.line {
            Some(line) => json!({ "path": path, "line": line }),
            None => json!({ "path": path }),
        };
        ToolView {
            title: format!("Read {path}"),
            kind: "read",
            locations: vec![location],
        }
    }

    pub async fn run(&self, run: &mut CallRun<'_>) -> ToolOutcome {
        run.start().await;
        match content(run, &self.path, self.line, self.limit).await {
            Ok(text) => ToolOutcome::done(text),
            Err(error) => ToolOutcome::failed(error),
        }
    }
}

/// The content of a file.
pub async fn content(
    run: &mut CallRun<'_>,
    path: &str,
    line: Option<u32>,
    limit: Option<u32>,
) -> Result<String, String> {
    let mut params = json!({ "path": absolute(run.cwd(), path) });
    for (name, value) in [("line", line), ("limit", limit)] {
        if let Some(value) = value {
            params[name] = json!(value);
        }
    }
    let read = run.ask(Method::ReadTextFile.name(), params).await?;
    match read["content"].as_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err("The client did not say what is in the file.".into()),
    }
}

/// The part of a tool call that shows a change of a file, unless it is too large to be shown.
pub fn diff(path: &str, old: Option<&str>, new: &str) -> Vec<Value> {
    const MOST: usize = 256 << 10;
    if old.map_or(0, str::len) + new.len() > MOST {
        return Vec::new();
    }
    vec![json!({ "type": "diff", "path": path, "oldText": old, "newText": new })]
}
