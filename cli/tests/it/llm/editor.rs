//! A client with files and terminals, which answers what it is asked.

use std::collections::{BTreeMap, BTreeSet};

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
        let params = json!({ "protocolVersion": 1, "clientCapabilities": capabilities });
        let (client, _) = Client::open(url, params).await.expect("Baton answers");
        let session = client.new_session().await;
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

    pub async fn next(&mut self) -> Value {
        let message = self
            .stream
            .next()
            .await
            .expect("the stream goes on")
            .message();
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
            _ => json!({}),
        })
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
