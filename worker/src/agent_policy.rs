//! Decides which parts of client messages reach an agent: the fields and methods of the protocol,
//! and those that the operator allows beyond them. Agents accept options in `_meta` and in methods
//! of their own that let a sender run commands (see docs/security/agent-messages.md), so both are
//! closed by default. [`AgentMessage`] and [`AgentAnswer`] are only constructed here, and nothing
//! else is written to an agent: a path that skips the policy does not compile.

use std::borrow::Cow;

use baton_protocol::address::readdress_params;
use baton_protocol::{ErrorCode, Method, compose, meta};
use baton_session::metrics::LabeledCounter;
use bytes::Bytes;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use self::member_filter::MemberFilter;
pub use self::pattern::NamePattern;
use crate::mcp::AdmittedServer;
use crate::rpc::{Failure, raw};

mod client_capabilities;
mod member_filter;
mod pattern;
#[cfg(test)]
mod tests;

/// ACP keeps these names in `_meta` for W3C's trace context.
const TRACE_CONTEXT: [&str; 3] = [meta::TRACE_PARENT, meta::TRACE_STATE, "baggage"];
/// The params of `session/new` in the protocol, beside `_meta`.
const OPENING: &[&str] = &["cwd", "mcpServers", "additionalDirectories", "systemPrompt"];
/// Of a method's name, as much as is repeated in an error.
const NAME_SHOWN: usize = 100;

#[derive(Clone, Debug, Default)]
pub struct AgentPolicy {
    /// Fields of `_meta` that pass beside trace context: `--allow-agent-meta`.
    pub meta: Vec<NamePattern>,
    /// Methods that pass beside the protocol's: `--allow-agent-methods`.
    pub methods: Vec<NamePattern>,
    /// Fields of params that the protocol does not name pass, too.
    pub unknown_fields: bool,
    /// Counts what did not pass.
    pub withheld: LabeledCounter,
}

/// A call or a notification that an agent may get.
#[derive(Clone, Debug)]
pub struct AgentMessage {
    method: Cow<'static, str>,
    params: Box<RawValue>,
}

/// An answer that an agent may get.
#[derive(Clone, Debug)]
pub struct AgentAnswer(Result<Box<RawValue>, Failure>);

/// The fields with which a session is opened at its agent.
pub(crate) struct OpeningFields<'a> {
    /// The params of the client's `session/new`, as they were stored.
    pub stored: &'a [u8],
    pub cwd: &'a str,
    /// Those that were admitted.
    pub servers: &'a [AdmittedServer],
    pub directories: Value,
    /// The agent's name for the session, if it has had it before.
    pub session: Option<&'a str>,
}

impl AgentPolicy {
    /// As an editor would that has started the agent itself.
    pub fn open() -> Self {
        let all = || vec![NamePattern::any()];
        Self {
            meta: all(),
            methods: all(),
            unknown_fields: true,
            withheld: LabeledCounter::default(),
        }
    }

    /// Filters a client's call, or refuses it with an error that names the option.
    pub(crate) fn message(&self, method: &str, params: &RawValue) -> Result<AgentMessage, Failure> {
        let fields = fields(method);
        if fields.is_none() && !self.methods.iter().any(|pattern| pattern.fits(method)) {
            self.withhold("method");
            return Err(refused(method));
        }
        if fields.is_some() && !params.get().starts_with('{') {
            return Err(Failure::invalid_params("params must be an object"));
        }
        let sieve = MemberFilter {
            policy: self,
            fields: fields.filter(|_| !self.unknown_fields),
            shallow: Method::of(method) == Method::McpMessage,
        };
        let params = sieve.pass(params);
        let params = params.map_err(|error| {
            Failure::invalid_params(format!("params cannot be passed to the agent: {error}"))
        })?;
        Ok(AgentMessage {
            method: method.to_owned().into(),
            params,
        })
    }

    /// How a session is opened or brought back, made of the fields that the protocol has for it.
    pub(crate) fn opening(
        &self,
        method: Method,
        opened: OpeningFields<'_>,
    ) -> Result<AgentMessage, Failure> {
        let unreadable =
            |error| Failure::internal(format!("the session's params cannot be read: {error}"));
        let stored: &RawValue = serde_json::from_slice(opened.stored).unwrap_or(RawValue::NULL);
        let sieve = MemberFilter {
            policy: self,
            fields: (!self.unknown_fields).then_some(OPENING),
            shallow: false,
        };
        let stored = sieve.pass(stored).map_err(unreadable)?;
        let mut params: Value = serde_json::from_str(stored.get()).map_err(unreadable)?;
        if !params.is_object() {
            params = json!({});
        }
        params["cwd"] = json!(opened.cwd);
        params["mcpServers"] = json!(opened.servers);
        let directories = opened.directories.as_array().into_iter().flatten();
        let directories: Vec<&str> = directories.filter_map(Value::as_str).collect();
        if directories.is_empty() {
            drop(
                params
                    .as_object_mut()
                    .and_then(|all| all.remove("additionalDirectories")),
            )
        } else {
            params["additionalDirectories"] = json!(directories)
        }
        match opened.session {
            Some(session) => params["sessionId"] = json!(session),
            None => drop(
                params
                    .as_object_mut()
                    .and_then(|all| all.remove("sessionId")),
            ),
        }
        Ok(AgentMessage::own(method, &params))
    }

    /// An MCP server as a client has written it.
    pub(crate) fn server(&self, entry: &RawValue) -> Result<Box<RawValue>, Failure> {
        let sieve = MemberFilter {
            policy: self,
            fields: None,
            shallow: false,
        };
        let passed = sieve.pass(entry);
        passed.map_err(|error| Failure::invalid_params(format!("params.mcpServers: {error}")))
    }

    /// A client's answer to what the agent asked by this method.
    pub(crate) fn answer(
        &self,
        method: &str,
        reply: Result<Box<RawValue>, Failure>,
    ) -> AgentAnswer {
        let sieve = MemberFilter {
            policy: self,
            fields: None,
            shallow: Method::of(method) == Method::McpMessage,
        };
        let unreadable =
            |error| Failure::internal(format!("the client's answer cannot be passed on: {error}"));
        AgentAnswer(match reply {
            Ok(result) => sieve.pass(&result).map_err(unreadable),
            Err(failure) => Err(Failure {
                data: failure.data.and_then(|data| {
                    let passed = sieve.pass(&to_raw_value(&data).ok()?).ok()?;
                    serde_json::from_str(passed.get()).ok()
                }),
                ..failure
            }),
        })
    }

    /// Whether a field of `_meta` passes.
    fn meta(&self, name: &str, value: &RawValue) -> bool {
        // An agent believes that Baton wrote these, so no client does.
        if name.starts_with(meta::PREFIX) {
            return false;
        }
        // Trace context is text. Anything else by its name is something else.
        (TRACE_CONTEXT.contains(&name) && value.get().starts_with('"'))
            || self.meta.iter().any(|pattern| pattern.fits(name))
    }

    fn withhold(&self, what: &'static str) {
        self.withheld.get_or_create(&[("what", what)]).inc();
    }
}

/// The fields that a method's params have in the protocol, beside `_meta`; `None` for methods that
/// are not the protocol's, or that are not a client's to call here.
fn fields(method: &str) -> Option<&'static [&'static str]> {
    Some(match Method::of(method) {
        Method::Prompt => &["sessionId", "prompt"],
        Method::SetMode => &["sessionId", "modeId"],
        Method::SetConfigOption => &["sessionId", "configId", "type", "value"],
        Method::SetModel => &["sessionId", "modelId"],
        Method::Authenticate => &["methodId"],
        Method::Logout => &[],
        Method::McpMessage => &["serverId", "requestId", "method", "params"],
        _ => return None,
    })
}

fn refused(method: &str) -> Failure {
    let shown: String = method.chars().take(NAME_SHOWN).collect();
    Failure::new(
        ErrorCode::MethodNotFound,
        format!(
            "method {shown:?} does not reach the agent: the worker's --allow-agent-methods does \
             not name it"
        ),
    )
}

impl AgentMessage {
    /// Our own words. Nothing of a client's goes in here unless it was looked at.
    pub(crate) fn own(method: Method, params: &Value) -> Self {
        Self {
            method: method.name().into(),
            params: raw(params),
        }
    }

    pub fn method(&self) -> &str {
        &self.method
    }

    pub fn params(&self) -> &RawValue {
        &self.params
    }

    /// With another `sessionId`, every other byte as it was.
    pub(crate) fn addressed_to(&self, session: &str) -> Self {
        Self {
            method: self.method.clone(),
            params: readdress_params(&self.params, session),
        }
    }

    /// A prompt with what the agent has to know beside the client's words. The context goes before
    /// everything else, and says of itself what it is.
    pub(crate) fn with_context(&self, context: Option<String>, bound: Option<Value>) -> Self {
        if context.is_none() && bound.is_none() {
            return self.clone();
        }
        let mut changed: Value = serde_json::from_str(self.params.get()).unwrap_or_default();
        if let Some(bound) = bound {
            // A client's `_meta` that passed the filter is an object or absent.
            changed["_meta"][meta::BOUND] = bound;
        }
        if let (Some(context), Some(blocks)) = (context, changed["prompt"].as_array_mut()) {
            let block = json!({
                "type": "text",
                "text": context,
                "annotations": { "audience": ["assistant"] },
                "_meta": { meta::TRANSCRIPT: true },
            });
            blocks.insert(0, block);
        }
        Self {
            method: self.method.clone(),
            params: raw(&changed),
        }
    }
}

impl AgentAnswer {
    /// Our own, instead of a client's.
    pub(crate) fn own(reply: Result<Value, Failure>) -> Self {
        Self(reply.map(|result| raw(&result)))
    }

    /// The members of a JSON-RPC response.
    /// For the agent that has asked. The id is JSON.
    pub(crate) fn message(&self, id: &str) -> Bytes {
        match &self.0 {
            Ok(result) => compose::result(id, result.get().as_bytes()),
            Err(failure) => failure.answer(id),
        }
    }
}
