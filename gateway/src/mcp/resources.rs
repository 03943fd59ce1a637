//! Sessions as resources: `baton://sessions/ID` is what was said in one.

use baton_session::id::SessionId;
use serde_json::{Map, Value, json};

use super::arguments::ListArguments;
use super::call::McpClientCall;
use super::fault::{CallError, RpcFault};
use super::named_session::{readable, record_read};
use super::{invoke, transcript};

const BEFORE_ID: &str = "baton://sessions/";
const TYPE: &str = "text/markdown";
/// Pages of a transcript that are shown as one resource.
const PAGES: usize = 8;

pub async fn list(call: &McpClientCall, params: &Map<String, Value>) -> Result<Value, CallError> {
    let cursor = params.get("cursor").and_then(Value::as_str);
    let arguments = ListArguments {
        cursor: cursor.map(str::to_owned),
        cwd: None,
    };
    let listed = invoke::list_sessions(call, arguments).await;
    let listed = listed.map_err(|error| match error {
        // A list has no result that says what is wrong.
        CallError::Refused(refusal) => RpcFault::invalid(refusal.text()).into(),
        error => error,
    })?;
    let sessions = listed["sessions"].as_array().into_iter().flatten();
    let resources = sessions.map(|entry| {
        let id = entry["session"].as_str().unwrap_or_default();
        json!({
            "uri": format!("{BEFORE_ID}{id}"),
            "name": entry["title"].as_str().unwrap_or(id),
            "description": format!("A session in {}", entry["cwd"].as_str().unwrap_or("/")),
            "mimeType": TYPE,
        })
    });
    let mut result = json!({ "resources": resources.collect::<Vec<_>>() });
    if let Some(next) = listed["nextCursor"].as_str() {
        result["nextCursor"] = json!(next);
    }
    Ok(result)
}

pub fn templates() -> Value {
    json!({ "resourceTemplates": [{
        "uriTemplate": format!("{BEFORE_ID}{{session}}"),
        "name": "session",
        "title": "What was said in a session",
        "mimeType": TYPE,
    }]})
}

pub async fn read(call: &McpClientCall, params: &Map<String, Value>) -> Result<Value, CallError> {
    let uri = params.get("uri").and_then(Value::as_str);
    let uri = uri.ok_or_else(|| RpcFault::invalid("params.uri must be a string"))?;
    let missing = || CallError::Rpc(RpcFault::no_resource(call.revision));
    call.count().map_err(as_fault)?;
    let id = uri.strip_prefix(BEFORE_ID).ok_or_else(missing)?;
    let (session, _) = readable(call, id).await.map_err(|error| match error {
        CallError::Tool(_) => missing(),
        error => error,
    })?;
    record_read(call, &session);
    let text = markdown(call, &session).await?;
    Ok(json!({ "contents": [{ "uri": uri, "mimeType": TYPE, "text": text }] }))
}

fn as_fault(error: CallError) -> CallError {
    match error {
        CallError::Tool(text) => RpcFault::invalid(text).into(),
        error => error,
    }
}

async fn markdown(call: &McpClientCall, session: &SessionId) -> Result<String, CallError> {
    let (mut text, mut next) = (String::new(), 1);
    for _ in 0..PAGES {
        let page = transcript::page(call, session, next, Some(usize::MAX)).await?;
        for entry in &page.entries {
            let (role, said) = (&entry["role"], &entry["text"]);
            let (role, said) = (role.as_str(), said.as_str());
            let (role, said) = (role.unwrap_or_default(), said.unwrap_or_default());
            text.push_str(&format!("## {role}\n\n{said}\n\n"));
        }
        let Some(after) = page.next else {
            return Ok(text);
        };
        next = after;
    }
    text.push_str(&format!(
        "There is more: the tool read goes on with session {session} and cursor {next}.\n"
    ));
    Ok(text)
}
