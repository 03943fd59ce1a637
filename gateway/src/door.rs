//! Requests of the doors beside ACP's become ACP messages, on a connection of its own for
//! each request. So access, limits, audit and metrics are those of every message.

use baton_protocol::{ErrorCode, Inbound, PROTOCOL_VERSION, compose};
use baton_session::id::{ConnectionId, Partition};
use baton_session::token::ConnectionToken;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::access::{PresentedToken, RequestAccess};
use crate::auth::Caller;
use crate::error::{FaultKind, GatewayError, fault};
use crate::limits::LimitRefusal;
use crate::methods::{ClientMessage, DoorTerms, MethodOutcome, MethodServices, dispatch};

pub struct DoorCall<'a> {
    methods: &'a MethodServices,
    pub access: RequestAccess,
    /// As its client sent it, to be recognised.
    request: &'a [u8],
    over_bytes: Option<LimitRefusal>,
    /// A message was counted as the request of its caller.
    counted: bool,
}

impl<'a> DoorCall<'a> {
    /// With a key it is on the same connection when the request is made again.
    pub fn new(
        methods: &'a MethodServices,
        caller: &Caller,
        key: Option<&str>,
        request: &'a [u8],
        over_bytes: Option<LimitRefusal>,
    ) -> Self {
        let partitions = methods.store.partitions();
        let id = match key {
            None => ConnectionId::mint(Partition::random(partitions)),
            Some(key) => {
                let seed = format!("door\n{}\n{key}", caller.principal);
                let hash = Sha256::digest(&seed);
                let at = u16::from_be_bytes([hash[0], hash[1]]) % partitions.max(1);
                ConnectionId::derived(Partition(at), seed.as_bytes())
            }
        };
        Self {
            request,
            over_bytes,
            counted: false,
            ..Self::again(methods, caller, id)
        }
    }

    /// On the connection of an earlier request. It was counted already.
    pub fn again(methods: &'a MethodServices, caller: &Caller, id: ConnectionId) -> Self {
        let principal = &caller.principal;
        let issued = methods.issuer.revocations.issue_time(principal, None);
        let connection = ConnectionToken {
            id,
            principal: principal.to_string(),
            protocol_version: PROTOCOL_VERSION,
            client: Default::default(),
            agent: None,
            rights: caller.rights().mark(),
            issued,
            expires: u64::MAX,
        };
        let access = RequestAccess {
            connection,
            grant: PresentedToken::Absent,
            without_connection: false,
            caller: caller.clone(),
        };
        Self {
            methods,
            access,
            request: &[],
            over_bytes: None,
            counted: true,
        }
    }

    pub async fn request(
        &mut self,
        id: &str,
        method: &str,
        params: &Value,
    ) -> Result<MethodOutcome, GatewayError> {
        self.send(compose::request(id, method, params), self.terms())
            .await
    }

    /// `cut`: the child leaves its parent's log after this event.
    pub async fn fork(
        &mut self,
        params: &Value,
        cut: Option<u64>,
    ) -> Result<MethodOutcome, GatewayError> {
        let terms = DoorTerms {
            cut,
            ..self.terms()
        };
        self.send(compose::request("fork", "session/fork", params), terms)
            .await
    }

    pub async fn send(
        &mut self,
        message: Bytes,
        terms: DoorTerms<'_>,
    ) -> Result<MethodOutcome, GatewayError> {
        let inbound = Inbound::read(message)?;
        self.counted = true;
        let message = ClientMessage {
            inbound: &inbound,
            session_header: None,
            agent: self.access.connection.agent.as_deref(),
            one_shot: true,
            over_bytes: self.over_bytes,
            makes: None,
            door: Some(terms),
        };
        dispatch(self.methods, &self.access, message).await
    }

    pub fn terms(&self) -> DoorTerms<'a> {
        DoorTerms {
            request: self.request,
            counted: self.counted,
            at_rest: None,
            joins: false,
            cut: None,
        }
    }
}

#[derive(Deserialize)]
struct RpcAnswer {
    error: Option<RpcError>,
}

#[derive(Deserialize)]
pub struct RpcError {
    pub code: i64,
    pub message: String,
}

impl RpcError {
    /// Of a JSON-RPC answer, if it is one.
    pub fn of(answer: &[u8]) -> Option<Self> {
        let answer: RpcAnswer = serde_json::from_slice(answer).ok()?;
        answer.error
    }

    /// As an error of the whole request.
    pub fn into_fault(self) -> GatewayError {
        let (kind, code, param) = match ErrorCode::of(self.code) {
            Some(ErrorCode::IdReused) => (FaultKind::Invalid, "idempotency_key_reused", None),
            Some(ErrorCode::InvalidParams) => (FaultKind::Invalid, "invalid_value", Some("input")),
            Some(ErrorCode::NoAgent) => (FaultKind::NotFound, "model_not_found", Some("model")),
            Some(ErrorCode::ResourceNotFound) => (FaultKind::NotFound, "session_not_found", None),
            Some(ErrorCode::ObserveOnly) => (FaultKind::Forbidden, "observe_only", None),
            Some(ErrorCode::QueueFull) => (FaultKind::Busy, "queue_full", None),
            Some(ErrorCode::SessionClosed) => (FaultKind::Conflict, "session_closed", None),
            Some(ErrorCode::StoreFull) => (FaultKind::Full, "store_full", None),
            _ => (FaultKind::Failed, "server_error", None),
        };
        fault(kind, code, param, self.message)
    }

    /// As `error.code` of a response that failed.
    pub fn code_name(&self) -> &'static str {
        match ErrorCode::of(self.code) {
            Some(ErrorCode::InvalidParams | ErrorCode::InvalidRequest) => "invalid_prompt",
            Some(ErrorCode::NoWorker) => "no_worker",
            Some(ErrorCode::GivenUp) => "given_up",
            Some(ErrorCode::Interrupted) => "interrupted",
            Some(ErrorCode::AgentFailed) => "agent_failed",
            Some(ErrorCode::ModelFailed) => "model_error",
            _ => "server_error",
        }
    }
}

/// A message that did not lead to what was asked for.
pub fn refused(outcome: MethodOutcome) -> GatewayError {
    if let Some(refusal) = outcome.refusal() {
        return refusal.into();
    }
    let error = match outcome {
        MethodOutcome::Answer(answer) => RpcError::of(&answer.into_message()),
        _ => None,
    };
    match error {
        Some(error) => error.into_fault(),
        None => fault(
            FaultKind::Failed,
            "server_error",
            None,
            "the request was lost",
        ),
    }
}
