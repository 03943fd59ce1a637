//! MCP over ACP: the client acts as the server, and `mcp/message` carries the messages between the
//! two. The agent's requests have ids that name their session. The client's notifications during a
//! request, progress for example, name no session, only the agent's `requestId`: so the session's
//! id is put before the `requestId` on the way out and removed on the way back. Any gateway can
//! route the notification by it.

use baton_protocol::Method;
use baton_session::id::SessionId;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::rpc::Failure;

/// The params of a request to the client.
pub(crate) fn outbound(
    session: &SessionId,
    method: &str,
    params: impl Serialize,
) -> Result<Box<RawValue>, Failure> {
    let params = to_raw_value(&params).map_err(|error| Failure::internal(error.to_string()))?;
    match Method::of(method) {
        Method::McpMessage => renamed(&params, |id| Some(format!("{session}:{id}"))),
        _ => Ok(params),
    }
}

/// The params of a client's notification, as the agent knows them.
pub(crate) fn inbound(params: &RawValue) -> Result<Box<RawValue>, Failure> {
    renamed(params, |id| Some(id.split_once(':')?.1.to_owned()))
}

/// With another `requestId`, and every other byte as it was.
fn renamed(
    params: &RawValue,
    rename: impl Fn(&str) -> Option<String>,
) -> Result<Box<RawValue>, Failure> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct RequestIdParams<'a> {
        #[serde(borrow)]
        request_id: &'a RawValue,
    }
    let whole = params.get();
    let replaced = || {
        let RequestIdParams { request_id } = serde_json::from_str(whole).ok()?;
        let written = request_id.get();
        let id: String = serde_json::from_str(written).ok()?;
        let id = serde_json::to_string(&rename(&id)?).ok()?;
        let at = written.as_ptr() as usize - whole.as_ptr() as usize;
        let (before, after) = (&whole[..at], &whole[at + written.len()..]);
        RawValue::from_string([before, &id, after].concat()).ok()
    };
    replaced().ok_or_else(|| Failure::invalid_params("params.requestId must be a string, once"))
}

#[cfg(test)]
mod tests {
    use baton_session::id::Partition;

    use super::*;

    #[test]
    fn an_id_carries_its_session_there_and_back() {
        let session = SessionId::mint(Partition(3));
        for id in [r#""""#, r#""a""#, r#""a:b""#, r#""\u00e9\"""#] {
            let text =
                format!(r#"{{ "x":1.0,"requestId" : {id},"params":{{"requestId":"other"}}}}"#);
            let params = RawValue::from_string(text).unwrap();
            let out = outbound(&session, Method::McpMessage.name(), &params).unwrap();
            let start = format!(r#"{{ "x":1.0,"requestId" : "{session}:"#);
            assert!(out.get().starts_with(&start), "{out}");
            let back = inbound(&out).unwrap();
            let read =
                |raw: &RawValue| serde_json::from_str::<serde_json::Value>(raw.get()).unwrap();
            assert_eq!(read(&back), read(&params));
            let other = outbound(&session, "fs/read_text_file", &params).unwrap();
            assert_eq!(other.get(), params.get());
        }
    }

    #[test]
    fn what_names_no_request_is_refused() {
        for text in [
            "{}",
            "[]",
            r#"{"requestId":7}"#,
            r#"{"requestId":"a","requestId":"b"}"#,
        ] {
            let params = RawValue::from_string(text.to_owned()).unwrap();
            assert!(
                outbound(
                    &SessionId::mint(Partition(3)),
                    Method::McpMessage.name(),
                    &params
                )
                .is_err(),
                "{text}"
            );
            assert!(inbound(&params).is_err(), "{text}");
        }
        let unrouted = RawValue::from_string(r#"{"requestId":"a"}"#.into()).unwrap();
        assert!(inbound(&unrouted).is_err());
    }
}
