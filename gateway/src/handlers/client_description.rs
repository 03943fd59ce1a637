//! The client's description of itself in `initialize`, for the workers whose agents are told. The
//! token has only the capabilities that Baton itself needs; this is the rest, kept beside the
//! connection. Workers decide what of it reaches an agent.

use baton_protocol::limits::{MAX_CLIENT, MAX_CLIENT_META, MAX_NAME};
use bytes::Bytes;
use serde_json::{Map, Value, json};

/// `None` if the token says as much.
pub fn describe(capabilities: Option<&Value>, info: Option<&Value>) -> Option<Bytes> {
    let info = info.map(names).filter(|info| !info.is_empty());
    let capabilities = capabilities.filter(|capabilities| capabilities.is_object());
    let is_plain = |capabilities: &Value| {
        let mut fields = capabilities.as_object().into_iter().flat_map(Map::keys);
        fields.all(|field| field == "terminal" || field == "fs")
    };
    if info.is_none() && capabilities.is_none_or(is_plain) {
        return None;
    }
    let mut capabilities = capabilities.cloned().unwrap_or_else(|| json!({}));
    drop_meta(&mut capabilities, MAX_CLIENT_META);
    if length(&capabilities) > MAX_CLIENT {
        drop_meta(&mut capabilities, 0);
    }
    // A client with as many fields that nobody knows is described by its token.
    let capabilities = (length(&capabilities) <= MAX_CLIENT).then_some(capabilities);
    let described = json!({ "clientCapabilities": capabilities, "clientInfo": info });
    Some(described.to_string().into())
}

/// Whether the client can show how to log in, in a terminal of its own.
pub fn logs_in_by_terminal(capabilities: &Value) -> bool {
    capabilities["auth"]["terminal"] == true || capabilities["_meta"]["terminal-auth"] == true
}

fn length(value: &Value) -> usize {
    value.to_string().len()
}

/// What people read: no more than that of an implementation.
fn names(info: &Value) -> Map<String, Value> {
    let fields = ["name", "title", "version"].into_iter();
    let read = |field: &str| {
        let text = info[field].as_str()?.chars().take(MAX_NAME);
        Some((field.to_owned(), Value::String(text.collect())))
    };
    fields.filter_map(read).collect()
}

/// Entries of a `_meta`, wherever it is, that are longer than `most` bytes.
fn drop_meta(value: &mut Value, most: usize) {
    match value {
        Value::Object(fields) => {
            if let Some(meta) = fields.get_mut("_meta") {
                match meta.as_object_mut() {
                    Some(meta) => meta.retain(|_, value| length(value) <= most),
                    None => *meta = json!({}),
                }
                if meta.as_object().is_none_or(Map::is_empty) {
                    fields.remove("_meta");
                }
            }
            fields.values_mut().for_each(|value| drop_meta(value, most));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| drop_meta(value, most)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(capabilities: Value, info: Value) -> Option<Value> {
        let described = describe(Some(&capabilities), Some(&info))?;
        assert!(described.len() <= MAX_CLIENT + 4 * 3 * MAX_NAME + 100);
        Some(serde_json::from_slice(&described).expect("JSON"))
    }

    #[test]
    fn a_client_without_anything_special_needs_no_description() {
        for capabilities in [
            json!({}),
            json!(null),
            json!({ "fs": {}, "terminal": true }),
        ] {
            assert_eq!(described(capabilities.clone(), json!(null)), None);
            assert!(described(capabilities, json!({ "name": "zed" })).is_some());
        }
    }

    #[test]
    fn what_a_client_says_is_kept_as_it_said_it() {
        let said = json!({
            "fs": { "readTextFile": true, "writeTextFile": false },
            "elicitation": { "form": {}, "url": {} },
            "auth": { "terminal": true, "_meta": { "gateway": true } },
            "later": [1, { "_meta": { "x": 1 } }],
            "_meta": { "terminal_output": true },
        });
        let info = json!({ "name": "zed", "title": "Zed", "version": "1", "more": {} });
        let kept = described(said.clone(), info).expect("there is something");
        assert_eq!(kept["clientCapabilities"], said);
        assert_eq!(
            kept["clientInfo"],
            json!({ "name": "zed", "title": "Zed", "version": "1" })
        );
    }

    #[test]
    fn what_is_too_long_is_left_out_and_nothing_else() {
        let long = "x".repeat(1 << 20);
        let said = json!({
            "elicitation": { "url": {}, "_meta": { "long": long } },
            "_meta": { "terminal_output": true, "long": { "_meta": long } },
        });
        let kept = described(said, json!({ "name": long })).expect("there is something");
        assert_eq!(
            kept["clientCapabilities"],
            json!({ "elicitation": { "url": {} }, "_meta": { "terminal_output": true } })
        );
        let many: Map<_, _> = (0..10_000)
            .map(|n| (format!("n{n}"), json!({ "_meta": { "a": 1 } })))
            .collect();
        let kept = described(json!({ "_meta": many, "terminal": true }), json!(null));
        assert_eq!(
            kept.unwrap()["clientCapabilities"],
            json!({ "terminal": true })
        );
        let kept = described(Value::Object(many), json!(null)).expect("there is something");
        assert_eq!(kept["clientCapabilities"], json!(null));
    }
}
