//! What an agent gets of a prompt: the client's own words, and what the agent has to know beside them.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::agent::Turn;

/// The params as they came, unless there is something to add.
pub fn params(params: &RawValue, context: Option<String>, turn: &Turn) -> Box<RawValue> {
    let bound = turn.bound();
    let bound = (!bound.is_empty()).then_some(Value::Object(bound));
    with(params, context, bound)
}

/// The context goes before everything else, and says of itself what it is.
fn with(params: &RawValue, context: Option<String>, bound: Option<Value>) -> Box<RawValue> {
    if context.is_none() && bound.is_none() {
        return params.to_owned();
    }
    let mut changed: Value = serde_json::from_str(params.get()).unwrap_or_default();
    if let Some(bound) = bound {
        changed["_meta"]["baton/bound"] = bound;
    }
    if let (Some(context), Some(blocks)) = (context, changed["prompt"].as_array_mut()) {
        let block = json!({
            "type": "text",
            "text": context,
            "annotations": { "audience": ["assistant"] },
            "_meta": { "baton/transcript": true },
        });
        blocks.insert(0, block);
    }
    crate::agent::raw(&changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_touched_without_need() {
        let text = r#"{ "sessionId":"s",  "prompt":[{"type":"text","text":"hi"}], "x": 1.50 }"#;
        let params = RawValue::from_string(text.into()).unwrap();
        assert_eq!(with(&params, None, None).get(), text);
        let changed = with(
            &params,
            Some("before".into()),
            Some(json!({ "sandbox": "vm" })),
        );
        let changed: Value = serde_json::from_str(changed.get()).unwrap();
        assert_eq!(changed["prompt"][0]["text"], "before");
        assert_eq!(changed["prompt"][0]["_meta"]["baton/transcript"], true);
        assert_eq!(changed["prompt"][1]["text"], "hi");
        assert_eq!(changed["_meta"]["baton/bound"]["sandbox"], "vm");
    }
}
