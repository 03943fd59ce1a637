//! Holds every message of the server against the published schema of the protocol, which comes with the
//! official TypeScript client.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex};

use jsonschema::Validator;
use serde_json::{Value, json};

const SCHEMA: &str =
    "tests/clients/typescript/node_modules/@agentclientprotocol/sdk/schema/v1/schema.unstable.json";

/// Methods without an answer in the schema: dropped from it but still called, and a notification that
/// a client may send with an id. Their answer is an object.
const UNLISTED: [&str; 2] = ["session/set_model", "session/cancel"];

/// Notifications of our own, which go to clients that ask for them.
const OURS: &str = "_baton/turn";

/// What the tests of this process asked, and on which connection: an answer names only the request.
#[derive(Default)]
pub struct Conversations {
    asked: Mutex<HashMap<(String, String), BTreeSet<String>>>,
    tolerated: Mutex<BTreeSet<(String, String)>>,
}

pub static CONVERSATIONS: LazyLock<Conversations> = LazyLock::new(Conversations::default);

impl Conversations {
    /// Remembers a request, so that its answer can be judged. What is no request is passed over.
    pub fn sent(&self, connection: &str, message: &Value) {
        if let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) {
            let key = (connection.to_owned(), id.to_string());
            let mut asked = self.asked.lock().expect("nobody panics with the lock");
            asked.entry(key).or_default().insert(method.to_owned());
        }
    }

    /// From now on this connection may get an update of a kind that the schema does not know.
    pub fn tolerate(&self, connection: &str, kind: &str) {
        let mut tolerated = self.tolerated.lock().expect("nobody panics with the lock");
        tolerated.insert((connection.to_owned(), kind.to_owned()));
    }

    /// Panics if this may not be said to a client.
    pub fn received(&self, connection: &str, message: &Value) {
        if let Err(fault) = self.judge(connection, message) {
            panic!("the server's message breaks the protocol: {fault}\n{message}");
        }
    }

    /// What is wrong with a message to this connection.
    pub fn judge(&self, connection: &str, message: &Value) -> Result<(), String> {
        let Some(method) = message.get("method") else {
            let id = message.get("id").ok_or("neither method nor id")?;
            let key = (connection.to_owned(), id.to_string());
            let asked = self.asked.lock().expect("nobody panics with the lock");
            let methods = asked.get(&key).cloned().unwrap_or_default();
            return judge_answer(&methods, message);
        };
        if method == OURS && message.get("id").is_none() {
            return envelope(message);
        }
        let kind = message["params"]["update"]["sessionUpdate"].as_str();
        let pair = (connection.to_owned(), kind.unwrap_or_default().to_owned());
        let tolerated = self.tolerated.lock().expect("nobody panics with the lock");
        match tolerated.contains(&pair) {
            true => Ok(()),
            false => judge_call(method.as_str().ok_or("method is no text")?, message),
        }
    }
}

/// For an answer that came by itself, such as the one to `initialize`.
pub fn check_answer(method: &str, message: &Value) {
    if let Err(fault) = judge_answer(&BTreeSet::from([method.to_owned()]), message) {
        panic!("the answer to {method} breaks the protocol: {fault}\n{message}");
    }
}

/// All kinds of `session/update` there are.
pub fn update_kinds() -> BTreeSet<String> {
    let kinds = SHAPES.definitions["SessionUpdate"]["oneOf"].as_array();
    let kind = |shape: &Value| shape["properties"]["sessionUpdate"]["const"].clone();
    let kinds = kinds.expect("a choice of kinds").iter().map(kind);
    kinds
        .map(|kind| kind.as_str().expect("a name").to_owned())
        .collect()
}

/// A request or notification of the agent.
fn judge_call(method: &str, message: &Value) -> Result<(), String> {
    envelope(message)?;
    let form = match message.get("id") {
        Some(id) => {
            valid("RequestId", id)?;
            "Request"
        }
        None => "Notification",
    };
    let sides = ["client", "protocol"];
    let name = SHAPES
        .named(method, form, &sides)
        .ok_or_else(|| format!("the schema has no {form} {method:?} to a client"))?;
    valid(name, &message["params"])
}

/// The answer to one of these methods: an id may have been used twice, and one of the two was refused.
fn judge_answer(methods: &BTreeSet<String>, message: &Value) -> Result<(), String> {
    envelope(message)?;
    valid("RequestId", &message["id"])?;
    match (message.get("result"), message.get("error")) {
        (None, Some(error)) => valid("Error", error),
        (Some(result), None) => {
            let mut faults = Vec::new();
            for method in methods {
                match judge_result(method, result) {
                    Ok(()) => return Ok(()),
                    Err(fault) => faults.push(fault),
                }
            }
            match faults.is_empty() {
                true => Err("nobody has asked this".into()),
                false => Err(faults.join("; ")),
            }
        }
        _ => Err("an answer has either a result or an error".into()),
    }
}

fn judge_result(method: &str, result: &Value) -> Result<(), String> {
    // Extensions are between client and agent.
    if method.starts_with('_') {
        return Ok(());
    }
    if UNLISTED.contains(&method) {
        let fault = || format!("the result of {method} is no object");
        return result.as_object().map(|_| ()).ok_or_else(fault);
    }
    let name = SHAPES.named(method, "Response", &["agent"]);
    valid(
        name.ok_or_else(|| format!("the schema has no response to {method:?}"))?,
        result,
    )
}

fn envelope(message: &Value) -> Result<(), String> {
    match message["jsonrpc"] == "2.0" {
        true => Ok(()),
        false => Err("jsonrpc is not \"2.0\"".into()),
    }
}

fn valid(name: &str, value: &Value) -> Result<(), String> {
    let validator = SHAPES.validator(name);
    match validator.validate(value) {
        Ok(()) => Ok(()),
        Err(error) => Err(format!("{name}{}: {error}", error.instance_path())),
    }
}

/// The definitions of the schema, each compiled when it is needed first.
struct Shapes {
    definitions: Value,
    compiled: Mutex<HashMap<String, Arc<Validator>>>,
}

static SHAPES: LazyLock<Shapes> = LazyLock::new(|| {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(SCHEMA);
    let text = fs::read_to_string(&path).unwrap_or_else(|e| {
        panic!(
            "the protocol's schema is missing: {}: {e}. `make setup` installs it",
            path.display()
        )
    });
    let schema: Value = serde_json::from_str(&text).expect("the schema is JSON");
    Shapes {
        definitions: schema["$defs"].clone(),
        compiled: Mutex::default(),
    }
});

impl Shapes {
    /// The definition for a method, such as `PromptResponse` for `session/prompt` and `Response`.
    fn named(&self, method: &str, form: &str, sides: &[&str]) -> Option<&str> {
        let definitions = self.definitions.as_object().expect("definitions");
        let fits = |name: &str, definition: &Value| {
            let side = definition["x-side"].as_str().unwrap_or_default();
            definition["x-method"] == method && sides.contains(&side) && name.ends_with(form)
        };
        let mut names = definitions.iter().filter(|(name, d)| fits(name, d));
        names.next().map(|(name, _)| name.as_str())
    }

    fn validator(&self, name: &str) -> Arc<Validator> {
        let mut compiled = self.compiled.lock().expect("nobody panics with the lock");
        let compile = || {
            assert!(self.definitions.get(name).is_some(), "no definition {name}");
            let schema = json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "$ref": format!("#/$defs/{name}"), "$defs": self.definitions,
            });
            Arc::new(jsonschema::validator_for(&schema).expect("the schema is valid"))
        };
        compiled
            .entry(name.to_owned())
            .or_insert_with(compile)
            .clone()
    }
}
