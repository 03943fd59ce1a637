//! The question to the user before a tool is used, and the answers.

use serde_json::{Value, json};

pub const REJECTED: &str = "The user rejected this tool call. Do not repeat it: go on without it, \
                            or ask the user what to do instead.";
pub const REJECTED_ALWAYS: &str =
    "The user has rejected this tool for the whole session. Go on without it.";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermissionAnswer {
    AllowOnce,
    AllowAlways,
    RejectOnce,
    RejectAlways,
    Cancelled,
}

pub fn options(tool: &str) -> Value {
    let option = |id: &str, name: String| json!({ "optionId": id, "name": name, "kind": id });
    json!([
        option("allow_once", "Allow".into()),
        option(
            "allow_always",
            format!("Always allow {tool} in this session")
        ),
        option("reject_once", "Reject".into()),
        option(
            "reject_always",
            format!("Always reject {tool} in this session")
        ),
    ])
}

/// A client that answers with anything else has not allowed it.
pub fn read(answer: &Value) -> PermissionAnswer {
    let outcome = &answer["outcome"];
    match outcome["optionId"].as_str() {
        Some("allow_once") => PermissionAnswer::AllowOnce,
        Some("allow_always") => PermissionAnswer::AllowAlways,
        Some("reject_always") => PermissionAnswer::RejectAlways,
        None if outcome["outcome"] == "cancelled" => PermissionAnswer::Cancelled,
        _ => PermissionAnswer::RejectOnce,
    }
}

impl PermissionAnswer {
    /// The decision to remember, if it is one for good.
    pub fn for_good(self) -> Option<bool> {
        match self {
            Self::AllowAlways => Some(true),
            Self::RejectAlways => Some(false),
            Self::AllowOnce | Self::RejectOnce | Self::Cancelled => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_is_one() {
        let answer =
            |id: Value| read(&json!({ "outcome": { "outcome": "selected", "optionId": id } }));
        assert_eq!(answer(json!("allow_once")), PermissionAnswer::AllowOnce);
        assert_eq!(answer(json!("allow_always")).for_good(), Some(true));
        assert_eq!(answer(json!("yes")), PermissionAnswer::RejectOnce);
        assert_eq!(answer(json!(1)), PermissionAnswer::RejectOnce);
        assert_eq!(read(&json!({})), PermissionAnswer::RejectOnce);
        let cancelled = json!({ "outcome": { "outcome": "cancelled" } });
        assert_eq!(read(&cancelled), PermissionAnswer::Cancelled);
    }
}
