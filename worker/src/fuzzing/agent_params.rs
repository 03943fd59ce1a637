//! Params from a client to an agent: only what the policy allows passes, unchanged.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::agent_policy::AgentPolicy;

pub fn agent_params(data: &[u8]) {
    let Ok(params) = serde_json::from_slice::<Box<RawValue>>(data) else {
        return;
    };
    let closed = AgentPolicy::default();
    for (method, fields) in [
        ("session/prompt", &["sessionId", "prompt", "_meta"][..]),
        ("session/set_mode", &["sessionId", "modeId", "_meta"]),
    ] {
        let Ok(told) = closed.message(method, &params) else {
            continue;
        };
        let text = told.params();
        let value: Value = serde_json::from_str(text.get()).expect("it stays JSON");
        let members = value.as_object().expect("params are an object");
        assert!(
            members.keys().all(|name| fields.contains(&&**name)),
            "{text}"
        );
        assert!(is_harmless(&value), "{text}");
        // Filtering twice changes nothing.
        let again = closed.message(method, text).expect("it passed before");
        assert_eq!(again.params().get(), text.get());
        // As it was, but for what was cut out.
        let mut rest = params.get().chars();
        assert!(
            text.get().chars().all(|c| rest.any(|other| other == c)),
            "{text}"
        );
    }
    let answer = closed.answer("fs/read_text_file", Ok(params.clone()));
    if let Ok(answer) = serde_json::from_slice(&answer.message("1")) {
        assert!(is_harmless(&answer), "{answer}");
    }
    if let Ok(told) = AgentPolicy::open().message("_x", &params) {
        let text = told.params().get();
        let value: Value = serde_json::from_str(text).expect("it stays JSON");
        assert!(!names_baton(&value), "{text}");
    }
}

/// No `_meta` has more than trace context.
fn is_harmless(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().all(is_harmless),
        Value::Object(members) => members.iter().all(|(name, value)| match &**name {
            "_meta" => value.as_object().is_some_and(|fields| {
                fields.iter().all(|(name, value)| {
                    matches!(&**name, "traceparent" | "tracestate" | "baggage") && value.is_string()
                })
            }),
            _ => is_harmless(value),
        }),
        _ => true,
    }
}

/// The operator decides about values within an allowed `_meta` field.
fn names_baton(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(names_baton),
        Value::Object(members) => members.iter().any(|(name, value)| match &**name {
            "_meta" => value
                .as_object()
                .is_some_and(|fields| fields.keys().any(|name| name.starts_with("baton/"))),
            _ => names_baton(value),
        }),
        _ => false,
    }
}
