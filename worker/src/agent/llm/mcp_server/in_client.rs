//! A server that lives in the client. What is asked of it are questions to the client, so they
//! outlive the worker that asked, and are answered once.

use std::sync::Arc;
use std::time::Duration;

use baton_protocol::Method;
use baton_session::id::{ConnectionId, random_text};
use rmcp::model::{CallToolResult, ListToolsResult, Tool};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::server_events::{ServerEvents, ServerProgress};
use super::try_pause::TryPause;
use super::{ServerOffer, shortened};
use crate::agent::Turn;
use crate::agent::llm::mcp_tools::MAX_TOOLS;

pub const MCP_MESSAGE: Method = Method::McpMessage;
/// For a client that is there, to say what its server can do.
const LIST_PATIENCE: Duration = Duration::from_secs(30);
const MAX_PAGES: usize = 16;

pub struct ClientServer {
    pub id: String,
    pub events: Arc<ServerEvents>,
    state: Mutex<ListedTools>,
}

#[derive(Default)]
struct ListedTools {
    /// By whom.
    client: Option<ConnectionId>,
    offer: ServerOffer,
    pause: TryPause,
}

/// The answer to an `mcp/message`: one of the two.
#[derive(Deserialize)]
struct McpAnswer {
    result: Option<Value>,
    error: Option<McpErrorFields>,
}

#[derive(Deserialize)]
struct McpErrorFields {
    message: String,
}

/// A notification of the client's.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClientNotice {
    server_id: String,
    #[serde(default)]
    request_id: String,
    method: String,
    #[serde(default)]
    params: Value,
}

impl ClientServer {
    pub fn new(id: String) -> Self {
        Self {
            id,
            events: Arc::default(),
            state: Mutex::default(),
        }
    }

    pub async fn offer(&self, turn: &Turn) -> Result<ServerOffer, String> {
        let mut state = self.state.lock().await;
        let client = &turn.asking_client().connection;
        if state.client.as_ref() == Some(client) && !self.events.take_changed() {
            return Ok(state.offer.clone());
        }
        state.pause.check()?;
        let listed = timeout(LIST_PATIENCE, self.list(turn)).await;
        let late = |_| {
            Err(format!(
                "the client did not answer within {LIST_PATIENCE:?}"
            ))
        };
        turn.withdraw_abandoned();
        let tools = state.pause.note(&self.id, listed.unwrap_or_else(late))?;
        state.client = Some(client.clone());
        state.offer.tools = tools.into();
        Ok(state.offer.clone())
    }

    async fn list(&self, turn: &Turn) -> Result<Vec<Tool>, String> {
        let (mut tools, mut cursor) = (Vec::new(), None);
        for _ in 0..MAX_PAGES {
            let wanted = match &cursor {
                Some(cursor) => json!({ "cursor": cursor }),
                None => json!({}),
            };
            let params = self.message(&random_text(12), "tools/list", wanted);
            let answer = turn.request(MCP_MESSAGE.name(), params).await;
            let answer = answer.map_err(|failure| shortened(&failure.message))?;
            let answer = serde_json::from_str(answer.get()).unwrap_or_default();
            let page: ListToolsResult = result_of(answer)?;
            tools.extend(page.tools);
            cursor = page.next_cursor;
            if cursor.is_none() || tools.len() >= MAX_TOOLS {
                break;
            }
        }
        tools.truncate(MAX_TOOLS);
        Ok(tools)
    }

    /// The params of a request to the server.
    pub fn message(&self, request: &str, method: &str, params: Value) -> Value {
        json!({
            "serverId": self.id,
            "requestId": request,
            "method": method,
            "params": params,
        })
    }

    /// Takes what the client says about this server.
    pub fn note(&self, notice: &Value) {
        let Ok(notice) = serde_json::from_value::<ClientNotice>(notice.clone()) else {
            return;
        };
        if notice.server_id != self.id {
            return;
        }
        match notice.method.as_str() {
            "notifications/progress" => {
                let progress = ServerProgress {
                    progress: notice.params["progress"].as_f64().unwrap_or_default(),
                    total: notice.params["total"].as_f64(),
                    message: notice.params["message"].as_str().map(str::to_owned),
                };
                self.events.note_progress(&notice.request_id, progress);
            }
            "notifications/tools/list_changed" => self.events.note_change(),
            _ => {}
        }
    }
}

/// The result of a tool, from the client's answer to an `mcp/message`.
pub fn client_result(answer: Value) -> Result<CallToolResult, String> {
    result_of(answer)
}

fn result_of<T: DeserializeOwned>(answer: Value) -> Result<T, String> {
    let odd = |error: serde_json::Error| shortened(&format!("its answer is odd: {error}"));
    let answer: McpAnswer = serde_json::from_value(answer).map_err(odd)?;
    match (answer.result, answer.error) {
        (Some(result), _) => serde_json::from_value(result).map_err(odd),
        (None, Some(error)) => Err(shortened(&error.message)),
        (None, None) => Err("its answer has neither result nor error".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_result_or_says_why_not() {
        let result = json!({ "result": { "content": [{ "type": "text", "text": "x" }] } });
        assert_eq!(client_result(result).expect("a result").content.len(), 1);
        let error = json!({ "error": { "code": -32000, "message": "no time" } });
        assert_eq!(client_result(error).err().as_deref(), Some("no time"));
        for odd in [json!({}), json!(7), json!({ "result": 7 }), Value::Null] {
            assert!(client_result(odd).is_err());
        }
    }
}
