//! Another session id in a message, every other byte as it was.

use bytes::{BufMut as _, Bytes, BytesMut};
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct AddressedMessage<'a> {
    #[serde(borrow)]
    params: AddressedParams<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AddressedParams<'a> {
    #[serde(borrow)]
    session_id: &'a RawValue,
}

/// The message with another `params.sessionId`. A message without one stays as it is.
pub fn readdress(message: &Bytes, session: &str) -> Bytes {
    let Ok(AddressedMessage { params }) = serde_json::from_slice(message) else {
        return message.clone();
    };
    let (before, after) = around(message, params.session_id.get());
    let mut text = BytesMut::with_capacity(message.len() + session.len());
    text.put_slice(before);
    text.put_slice(quoted(session).as_bytes());
    text.put_slice(after);
    text.freeze()
}

/// The params with another `sessionId`. Params without one stay as they are.
pub fn readdress_params(params: &RawValue, session: &str) -> Box<RawValue> {
    let text = params.get();
    let session_id = match serde_json::from_str(text) {
        Ok(AddressedParams { session_id }) if text.starts_with('{') => session_id,
        _ => return params.to_owned(),
    };
    let start = offset(text.as_bytes(), session_id.get());
    let (before, after) = (&text[..start], &text[start + session_id.get().len()..]);
    let text = [before, &quoted(session), after].concat();
    RawValue::from_string(text).expect("made of valid JSON")
}

fn quoted(session: &str) -> String {
    serde_json::to_string(session).expect("text encodes")
}

/// The bytes before and after a part of them.
fn around<'a>(whole: &'a [u8], part: &str) -> (&'a [u8], &'a [u8]) {
    let start = offset(whole, part);
    (&whole[..start], &whole[start + part.len()..])
}

/// Where in `whole` a slice of it begins.
pub(crate) fn offset(whole: &[u8], part: &str) -> usize {
    part.as_ptr() as usize - whole.as_ptr() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_gets_another_address_and_nothing_else() {
        let text = |id: &str| {
            format!(
                r#"{{"params": {{"x":"\u00e9 sessionId","sessionId" : "{id}","update":1.0}} }}"#
            )
        };
        let changed = readdress(&Bytes::from(text("old")), "another");
        assert_eq!(changed, text("another"));
        for other in ["{}", "[]", r#"{"params":{}}"#] {
            assert_eq!(readdress(&Bytes::from(other), "another"), other);
        }
    }

    #[test]
    fn params_name_another_session_and_nothing_else_changes() {
        let value = |text: &str| RawValue::from_string(text.into()).unwrap();
        let params = value(r#"{ "a": 9007199254740993, "sessionId":"x\"" , "b":[ ]}"#);
        assert_eq!(
            readdress_params(&params, "agent\"s").get(),
            r#"{ "a": 9007199254740993, "sessionId":"agent\"s" , "b":[ ]}"#
        );
        assert_eq!(readdress_params(&value("[1]"), "s").get(), "[1]");
        assert_eq!(readdress_params(&value(r#"["x"]"#), "s").get(), r#"["x"]"#);
    }
}
