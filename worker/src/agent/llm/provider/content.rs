//! Pieces of requests that several protocols write alike.

use serde_json::{Map, Value, json};

use crate::agent::llm::model::MessagePart;

/// What was written in place of a text, since endpoints refuse empty ones.
pub const NO_TEXT: &str = "(empty)";

/// Arguments as a JSON object, because endpoints take no other, not even those that a model of
/// theirs has written. Malformed ones are kept, so that the model sees its fault.
pub fn arguments_object(arguments: &str) -> Map<String, Value> {
    match serde_json::from_str(arguments) {
        Ok(Value::Object(object)) => object,
        _ if arguments.trim().is_empty() => Map::new(),
        _ => Map::from_iter([("malformed_arguments".to_owned(), json!(arguments))]),
    }
}

/// The same as text; what is right stays as it is, byte by byte.
pub fn arguments_text(arguments: &str) -> String {
    match serde_json::from_str::<Map<String, Value>>(arguments) {
        Ok(_) => arguments.to_owned(),
        Err(_) => Value::Object(arguments_object(arguments)).to_string(),
    }
}

/// An id that every endpoint takes, also one that another endpoint has given.
pub fn portable_id(id: &str) -> String {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
    let letters = id.chars().map(|it| if fits(it) { it } else { '_' });
    letters.take(64).collect()
}

/// The texts of parts, a line each.
pub fn joined_text(parts: &[MessagePart]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        MessagePart::Text(text) => Some(text.as_str()),
        MessagePart::Image { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

pub fn has_images(parts: &[MessagePart]) -> bool {
    let mut parts = parts.iter();
    parts.any(|part| matches!(part, MessagePart::Image { .. }))
}

pub fn data_url(mime_type: &str, data: &str) -> String {
    format!("data:{mime_type};base64,{data}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_an_object_whatever_the_model_wrote() {
        assert_eq!(arguments_text(r#"{"a" : 1.0}"#), r#"{"a" : 1.0}"#);
        assert_eq!(arguments_text(""), "{}");
        let kept = r#"{"malformed_arguments":"{\"a\":"}"#;
        assert_eq!(arguments_text(r#"{"a":"#), kept);
        assert_eq!(arguments_text("[1]"), r#"{"malformed_arguments":"[1]"}"#);
        assert_eq!(portable_id("call:1/ä"), "call_1__");
        assert_eq!(portable_id(&"x".repeat(99)).len(), 64);
    }
}
