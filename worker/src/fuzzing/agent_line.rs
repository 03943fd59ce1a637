//! A line that an agent wrote: it is no message, or all readers find the same session in it.

use serde_json::Value;

pub fn agent_line(data: &[u8]) {
    let Some(read) = crate::agent::stdio::fuzzing::read(data) else {
        return;
    };
    assert!(std::str::from_utf8(data).is_ok(), "clients get text");
    // Parts that are not read here may be malformed: an agent may write half a character.
    let Ok(whole) = serde_json::from_slice::<Value>(data) else {
        return;
    };
    let whole = whole.as_object().expect("a message is an object");
    let named = whole.get("method").and_then(Value::as_str);
    assert_eq!(read.method.as_deref(), named);
    if read.method.is_some() {
        let session = whole
            .get("params")
            .and_then(|params| params.get("sessionId"));
        assert_eq!(read.session.as_deref(), session.and_then(Value::as_str));
    }
}
