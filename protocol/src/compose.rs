//! Messages that Baton writes itself. Ids and payloads are JSON already and are copied as they are.

use bytes::Bytes;
use serde::Serialize;

use crate::Method;

/// The `error` of a JSON-RPC answer.
#[derive(Serialize)]
pub struct ErrorBody<'a> {
    pub code: i64,
    pub message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<serde_json::Value>,
}

#[derive(Serialize)]
struct NotificationMessage<'a, P> {
    jsonrpc: &'static str,
    method: &'a str,
    params: P,
}

#[derive(Serialize)]
struct RequestMessage<'a, I, P> {
    jsonrpc: &'static str,
    id: I,
    method: &'a str,
    params: P,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UpdateParams<'a, U> {
    session_id: &'a str,
    update: U,
}

/// An answer: `result` is JSON, nothing stands for an empty object.
pub fn result(id: &str, result: &[u8]) -> Bytes {
    let head = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":");
    let result = if result.is_empty() { b"{}" } else { result };
    [head.as_bytes(), result, b"}"].concat().into()
}

pub fn error(id: &str, code: impl Into<i64>, message: &str) -> Bytes {
    error_with(id, code, message, None)
}

/// An error that says more than its text, such as when to try again.
pub fn error_with(
    id: &str,
    code: impl Into<i64>,
    message: &str,
    data: Option<serde_json::Value>,
) -> Bytes {
    let code = code.into();
    let body = ErrorBody {
        code,
        message,
        data,
    };
    let body = text(&body);
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{body}}}").into()
}

pub fn notification(method: &str, params: impl Serialize) -> Bytes {
    bytes(&NotificationMessage {
        jsonrpc: "2.0",
        method,
        params,
    })
}

/// A request whose id is a string or a number.
pub fn request(id: impl Serialize, method: &str, params: impl Serialize) -> Bytes {
    bytes(&RequestMessage {
        jsonrpc: "2.0",
        id,
        method,
        params,
    })
}

/// A `session/update`.
pub fn update(session: &str, update: impl Serialize) -> Bytes {
    let params = UpdateParams {
        session_id: session,
        update,
    };
    notification(Method::Update.name(), params)
}

/// Tells a client that a request of the agent needs no answer any more.
pub fn cancel_request(id: &str) -> Bytes {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct CancelParams<'a> {
        request_id: &'a str,
    }
    notification(
        Method::CancelRequest.name(),
        CancelParams { request_id: id },
    )
}

/// A message on one line, for readers that take a line for a message. Line breaks inside of strings
/// are escaped, so all that are left are blanks.
pub fn one_line(message: Bytes) -> Bytes {
    let breaks = |byte: &u8| matches!(byte, b'\n' | b'\r');
    if !message.iter().any(breaks) {
        return message;
    }
    let flat = message
        .iter()
        .map(|byte| if breaks(byte) { b' ' } else { *byte });
    flat.collect()
}

fn bytes(message: &impl Serialize) -> Bytes {
    // Most messages fit.
    let mut text = Vec::with_capacity(384);
    serde_json::to_writer(&mut text, message).expect("our own messages encode");
    text.into()
}

pub(crate) fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("our own messages encode")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorCode;

    #[test]
    fn messages_are_written_as_json_rpc() {
        assert_eq!(result("7", b""), r#"{"jsonrpc":"2.0","id":7,"result":{}}"#);
        assert_eq!(
            error("\"a\"", ErrorCode::QueueFull, "full \"now\""),
            r#"{"jsonrpc":"2.0","id":"a","error":{"code":4003,"message":"full \"now\""}}"#
        );
        assert_eq!(
            request(7, "x", ()),
            r#"{"jsonrpc":"2.0","id":7,"method":"x","params":null}"#
        );
        assert_eq!(
            request("a", "x", ()),
            r#"{"jsonrpc":"2.0","id":"a","method":"x","params":null}"#
        );
        assert_eq!(
            cancel_request("s:1"),
            r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"s:1"}}"#
        );
        assert_eq!(
            update("s", 1),
            r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":1}}"#
        );
    }

    #[test]
    fn a_message_of_several_lines_becomes_one() {
        let message = one_line(Bytes::from_static(b"{\n\"a\":\r\n\"b\\n\"}"));
        assert_eq!(&message[..], b"{ \"a\":  \"b\\n\"}");
    }
}
