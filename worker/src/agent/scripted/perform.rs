//! Runs each directive.

use std::time::Duration;

use baton_protocol::{Method, meta};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};

use super::directive::ScriptDirective;
use super::{ScriptedConversation, ScriptedServers, StopReason};
use crate::agent::{Failure, Turn};

impl ScriptedConversation {
    /// `Some` ends the turn.
    pub(super) async fn perform(
        &self,
        turn: &Turn,
        ordinal: u64,
        directive: &ScriptDirective,
    ) -> Result<Option<StopReason>, Failure> {
        match directive {
            ScriptDirective::Count {
                chunks,
                delay,
                size,
            } => count(turn, ordinal, *chunks, *delay, *size).await,
            ScriptDirective::Echo(text) => {
                for word in text.split_whitespace() {
                    say(turn, ordinal, &format!("{word} ")).await;
                }
            }
            ScriptDirective::Think => {
                let id = format!("thought-{ordinal}");
                turn.update(TextChunk::new(
                    "agent_thought_chunk",
                    &id,
                    "thinking it over ",
                ))
                .await
            }
            ScriptDirective::Sleep(duration) => turn.sleep(*duration).await,
            ScriptDirective::Permission => return permission(turn, ordinal).await,
            ScriptDirective::Tool => tool(turn, ordinal).await,
            ScriptDirective::Plan => turn.update(plan()).await,
            ScriptDirective::Commands => turn.update(commands()).await,
            ScriptDirective::Usage => {
                turn.update(usage(ordinal * 1000)).await;
            }
            ScriptDirective::Mode(mode) => {
                let mut options = self.memory().options.clone();
                let update = options.set_mode(mode)?;
                turn.update_with(update, || {
                    self.change_again(|options| options.set_mode(mode))
                })
                .await;
            }
            ScriptDirective::Config(id, value) => {
                let mut options = self.memory().options.clone();
                let update = options.set(id, &json!(value))?;
                turn.update_with(update, || {
                    self.change_again(|options| options.set(id, &json!(value)))
                })
                .await;
            }
            ScriptDirective::Title(title) => {
                turn.update(json!({ "sessionUpdate": "session_info_update", "title": title }))
                    .await;
            }
            ScriptDirective::Bind(key, value) => {
                let bind = json!({ meta::BIND: { key: value } });
                turn.update(json!({ "sessionUpdate": "session_info_update", "_meta": bind }))
                    .await;
            }
            ScriptDirective::Bound => {
                let bound = format!("{} ", Value::Object(turn.bound()));
                say(turn, ordinal, &bound).await;
            }
            ScriptDirective::Servers => say(turn, ordinal, &self.servers.said).await,
            ScriptDirective::Mcp(name) => tools(turn, ordinal, name, &self.servers).await?,
            ScriptDirective::Call {
                server,
                tool,
                arguments,
            } => call(turn, ordinal, &self.servers, server, tool, arguments).await?,
            ScriptDirective::Update(update) => turn.update(update).await,
            ScriptDirective::Stop(reason) => return Ok(Some(*reason)),
            ScriptDirective::Read(path) => read(turn, ordinal, path).await?,
            ScriptDirective::Write(path, text) => write(turn, ordinal, path, text).await?,
            ScriptDirective::Terminal(command) => terminal(turn, ordinal, command).await?,
            ScriptDirective::Elicit => elicit(turn, ordinal).await?,
            ScriptDirective::Fail => return Err(Failure::internal("the script said /fail")),
            ScriptDirective::Refuse => return Ok(Some(StopReason::Refusal)),
        }
        Ok(None)
    }
}

/// A chunk of text, the most frequent update of all.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TextChunk<'a> {
    session_update: &'static str,
    content: TextContent<'a>,
    message_id: &'a str,
}

#[derive(Serialize)]
struct TextContent<'a> {
    r#type: &'static str,
    text: &'a str,
}

impl<'a> TextChunk<'a> {
    fn new(session_update: &'static str, message_id: &'a str, text: &'a str) -> Self {
        Self {
            session_update,
            message_id,
            content: TextContent {
                r#type: "text",
                text,
            },
        }
    }
}

/// All chunks of a turn belong to one message.
async fn say(turn: &Turn, ordinal: u64, text: &str) {
    let id = format!("agent-{ordinal}");
    turn.update(TextChunk::new("agent_message_chunk", &id, text))
        .await;
}

async fn count(turn: &Turn, ordinal: u64, chunks: u64, delay: Duration, size: usize) {
    for chunk in 1..=chunks {
        let mut text = format!("chunk {chunk} of {chunks}, prompt {ordinal} ");
        while text.len() < size {
            text.push('.');
        }
        say(turn, ordinal, &text).await;
        if !delay.is_zero() && chunk < chunks {
            turn.sleep(delay).await;
        }
    }
}

fn usage(used: u64) -> Value {
    json!({ "sessionUpdate": "usage_update", "used": used, "size": 200_000 })
}

fn plan() -> Value {
    let entry = |content: &str, status: &str| -> Value {
        json!({ "content": content, "priority": "medium", "status": status })
    };
    let entries = [entry("look", "completed"), entry("act", "pending")];
    json!({ "sessionUpdate": "plan", "entries": entries })
}

fn commands() -> Value {
    let names = ["count", "permission", "tool", "plan", "think"];
    let commands =
        names.map(|name| json!({ "name": name, "description": format!("the /{name} directive") }));
    json!({ "sessionUpdate": "available_commands_update", "availableCommands": commands })
}

fn tool_call(id: &str, title: &str, status: &str) -> Value {
    json!({
        "sessionUpdate": "tool_call", "toolCallId": id,
        "title": title, "kind": "execute", "status": status,
    })
}

fn tool_status(id: &str, status: &str) -> Value {
    json!({ "sessionUpdate": "tool_call_update", "toolCallId": id, "status": status })
}

async fn tool(turn: &Turn, ordinal: u64) {
    let id = format!("tool-{ordinal}");
    turn.update(tool_call(&id, "A tool that does nothing", "in_progress"))
        .await;
    turn.update(tool_status(&id, "completed")).await;
}

async fn permission(turn: &Turn, ordinal: u64) -> Result<Option<StopReason>, Failure> {
    #[derive(Deserialize)]
    struct PermissionReply {
        outcome: PermissionOutcome,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct PermissionOutcome {
        option_id: Option<String>,
    }
    let id = format!("permission-{ordinal}");
    let title = "Something that needs permission";
    turn.update(tool_call(&id, title, "pending")).await;
    let option = |id: &str, name: &str| json!({ "optionId": id, "name": name, "kind": id });
    let options = [
        option("allow_once", "Allow"),
        option("allow_always", "Always allow"),
        option("reject_once", "Reject"),
    ];
    let params = json!({
        "sessionId": turn.session(),
        "toolCall": { "toolCallId": id, "title": title, "status": "pending" },
        "options": options,
    });
    let reply: PermissionReply = read_reply(
        &turn
            .request(Method::RequestPermission.name(), params)
            .await?,
    )?;
    match reply.outcome.option_id.as_deref() {
        Some(chosen @ ("allow_once" | "allow_always")) => {
            turn.update(tool_status(&id, "completed")).await;
            say(turn, ordinal, &format!("permission {chosen} ")).await;
        }
        Some(chosen) => {
            turn.update(tool_status(&id, "failed")).await;
            say(turn, ordinal, &format!("permission {chosen} ")).await;
        }
        None => {
            turn.update(tool_status(&id, "failed")).await;
            return Ok(Some(StopReason::Cancelled));
        }
    }
    Ok(None)
}

async fn read(turn: &Turn, ordinal: u64, path: &str) -> Result<(), Failure> {
    if !turn.client().read_file {
        say(turn, ordinal, "the client cannot read files ").await;
        return Ok(());
    }
    let params = json!({ "sessionId": turn.session(), "path": path });
    let reply: Value = read_reply(&turn.request(Method::ReadTextFile.name(), params).await?)?;
    say(turn, ordinal, reply["content"].as_str().unwrap_or_default()).await;
    Ok(())
}

async fn write(turn: &Turn, ordinal: u64, path: &str, text: &str) -> Result<(), Failure> {
    if !turn.client().write_file {
        say(turn, ordinal, "the client cannot write files ").await;
        return Ok(());
    }
    let params = json!({ "sessionId": turn.session(), "path": path, "content": text });
    turn.request(Method::WriteTextFile.name(), params).await?;
    say(turn, ordinal, &format!("wrote {path} ")).await;
    Ok(())
}

async fn terminal(turn: &Turn, ordinal: u64, command: &str) -> Result<(), Failure> {
    if !turn.client().terminal {
        say(turn, ordinal, "the client has no terminal ").await;
        return Ok(());
    }
    let params = json!({ "sessionId": turn.session(), "command": command });
    let created: Value = read_reply(&turn.request(Method::CreateTerminal.name(), params).await?)?;
    let same = json!({ "sessionId": turn.session(), "terminalId": created["terminalId"] });
    turn.request(Method::WaitForTerminalExit.name(), &same)
        .await?;
    let output: Value = read_reply(&turn.request(Method::TerminalOutput.name(), &same).await?)?;
    turn.request(Method::ReleaseTerminal.name(), &same).await?;
    say(turn, ordinal, output["output"].as_str().unwrap_or_default()).await;
    Ok(())
}

async fn elicit(turn: &Turn, ordinal: u64) -> Result<(), Failure> {
    if !turn.client().elicitation {
        say(turn, ordinal, "the client cannot be asked ").await;
        return Ok(());
    }
    let params = json!({
        "mode": "form",
        "sessionId": turn.session(),
        "message": "What is your name?",
        "requestedSchema": {
            "type": "object",
            "properties": { "name": { "type": "string" } },
            "required": ["name"],
        },
    });
    let reply: Value = read_reply(
        &turn
            .request(Method::CreateElicitation.name(), params)
            .await?,
    )?;
    let action = reply["action"].as_str().unwrap_or_default();
    say(
        turn,
        ordinal,
        &format!(
            "elicitation {action} {} ",
            reply["content"]["name"].as_str().unwrap_or_default()
        ),
    )
    .await;
    Ok(())
}

/// Lists the tools of an MCP server that lives in the client.
async fn tools(
    turn: &Turn,
    ordinal: u64,
    name: &str,
    servers: &ScriptedServers,
) -> Result<(), Failure> {
    let Some(server) = servers.in_client.get(name) else {
        let text = format!("no MCP server {name:?} in the client ");
        say(turn, ordinal, &text).await;
        return Ok(());
    };
    let request = format!("tools-{ordinal}");
    let params =
        json!({ "serverId": server, "requestId": request, "method": "tools/list", "params": {} });
    let reply: Value = read_reply(&turn.request(Method::McpMessage.name(), params).await?)?;
    let tools = reply["result"]["tools"].as_array().into_iter().flatten();
    let tools: Vec<&str> = tools.filter_map(|tool| tool["name"].as_str()).collect();
    let text = match reply["error"]["message"].as_str() {
        Some(error) => format!("{name} answers with an error: {error} "),
        None => format!("tools of {name}: {} ", tools.join(", ")),
    };
    say(turn, ordinal, &text).await;
    Ok(())
}

/// Calls a tool of such a server, and says what it answers.
async fn call(
    turn: &Turn,
    ordinal: u64,
    servers: &ScriptedServers,
    name: &str,
    tool: &str,
    arguments: &str,
) -> Result<(), Failure> {
    let Some(server) = servers.in_client.get(name) else {
        let text = format!("no MCP server {name:?} in the client ");
        say(turn, ordinal, &text).await;
        return Ok(());
    };
    let arguments: Value = serde_json::from_str(arguments)
        .map_err(|_| Failure::invalid_params("/call SERVER TOOL JSON: the last is no JSON"))?;
    let params = json!({
        "serverId": server, "requestId": format!("call-{ordinal}"), "method": "tools/call",
        "params": { "name": tool, "arguments": arguments },
    });
    let reply: Value = read_reply(&turn.request(Method::McpMessage.name(), params).await?)?;
    let text = match reply["error"]["message"].as_str() {
        Some(error) => format!("{tool} fails: {error} "),
        None => {
            let said = reply["result"]["content"][0]["text"].as_str();
            format!("{tool} says {} ", said.unwrap_or_default())
        }
    };
    say(turn, ordinal, &text).await;
    Ok(())
}

/// Shows a server's notification during a request as a thought.
pub(super) fn overheard(params: &RawValue) -> Result<Value, Failure> {
    let said: Value = read_reply(params)?;
    let word = |field: &str| said[field].as_str().unwrap_or_default().to_owned();
    let text = format!("{} for {} ", word("method"), word("requestId"));
    let chunk = TextChunk::new("agent_thought_chunk", "overheard", &text);
    Ok(json!(chunk))
}

fn read_reply<T: for<'a> Deserialize<'a>>(reply: &RawValue) -> Result<T, Failure> {
    serde_json::from_str(reply.get())
        .map_err(|e| Failure::internal(format!("the client's answer cannot be understood: {e}")))
}

#[cfg(test)]
mod tests {
    use agent_client_protocol_schema::v1::{
        InitializeResponse, NewSessionResponse, SessionUpdate, SetSessionConfigOptionResponse,
    };

    use super::super::{ScriptedAgent, options::ScriptedOptions};
    use super::*;
    use crate::agent::Agent as _;

    /// Updates survive a round trip through the protocol's own types.
    fn survives<T: for<'a> Deserialize<'a> + Serialize>(said: &Value) {
        let read: T =
            serde_json::from_value(said.clone()).unwrap_or_else(|e| panic!("{e}: {said}"));
        let again = serde_json::to_value(read).expect("the protocol's types encode");
        assert!(covers(&again, said), "{said}\nbecame\n{again}");
    }

    /// Whether everything in `part` is in `whole`, which may say more.
    fn covers(whole: &Value, part: &Value) -> bool {
        match (whole, part) {
            (Value::Object(whole), Value::Object(part)) => {
                let has = |(key, value): (&String, &Value)| {
                    whole.get(key).is_some_and(|w| covers(w, value))
                };
                part.iter().all(has)
            }
            (Value::Array(whole), Value::Array(part)) => {
                whole.len() == part.len() && whole.iter().zip(part).all(|(w, p)| covers(w, p))
            }
            _ => whole == part,
        }
    }

    #[test]
    fn every_update_is_one_of_the_protocols() {
        let mut options = ScriptedOptions::default();
        let chunk =
            serde_json::to_value(TextChunk::new("agent_message_chunk", "a", "hello ")).unwrap();
        let thought =
            serde_json::to_value(TextChunk::new("agent_thought_chunk", "t", "hm ")).unwrap();
        let updates = [
            chunk,
            thought,
            plan(),
            commands(),
            tool_call("t", "A tool", "in_progress"),
            tool_status("t", "completed"),
            options.set_mode("ask").unwrap(),
            options.set("model", &json!("large")).unwrap(),
            json!({ "sessionUpdate": "usage_update", "used": 1000, "size": 200_000 }),
            json!({ "sessionUpdate": "session_info_update", "title": "A title" }),
        ];
        updates.iter().for_each(survives::<SessionUpdate>);
    }

    #[test]
    fn what_a_session_answers_is_the_protocols() {
        let mut view = ScriptedOptions::default().view();
        survives::<SetSessionConfigOptionResponse>(
            &json!({ "configOptions": view["configOptions"] }),
        );
        view["sessionId"] = json!("000-A");
        survives::<NewSessionResponse>(&view);
        survives::<InitializeResponse>(&ScriptedAgent.card().initialize);
    }
}
