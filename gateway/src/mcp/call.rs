//! One request of an MCP client, with all that decides how it is carried out. Nothing of it
//! outlives the request.

use std::sync::Arc;

use baton_protocol::{Envelope, Inbound, Method, compose};
use baton_session::command::IdempotencyKey;
use baton_session::event::Event;
use baton_session::id::{ConnectionId, SessionId};
use serde_json::{Map, Value, json};

use super::fault::{AcpRefusal, CallError, RpcFault};
use super::revision::McpRevision;
use crate::access::RequestAccess;
use crate::limits::LimitRefusal;
use crate::methods::{ClientMessage, MethodOutcome, MethodServices, dispatch};
use crate::stream::StreamServices;
use crate::stream::one_shot::FollowedRequest;

/// All that the door needs of its gateway.
pub struct McpServices {
    pub methods: Arc<MethodServices>,
    pub streams: Arc<StreamServices>,
    pub options: McpDoorOptions,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpDoorOptions {
    /// Where the address does not say.
    pub scope: ConversationScope,
    /// The directory of sessions that are started without one.
    pub cwd: String,
}

impl Default for McpDoorOptions {
    fn default() -> Self {
        Self {
            scope: ConversationScope::Connection,
            cwd: "/".into(),
        }
    }
}

/// Which session a call is about that names none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConversationScope {
    /// The last that its MCP session has started.
    Connection,
    /// One of its own, which is gone with its answer.
    Request,
    /// The principal's one, by each agent.
    Shared,
}

impl ConversationScope {
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "connection" => Some(Self::Connection),
            "request" => Some(Self::Request),
            "shared" => Some(Self::Shared),
            _ => None,
        }
    }
}

/// What the client can do, as far as it matters here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct McpClient {
    /// Its user can be asked with a form.
    pub elicits: bool,
    /// It takes a task for an answer.
    pub takes_tasks: bool,
}

impl McpClient {
    pub fn of(capabilities: &Value) -> Self {
        let elicitation = &capabilities["elicitation"];
        let form = elicitation["form"].is_object() || elicitation.get("url").is_none();
        Self {
            elicits: elicitation.is_object() && form,
            takes_tasks: capabilities["extensions"][super::tools::TASKS].is_object(),
        }
    }
}

#[derive(Clone)]
pub struct McpClientCall {
    pub services: Arc<McpServices>,
    pub access: RequestAccess,
    /// The connection that its MCP session stands for; that of the call may be another.
    pub mcp_session: ConnectionId,
    pub revision: McpRevision,
    pub scope: ConversationScope,
    pub client: McpClient,
    /// The agent that the path names.
    pub agent: Option<Arc<str>>,
    /// Its id, as it was written.
    pub id: Arc<str>,
    pub over_bytes: Option<LimitRefusal>,
}

/// Bytes of a request id, as it is written: it is repeated in names of turns and events.
pub const MAX_ID: usize = 256;

impl McpClientCall {
    /// The id of a message that this request becomes. The same request, repeated, becomes the same
    /// messages.
    pub fn step_id(&self, step: &str) -> String {
        format!("mcp {step} {}", self.id)
    }

    /// Sends a request of ACP on behalf of the client.
    pub async fn send(
        &self,
        step: &str,
        method: Method,
        params: Value,
    ) -> Result<MethodOutcome, CallError> {
        let message = compose::request(self.step_id(step), method.name(), params);
        self.dispatch(Inbound::read(message)?, None, None).await
    }

    /// A notification, or an answer to the agent.
    pub async fn tell(&self, message: bytes::Bytes) -> Result<(), CallError> {
        let outcome = self.dispatch(Inbound::read(message)?, None, None).await?;
        if let MethodOutcome::Answer(answer) = outcome {
            read_answer(&answer.into_message())?;
        }
        Ok(())
    }

    /// `session/new`, by an agent and perhaps with an id that is settled.
    pub async fn create(
        &self,
        agent: Option<&str>,
        cwd: &str,
        makes: Option<&SessionId>,
    ) -> Result<SessionId, CallError> {
        let params = json!({ "cwd": cwd, "mcpServers": [] });
        let message = compose::request(self.step_id("new"), Method::NewSession.name(), params);
        let outcome = self.dispatch(Inbound::read(message)?, agent, makes).await?;
        let session = followed(outcome)?.session;
        self.note_started(&session).await?;
        Ok(session)
    }

    /// Where the MCP session finds what it has started last. A call on its own connection has noted
    /// it there already.
    async fn note_started(&self, session: &SessionId) -> Result<(), CallError> {
        let own = &self.access.connection.id;
        if self.revision.is_sessionless() || *own == self.mcp_session {
            return Ok(());
        }
        let started = Event::Watch {
            session: session.clone(),
            after: 0,
        };
        let key = IdempotencyKey::of(&self.mcp_session, Some(own.as_str()), b"");
        let store = &self.services.methods.store;
        store.post(&self.mcp_session, started, &key).await?;
        Ok(())
    }

    async fn dispatch(
        &self,
        inbound: Inbound,
        agent: Option<&str>,
        makes: Option<&SessionId>,
    ) -> Result<MethodOutcome, CallError> {
        let message = ClientMessage {
            inbound: &inbound,
            session_header: None,
            agent: agent.or(self.agent.as_deref()),
            one_shot: true,
            over_bytes: self.over_bytes,
            makes,
            door: None,
        };
        Ok(dispatch(&self.services.methods, &self.access, message).await?)
    }

    /// Sends a request that is answered at once.
    pub async fn ask(&self, step: &str, method: Method, params: Value) -> Result<Value, CallError> {
        match self.send(step, method, params).await? {
            MethodOutcome::Answer(answer) => read_answer(&answer.into_message()),
            _ => Err(RpcFault::internal("there is no answer yet").into()),
        }
    }

    /// One that a session's log will answer.
    pub async fn follow(
        &self,
        step: &str,
        method: Method,
        params: Value,
    ) -> Result<FollowedRequest, CallError> {
        followed(self.send(step, method, params).await?)
    }

    /// Counts a request that becomes no message of ACP.
    pub fn count(&self) -> Result<(), CallError> {
        let allowance = self.access.caller.allowance.as_ref();
        let refusal = self.over_bytes;
        let refusal = refusal.or_else(|| allowance.and_then(|it| it.request()));
        refusal.map_or(Ok(()), |refusal| {
            self.services.methods.metrics.limited(refusal.limit);
            Err(CallError::limited(refusal))
        })
    }
}

fn followed(outcome: MethodOutcome) -> Result<FollowedRequest, CallError> {
    match outcome {
        MethodOutcome::Follow(follow) | MethodOutcome::Created(follow) => Ok(follow),
        MethodOutcome::Answer(answer) => {
            read_answer(&answer.into_message())?;
            Err(RpcFault::internal("answered before it was done").into())
        }
        MethodOutcome::Taken | MethodOutcome::Attached(..) => {
            Err(RpcFault::internal("nothing to follow").into())
        }
    }
}

/// The result of an answer in ACP.
fn read_answer(message: &[u8]) -> Result<Value, CallError> {
    let unreadable = || CallError::from(RpcFault::internal("an answer cannot be read"));
    let answer = Envelope::read(message).map_err(|_| unreadable())?;
    if let Some(error) = answer.error {
        let refusal: AcpRefusal = serde_json::from_str(error.get()).map_err(|_| unreadable())?;
        return Err(CallError::Refused(refusal));
    }
    let result = answer.result.map_or("null", |result| result.get());
    serde_json::from_str(result).map_err(|_| unreadable())
}

/// The fields of `_meta` that carry a trace, for the agent.
pub fn trace_meta(meta: &Map<String, Value>) -> Value {
    let carried = ["traceparent", "tracestate", "baggage"].into_iter();
    let carried = carried.filter_map(|name| Some((name.to_owned(), meta.get(name)?.clone())));
    Value::Object(carried.collect())
}
