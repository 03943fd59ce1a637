//! A client with files and terminals, which answers what it is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::http::prompt;
use crate::support::sse::chunk_of;
use crate::support::{Client, Stream};

pub struct Editor {
    pub client: Client,
    pub session: String,
    pub stream: Stream,
    pub files: BTreeMap<String, String>,
    /// Commands in the order in which they were started.
    pub commands: Vec<String>,
    /// The option that is chosen when a permission is asked for.
    pub permission: &'static str,
    /// Methods that are not answered.
    pub silent: &'static [&'static str],
    /// The question, by its method and which one of them, that is kept back.
    pub hold: Option<(&'static str, usize)>,
    pub held: Option<Value>,
    /// All that came.
    pub seen: Vec<Value>,
    answered: BTreeSet<String>,
    prompts: u64,
}

impl Editor {
    pub async fn begin(url: &str) -> Self {
        let files = json!({ "readTextFile": true, "writeTextFile": true });
        let capabilities = json!({ "fs": files, "terminal": true });
        Self::begin_with(url, capabilities, json!([])).await
    }

    /// With these capabilities and MCP servers.
    pub async fn begin_with(url: &str, capabilities: Value, servers: Value) -> Self {
        let params = json!({ "protocolVersion": 1, "clientCapabilities": capabilities });
        let (client, _) = Client::open(url, params).await.expect("Baton answers");
        let params = json!({ "cwd": "/tmp", "mcpServers": servers });
        let new = json!({ "jsonrpc": "2.0", "id": "n", "method": "session/new", "params": params });
        let answer = client.one_shot(new).await.response(&json!("n")).await;
        let session = answer["result"]["sessionId"].as_str();
        let session = session.unwrap_or_else(|| panic!("{answer}")).to_owned();
        let stream = client.session_stream(&session, None).await;
        Self {
            client,
            session,
            stream,
            files: BTreeMap::new(),
            commands: Vec::new(),
            permission: "allow_once",
            silent: &[],
            hold: None,
            held: None,
            seen: Vec::new(),
            answered: BTreeSet::new(),
            prompts: 0,
        }
    }

    pub async fn ask(&mut self, text: &str) -> Value {
        self.prompts += 1;
        let id = json!(self.prompts);
        self.client
            .post(prompt(id.clone(), &self.session, text))
            .await;
        id
    }

    /// Any other request, and its answer.
    pub async fn call(&mut self, method: &str, mut params: Value) -> Value {
        self.prompts += 1;
        let id = json!(self.prompts);
        params["sessionId"] = json!(self.session);
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.client.post(message).await;
        self.answer(&id).await
    }

    /// A turn, with all that is asked in it answered.
    pub async fn turn(&mut self, text: &str) -> Value {
        let id = self.ask(text).await;
        self.answer(&id).await
    }

    /// Goes on to this answer.
    pub async fn answer(&mut self, id: &Value) -> Value {
        loop {
            let message = self.next().await;
            if message["id"] == *id && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// Goes on to the next request of this kind; those before it are answered.
    pub async fn asked(&mut self, method: &str) -> Value {
        loop {
            let message = self.next().await;
            if message["method"] == method {
                return message;
            }
        }
    }

    /// The next message, if there is one soon. It is answered in any case.
    pub async fn next_within(&mut self, limit: Duration) -> Option<Value> {
        let event = tokio::time::timeout(limit, self.stream.next()).await.ok()?;
        Some(
            self.take(event.expect("the stream goes on").message())
                .await,
        )
    }

    pub async fn next(&mut self) -> Value {
        let event = self.stream.next().await.expect("the stream goes on");
        self.take(event.message()).await
    }

    async fn take(&mut self, message: Value) -> Value {
        self.seen.push(message.clone());
        if message.get("id").is_some() && message.get("method").is_some() {
            let method = message["method"].as_str().unwrap_or_default();
            let held = self
                .hold
                .is_some_and(|(name, nth)| name == method && self.requests(name) == nth);
            if held {
                self.held = Some(message.clone());
            } else {
                self.reply(&message).await;
            }
        }
        message
    }

    /// What was kept back is answered after all.
    pub async fn let_go(&mut self) {
        self.hold = None;
        if let Some(held) = self.held.take() {
            self.reply(&held).await;
        }
    }

    /// Answers a question, but none twice.
    pub async fn reply(&mut self, asked: &Value) {
        let method = asked["method"].as_str().unwrap_or_default();
        let id = asked["id"].as_str().unwrap_or_default().to_owned();
        if self.silent.contains(&method) || !self.answered.insert(id) {
            return;
        }
        let body = match self.result(method, &asked["params"]) {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }),
            Err(message) => {
                let error = json!({ "code": -32603, "message": message });
                json!({ "jsonrpc": "2.0", "id": asked["id"], "error": error })
            }
        };
        self.client.post(body).await;
    }

    fn result(&mut self, method: &str, params: &Value) -> Result<Value, &'static str> {
        let text = |name: &str| params[name].as_str().unwrap_or_default().to_owned();
        Ok(match method {
            "fs/read_text_file" => {
                let content = self.files.get(&text("path")).ok_or("no such file")?;
                json!({ "content": content })
            }
            "fs/write_text_file" => {
                self.files.insert(text("path"), text("content"));
                json!({})
            }
            "terminal/create" => {
                let command = params["args"][1].as_str().unwrap_or_default();
                self.commands.push(command.to_owned());
                json!({ "terminalId": format!("terminal-{}", self.commands.len()) })
            }
            "terminal/wait_for_exit" => json!({ "exitCode": 0 }),
            "terminal/output" => json!({ "output": "printed", "truncated": false }),
            "session/request_permission" => {
                json!({ "outcome": { "outcome": "selected", "optionId": self.permission } })
            }
            "elicitation/create" => {
                let content = json!({ "name": "Ann", "check": true });
                json!({ "action": "accept", "content": content })
            }
            "mcp/message" => {
                let asked = params["method"].as_str().unwrap_or_default();
                let name = params["params"]["name"].as_str().unwrap_or_default();
                if asked == "tools/call" {
                    self.commands.push(name.to_owned());
                }
                match asked {
                    "tools/list" => {
                        let schema = json!({ "type": "object" });
                        let tool = json!({ "name": "count", "inputSchema": schema });
                        json!({ "result": { "tools": [tool] } })
                    }
                    _ => {
                        let text = format!("{name} is {}", self.commands.len());
                        let content = json!([{ "type": "text", "text": text }]);
                        json!({ "result": { "content": content } })
                    }
                }
            }
            _ => json!({}),
        })
    }

    /// Tool calls that came to their end, and what the model was told.
    pub fn outcomes(&self) -> Vec<(String, String)> {
        let updates = self.updates("tool_call_update").into_iter();
        let ended = updates.filter(|it| it["rawOutput"].is_string());
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        ended
            .map(|it| (text(&it["status"]), text(&it["rawOutput"])))
            .collect()
    }

    /// Whether a tool call shows this.
    pub fn shows(&self, text: &str) -> bool {
        let updates = self.updates("tool_call_update");
        updates
            .iter()
            .any(|it| it["content"].to_string().contains(text))
    }

    /// All that was said aloud.
    pub fn said(&self) -> String {
        self.seen.iter().filter_map(chunk_of).collect()
    }

    /// The updates of this kind.
    pub fn updates(&self, kind: &str) -> Vec<Value> {
        let updates = self.seen.iter().map(|message| &message["params"]["update"]);
        let updates = updates.filter(|update| update["sessionUpdate"] == kind);
        updates.cloned().collect()
    }

    /// How often it was asked this.
    pub fn requests(&self, method: &str) -> usize {
        let asked = self
            .seen
            .iter()
            .filter(|message| message["method"] == method);
        asked.count()
    }
}
