//! Pieces of the JSON schemas of arguments.

use serde_json::{Value, json};

pub fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

/// At least one.
pub fn count(description: &str) -> Value {
    json!({ "type": "integer", "minimum": 1, "description": description })
}

pub fn flag(description: &str) -> Value {
    json!({ "type": "boolean", "description": description })
}

pub fn path() -> Value {
    text("absolute, or relative to the working directory")
}
