//! `update_plan`: the model's plan, which clients show.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::agent::llm::model::ToolDefinition;
use crate::agent::llm::tool_view::parts;
use crate::agent::llm::turn_record::CallResultRecord;

pub const NAME: &str = "update_plan";
const MOST_ENTRIES: usize = 100;

#[derive(Debug, Deserialize)]
pub struct PlanCall {
    entries: Vec<PlanEntry>,
}

#[derive(Debug, Serialize, Deserialize)]
struct PlanEntry {
    content: String,
    #[serde(default)]
    status: PlanStatus,
    #[serde(default)]
    priority: PlanPriority,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PlanStatus {
    #[default]
    Pending,
    InProgress,
    Completed,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PlanPriority {
    High,
    #[default]
    Medium,
    Low,
}

pub fn definition() -> ToolDefinition {
    ToolDefinition {
        name: NAME.into(),
        description: "Shows the user a plan of several steps, and later how far it has come. Send \
                      all entries each time. Not for tasks of one or two steps."
            .into(),
        parameters: json!({
            "type": "object",
            "properties": {
                "entries": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "content": { "type": "string" },
                            "status": { "enum": ["pending", "in_progress", "completed"] },
                            "priority": { "enum": ["high", "medium", "low"] },
                        },
                        "required": ["content", "status"],
                    },
                },
            },
            "required": ["entries"],
        }),
    }
}

impl PlanCall {
    pub fn update(&self) -> Value {
        let entries = &self.entries[..self.entries.len().min(MOST_ENTRIES)];
        json!({ "sessionUpdate": "plan", "entries": entries })
    }
}

/// The result for the model.
pub fn result() -> CallResultRecord {
    CallResultRecord {
        content: parts("The user sees the plan."),
        is_error: false,
    }
}
