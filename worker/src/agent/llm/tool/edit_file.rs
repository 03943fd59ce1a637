//! `edit_file`: a part of a file, exchanged.

use serde::Deserialize;
use serde_json::json;

use super::read_file::{self, diff};
use super::schema;
use super::write_file::write;
use crate::agent::llm::call_run::{CallRun, TurnEnds};
use crate::agent::llm::model::ToolDefinition;
use crate::agent::llm::tool_view::{ToolOutcome, absolute};

pub const NAME: &str = "edit_file";

#[derive(Debug, Deserialize)]
pub struct EditFileCall {
    pub path: String,
    old_text: String,
    new_text: String,
    #[serde(default)]
    all: bool,
}

pub fn definition() -> ToolDefinition {
    ToolDefinition {
        name: NAME.into(),
        description: "Replaces a piece of a text file. The piece must occur exactly once, unless \
                      all is true: give enough of what is around it."
            .into(),
        parameters: json!({
            "type": "object",
            "properties": {
                "path": schema::path(),
                "old_text": schema::text("exactly as it is in the file, with all blanks"),
                "new_text": { "type": "string" },
                "all": schema::flag("replace every occurrence"),
            },
            "required": ["path", "old_text", "new_text"],
        }),
    }
}

impl EditFileCall {
    pub async fn run(&self, run: &mut CallRun<'_>) -> Result<ToolOutcome, TurnEnds> {
        let mut edited = match self.edited(run).await {
            Ok(edited) => edited,
            Err(error) => return Ok(ToolOutcome::failed(error)),
        };
        let path = absolute(run.cwd(), &self.path);
        let shown = diff(&path, Some(&self.old_text), &self.new_text);
        let asked = run.is_asked_about();
        if let Some(rejected) = run.permit(&shown).await? {
            return Ok(rejected);
        }
        // The user had time to change the file.
        if asked {
            edited = match self.edited(run).await {
                Ok(edited) => edited,
                Err(error) => return Ok(ToolOutcome::failed(error)),
            };
        }
        run.start().await;
        Ok(match write(run, &path, &edited).await {
            Ok(()) => ToolOutcome::done(format!("Edited {path}.")).showing(shown),
            Err(error) => ToolOutcome::failed(error),
        })
    }

    async fn edited(&self, run: &mut CallRun<'_>) -> Result<String, String> {
        let text = read_file::content(run, &self.path, None, None).await?;
        self.apply(&text)
    }

    fn apply(&self, text: &str) -> Result<String, String> {
        if self.old_text.is_empty() {
            return Err("old_text is empty: say what is to be replaced.".into());
        }
        match text.matches(&self.old_text).count() {
            0 => Err("old_text is not in the file: read it, and give the text exactly.".into()),
            1 => Ok(text.replacen(&self.old_text, &self.new_text, 1)),
            _ if self.all => Ok(text.replace(&self.old_text, &self.new_text)),
            count => Err(format!(
                "old_text is in the file {count} times: give more of what is around it, or set all."
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(old: &str, all: bool, text: &str) -> Result<String, String> {
        let call = EditFileCall {
            path: "a".into(),
            old_text: old.into(),
            new_text: "X".into(),
            all,
        };
        call.apply(text)
    }

    #[test]
    fn a_piece_is_replaced_where_it_is_meant() {
        assert_eq!(edit("b", false, "abc").unwrap(), "aXc");
        assert_eq!(edit("a", true, "aba").unwrap(), "XbX");
        for (old, text) in [("", "a"), ("z", "abc"), ("a", "aba")] {
            assert!(edit(old, false, text).is_err(), "{old} {text}");
        }
    }
}
