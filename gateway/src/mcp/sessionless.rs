//! Requests of the revision that knows no sessions: each says its revision and what its client can
//! do, and its headers repeat what those in between may route by. What they repeat has to be true.

use axum::http::{HeaderMap, HeaderName};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value};

use super::call::McpClient;
use super::fault::RpcFault;
use super::revision::McpRevision;
use crate::http::headers::{MCP_METHOD, MCP_NAME, MCP_PROTOCOL_VERSION};

const REVISION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// What such a request says beside its params.
#[derive(Debug, PartialEq, Eq)]
pub struct SessionlessRequest {
    pub revision: McpRevision,
    pub client: McpClient,
}

/// The first that is found decides: what the message says of itself, or the header.
pub fn is_sessionless(headers: &HeaderMap, params: &Map<String, Value>) -> bool {
    let said = params.get("_meta").and_then(|meta| meta.get(REVISION));
    let header = one(headers, &MCP_PROTOCOL_VERSION).ok().flatten();
    let header = header.and_then(McpRevision::parse);
    said.is_some() || header.is_some_and(McpRevision::is_sessionless)
}

impl SessionlessRequest {
    pub fn read(
        headers: &HeaderMap,
        method: &str,
        params: &Map<String, Value>,
    ) -> Result<Self, RpcFault> {
        let meta = params.get("_meta").and_then(Value::as_object);
        let field = |name: &str| {
            let found = meta.and_then(|meta| meta.get(name));
            found.ok_or_else(|| RpcFault::invalid(format!("params._meta[{name:?}] is missing")))
        };
        let revision = field(REVISION)?;
        let capabilities = field(CAPABILITIES)?;
        let revision = revision.as_str();
        let revision = revision.ok_or_else(|| RpcFault::invalid("a revision is a string"))?;
        let said = one(headers, &MCP_PROTOCOL_VERSION)?;
        mirrors(said == Some(revision), "MCP-Protocol-Version")?;
        mirrors(one(headers, &MCP_METHOD)? == Some(method), "Mcp-Method")?;
        check_name(headers, method, params)?;
        let known = McpRevision::parse(revision).filter(|it| it.is_sessionless());
        let known = known.ok_or_else(|| RpcFault::unsupported_revision(revision))?;
        Ok(Self {
            revision: known,
            client: McpClient::of(capabilities),
        })
    }
}

fn check_name(
    headers: &HeaderMap,
    method: &str,
    params: &Map<String, Value>,
) -> Result<(), RpcFault> {
    let (field, is_required) = match method {
        "tools/call" | "prompts/get" => ("name", true),
        "resources/read" => ("uri", true),
        // Not every client sends it.
        "tasks/get" | "tasks/update" | "tasks/cancel" => ("taskId", false),
        _ => return Ok(()),
    };
    let header = one(headers, &MCP_NAME)?;
    let named = params.get(field).and_then(Value::as_str);
    match (header, named) {
        (None, _) => mirrors(!is_required || named.is_none(), "Mcp-Name"),
        (Some(header), named) => mirrors(decoded(header).as_deref() == named, "Mcp-Name"),
    }
}

fn mirrors(agrees: bool, header: &str) -> Result<(), RpcFault> {
    if agrees {
        Ok(())
    } else {
        Err(RpcFault::header_mismatch(header))
    }
}

/// Two readers of a header that is there twice may choose differently.
fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, RpcFault> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let text = value.to_str().ok().filter(|_| values.next().is_none());
    text.map(Some)
        .ok_or_else(|| RpcFault::header_mismatch(name.as_str()))
}

/// Values that no header can have are in base64. `None` if they are not what they seem.
fn decoded(header: &str) -> Option<String> {
    let coded = header.strip_prefix("=?base64?");
    let Some(coded) = coded.and_then(|coded| coded.strip_suffix("?=")) else {
        return Some(header.to_owned());
    };
    String::from_utf8(BASE64.decode(coded).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use serde_json::json;

    use super::*;

    fn params(name: &str) -> Map<String, Value> {
        let meta = json!({ REVISION: "2026-07-28", CAPABILITIES: { "elicitation": {} } });
        let params = json!({ "name": name, "_meta": meta });
        params.as_object().unwrap().clone()
    }

    fn headers(pairs: &[(&HeaderName, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| ((*name).clone(), HeaderValue::from_static(value)))
            .collect()
    }

    fn read(pairs: &[(&HeaderName, &'static str)], name: &str) -> Result<(), i64> {
        let read = SessionlessRequest::read(&headers(pairs), "tools/call", &params(name));
        read.map(drop).map_err(|fault| fault.code)
    }

    #[test]
    fn headers_say_what_the_body_says() {
        let revision = (&MCP_PROTOCOL_VERSION, "2026-07-28");
        let method = (&MCP_METHOD, "tools/call");
        let name = (&MCP_NAME, "start");
        assert_eq!(read(&[revision, method, name], "start"), Ok(()));
        let coded = (&MCP_NAME, "=?base64?c3TDpHJ0?=");
        assert_eq!(read(&[revision, method, coded], "stärt"), Ok(()));
        for wrong in [
            &[method, name][..],
            &[revision, name],
            &[revision, method],
            &[(&MCP_PROTOCOL_VERSION, "2025-11-25"), method, name],
            &[revision, (&MCP_METHOD, "tools/list"), name],
            &[revision, method, (&MCP_NAME, "read")],
            &[revision, method, (&MCP_NAME, "=?base64?!?=")],
        ] {
            assert_eq!(read(wrong, "start"), Err(-32020), "{wrong:?}");
        }
        let mut twice = headers(&[revision, method, name]);
        twice.append(&MCP_NAME, HeaderValue::from_static("start"));
        let read = SessionlessRequest::read(&twice, "tools/call", &params("start"));
        assert_eq!(read.unwrap_err().code, -32020);
    }

    #[test]
    fn a_request_says_its_revision_and_what_its_client_can_do() {
        let all = headers(&[
            (&MCP_PROTOCOL_VERSION, "2027-01-01"),
            (&MCP_METHOD, "tools/list"),
        ]);
        let code = |meta: Value| {
            let params = json!({ "_meta": meta });
            let read = SessionlessRequest::read(&all, "tools/list", params.as_object().unwrap());
            read.unwrap_err().code
        };
        assert_eq!(code(json!({ REVISION: "2027-01-01" })), -32602);
        assert_eq!(code(json!({ CAPABILITIES: {} })), -32602);
        let later = json!({ REVISION: "2027-01-01", CAPABILITIES: {} });
        assert_eq!(code(later), -32022);
        let client = |capabilities: Value| McpClient::of(&capabilities);
        assert!(client(json!({ "elicitation": {} })).elicits);
        assert!(!client(json!({ "elicitation": { "url": {} } })).elicits);
        let tasks = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
        assert!(client(tasks).takes_tasks && !client(json!({})).takes_tasks);
    }
}
