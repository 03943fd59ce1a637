//! Messages from anybody: they are refused or read, and what is kept of one is that message without its
//! session token.

#![no_main]

use baton_gateway::fuzzing;
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|data: &[u8]| {
    let bytes = Bytes::copy_from_slice(data);
    let Some(read) = fuzzing::read_message(&bytes) else {
        return;
    };
    let whole: Value = serde_json::from_slice(data).expect("what is read is JSON");
    assert_eq!(whole["jsonrpc"], "2.0");
    match read.carried {
        None => assert!(!token_of(&whole).is_some_and(Value::is_string)),
        Some((token, kept)) => {
            assert_eq!(token_of(&whole).and_then(Value::as_str), Some(&*token));
            let mut expected = whole.clone();
            let meta = expected["params"]["_meta"].as_object_mut();
            meta.expect("an object").remove("baton/session");
            let kept_value: Value = serde_json::from_slice(&kept).expect("it stays JSON");
            assert_eq!(kept_value, expected);
            let again = fuzzing::read_message(&kept).expect("it stays a message");
            assert!(again.carried.is_none());
        }
    }
});

fn token_of(message: &Value) -> Option<&Value> {
    message.get("params")?.get("_meta")?.get("baton/session")?.get("token")
}
