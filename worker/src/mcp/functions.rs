//! Functions that a client of Open Responses offers with its prompt, as an MCP server. Messages
//! about the server itself are answered here, from the prompt; a call goes to the client like any
//! question, so it is durable and is answered once, whenever and by whichever gateway the answer
//! comes.

use std::borrow::Cow;

use baton_protocol::meta;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::rpc::Failure;

/// The revision of MCP that is spoken, if the agent names none.
const REVISION: &str = "2025-06-18";

/// Those of one prompt.
#[derive(Debug, Default)]
pub(crate) struct ClientFunctions {
    tools: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServerMessage<'a> {
    #[serde(borrow)]
    server_id: Cow<'a, str>,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(default)]
    params: Value,
}

impl ClientFunctions {
    /// The first block of the prompt says what was asked for with it.
    pub fn of(blocks: &[&RawValue]) -> Self {
        let first = blocks.first().map(|block| block.get());
        // Most prompts come by another door.
        let first = first.filter(|block| block.contains(meta::RESPONSE));
        let block: Value = first
            .and_then(|block| serde_json::from_str(block).ok())
            .unwrap_or_default();
        let tools = &block["_meta"][meta::RESPONSE]["fields"]["tools"];
        let tools = tools.as_array().into_iter().flatten();
        let tools = tools.filter(|tool| tool["type"] == "function");
        Self {
            tools: tools.map(as_tool).collect(),
        }
    }

    /// The answer to a message of the agent to this server. `None` if it is for the client.
    pub fn answer(&self, params: &RawValue) -> Option<Result<Box<RawValue>, Failure>> {
        let message: ServerMessage = serde_json::from_str(params.get()).ok()?;
        if message.server_id != meta::FUNCTIONS_SERVER {
            return None;
        }
        let answer = match &*message.method {
            "initialize" => {
                let revision = message.params["protocolVersion"].as_str();
                json!({ "result": {
                    "protocolVersion": revision.unwrap_or(REVISION),
                    "capabilities": { "tools": {} },
                    "serverInfo": { "name": "functions", "version": env!("CARGO_PKG_VERSION") },
                } })
            }
            "tools/list" => json!({ "result": { "tools": self.tools } }),
            "ping" => json!({ "result": {} }),
            "tools/call" if self.offers(&message.params["name"]) => return None,
            "tools/call" => error(-32602, "the client offers no such function"),
            method if method.starts_with("notifications/") => json!({}),
            _ => error(-32601, "functions of a client have tools, and nothing else"),
        };
        Some(to_raw_value(&answer).map_err(|fault| Failure::internal(fault.to_string())))
    }

    fn offers(&self, name: &Value) -> bool {
        self.tools.iter().any(|tool| tool["name"] == *name)
    }
}

fn as_tool(function: &Value) -> Value {
    let schema = &function["parameters"];
    let anything = json!({ "type": "object" });
    json!({
        "name": function["name"],
        "description": function["description"].as_str().unwrap_or_default(),
        "inputSchema": if schema.is_object() { schema } else { &anything },
    })
}

fn error(code: i64, message: &str) -> Value {
    json!({ "error": { "code": code, "message": message } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(functions: &ClientFunctions, method: &str, params: Value) -> Option<Value> {
        let message = json!({
            "serverId": meta::FUNCTIONS_SERVER, "requestId": "1", "method": method,
            "params": params,
        });
        let answer = functions.answer(&to_raw_value(&message).unwrap())?;
        Some(serde_json::from_str(answer.unwrap().get()).unwrap())
    }

    #[test]
    fn what_a_server_says_of_itself_needs_no_client() {
        let tool = json!({ "type": "function", "name": "now", "parameters": { "type": "object" } });
        let terms = json!({ "fields": { "tools": [tool, { "type": "other" }] } });
        let block = json!({ "type": "text", "text": "x", "_meta": { meta::RESPONSE: terms } });
        let block = to_raw_value(&block).unwrap();
        let functions = ClientFunctions::of(&[&block]);
        let listed = asked(&functions, "tools/list", json!({})).unwrap();
        let tools = listed["result"]["tools"].as_array().unwrap();
        assert_eq!((tools.len(), &tools[0]["name"]), (1, &json!("now")));
        assert_eq!(tools[0]["inputSchema"], json!({ "type": "object" }));
        let hello = asked(&functions, "initialize", json!({ "protocolVersion": "x" })).unwrap();
        assert_eq!(hello["result"]["protocolVersion"], "x");
        assert_eq!(
            asked(&functions, "tools/call", json!({ "name": "now" })),
            None
        );
        let unknown = asked(&functions, "tools/call", json!({ "name": "later" })).unwrap();
        assert_eq!(unknown["error"]["code"], -32602);
        let other = asked(&functions, "resources/list", json!({})).unwrap();
        assert_eq!(other["error"]["code"], -32601);
        // A server of the client's own.
        let message = json!({ "serverId": "srv-1", "method": "tools/list" });
        assert!(functions.answer(&to_raw_value(&message).unwrap()).is_none());
        let plain = to_raw_value(&json!({ "type": "text", "text": "x" })).unwrap();
        let none = ClientFunctions::of(&[&plain]);
        assert_eq!(
            asked(&none, "tools/list", json!({})).unwrap()["result"]["tools"],
            json!([])
        );
    }
}
