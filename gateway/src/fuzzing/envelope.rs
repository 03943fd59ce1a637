//! Messages from anybody: they are refused or read, and what is kept of one is that message without
//! its session token.

use baton_protocol::Inbound;
use bytes::Bytes;
use serde_json::Value;

use crate::methods;

pub fn envelope(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    let Some(carried) = read(&bytes) else {
        return;
    };
    let whole: Value = serde_json::from_slice(data).expect("what is read is JSON");
    assert_eq!(whole["jsonrpc"], "2.0");
    match carried {
        None => assert!(!token_of(&whole).is_some_and(Value::is_string)),
        Some((token, message)) => {
            assert_eq!(token_of(&whole).and_then(Value::as_str), Some(&*token));
            let mut expected = whole.clone();
            let meta = expected["params"]["_meta"].as_object_mut();
            meta.expect("an object").remove("baton/session");
            let kept: Value = serde_json::from_slice(&message).expect("it stays JSON");
            assert_eq!(kept, expected);
            let again = read(&message).expect("it stays a message");
            assert!(again.is_none());
        }
    }
}

/// As every POST is read, up to what its params must be: the session token, and the message without
/// it.
fn read(bytes: &Bytes) -> Option<Option<(String, Bytes)>> {
    let mut message = Inbound::read(bytes.clone()).ok()?;
    let token = message.take_session_token().ok()?;
    methods::read_params(&message);
    Some(token.map(|token| (token, message.bytes().clone())))
}

fn token_of(message: &Value) -> Option<&Value> {
    let meta = message.get("params")?.get("_meta")?;
    meta.get("baton/session")?.get("token")
}
