//! An agent on standard input and output that costs next to nothing: what is measured through it is the way to it.
//! It understands `/count N [size=BYTES]` as the others do.

use std::collections::HashMap;
use std::io::{BufRead, Write};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::count::Count;

/// Returns when there is nobody to talk to any more.
pub fn run(input: impl BufRead, mut output: impl Write) -> Result<()> {
    let mut echo = Echo::default();
    for line in input.lines() {
        let message: Value = serde_json::from_str(&line?)?;
        let mut said = Vec::new();
        // Whatever has no id wants no answer.
        if message.get("id").is_some() {
            let answer = match echo.answer(&message, &mut said) {
                Ok(result) => json!({"jsonrpc": "2.0", "id": message["id"], "result": result}),
                Err(error) => json!({"jsonrpc": "2.0", "id": message["id"],
                    "error": {"code": -32603, "message": format!("{error:#}")}}),
            };
            writeln!(said, "{answer}")?;
        }
        output.write_all(&said)?;
        output.flush()?;
    }
    Ok(())
}

/// How many prompts each session has had.
#[derive(Default)]
struct Echo(HashMap<String, u64>);

impl Echo {
    fn answer(&mut self, message: &Value, said: &mut Vec<u8>) -> Result<Value> {
        let params = &message["params"];
        match message["method"].as_str().unwrap_or_default() {
            "initialize" => {
                Ok(json!({"protocolVersion": 1, "agentInfo": {"name": "echo", "version": "1"}}))
            }
            "session/new" => {
                let session = format!("session-{}", self.0.len());
                self.0.insert(session.clone(), 0);
                Ok(json!({ "sessionId": session }))
            }
            "session/prompt" => {
                let session = params["sessionId"].as_str().context("no sessionId")?;
                let prompt = self.0.get_mut(session).context("no such session")?;
                *prompt += 1;
                let text = params["prompt"][0]["text"].as_str().unwrap_or_default();
                let count = Count::parse(text).context("send /count N [size=BYTES]")?;
                for k in 1..=count.chunks {
                    let content = json!({"type": "text", "text": count.text(k, *prompt)});
                    let update =
                        json!({"sessionUpdate": "agent_message_chunk", "content": content});
                    let params = json!({"sessionId": session, "update": update});
                    let chunk =
                        json!({"jsonrpc": "2.0", "method": "session/update", "params": params});
                    writeln!(said, "{chunk}")?;
                }
                Ok(json!({"stopReason": "end_turn"}))
            }
            other => bail!("no method {other}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::rpc;

    #[test]
    fn it_counts() {
        let count = Count::parse("/count 2 size=30").unwrap();
        let asked = [
            rpc::initialize(),
            rpc::new_session(),
            rpc::prompt(7, "session-0", &count.directive()),
        ];
        let mut said = Vec::new();
        run(asked.join("\n").as_bytes(), &mut said).unwrap();
        let said = String::from_utf8(said).unwrap();
        let found: Vec<_> = said
            .lines()
            .filter_map(|line| count.find(line.as_bytes()))
            .collect();
        assert_eq!(found, [(1, 1), (2, 1)]);
        let last: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
        assert_eq!(last["id"], 7);
        assert_eq!(last["result"]["stopReason"], "end_turn");
    }
}
