//! The session that a call is about: the one it names, that of its session token, or what the scope
//! of the endpoint says. And whether the caller may read it.

use baton_protocol::{ErrorCode, Method};
use baton_session::audit::Decision;
use baton_session::event::Event;
use baton_session::id::{LogId, Partition, SessionId};
use baton_session::store::SessionRecord;
use baton_session::token::ConnectionToken;
use serde_json::json;

use super::call::{ConversationScope, McpClientCall};
use super::fault::{CallError, unknown_session};
use crate::access::PresentedToken;
use crate::agents::MissingAgent;

/// Entries of an outbox in which the last session is looked for.
const LOOKED_BACK: u64 = 256;

const NAME_ONE: &str = "say which session: pass its handle as session. list_sessions has yours";
const NONE_KEPT: &str = "this endpoint keeps no sessions (scope=request): start has one for each \
    call, and no other tool finds it";

/// As the caller names it; whether there is one is for the next step to say.
pub async fn resolve(call: &McpClientCall, named: Option<String>) -> Result<String, CallError> {
    if let Some(named) = named {
        return Ok(named);
    }
    if let PresentedToken::Valid(grant) = &call.access.grant {
        return Ok(grant.session.to_string());
    }
    match call.scope {
        ConversationScope::Request => Err(CallError::Tool(NONE_KEPT.into())),
        ConversationScope::Shared => Ok(shared(call, None).await?.0.to_string()),
        ConversationScope::Connection => match last_started(call).await? {
            Some(session) => Ok(session.to_string()),
            None => Err(CallError::Tool(NAME_ONE.into())),
        },
    }
}

/// The outbox of the connection tells which sessions it has started.
async fn last_started(call: &McpClientCall) -> Result<Option<SessionId>, CallError> {
    if call.revision.is_sessionless() {
        return Ok(None);
    }
    let store = &call.services.methods.store;
    let outbox = LogId::Outbox(call.mcp_session.clone());
    let head = store.heads(std::slice::from_ref(&outbox)).await?[0];
    let (mut next, mut last) = (head.saturating_sub(LOOKED_BACK) + 1, None);
    while next <= head {
        let frames = store.read(&outbox, next, 64).await?;
        let Some(end) = frames.last().map(|frame| frame.last()) else {
            break;
        };
        for (_, event) in frames.iter().flat_map(|frame| frame.numbered()) {
            if let Event::Watch { session, .. } = event {
                last = Some(session.clone());
            }
        }
        next = end + 1;
    }
    Ok(last)
}

/// The principal's one, and whether there is one by now.
pub async fn shared(
    call: &McpClientCall,
    agent: Option<&str>,
) -> Result<(SessionId, bool), CallError> {
    let methods = &call.services.methods;
    let named = agent.or(call.agent.as_deref());
    let directory = methods
        .agents
        .directory(call.access.caller.rights())
        .await?;
    let card = directory.choose(named);
    let card = card.map_err(|MissingAgent(text)| CallError::Tool(text))?;
    let principal = &call.access.caller.principal;
    let seed = format!("{principal}\nshared over MCP\n{}", card.name);
    let partition = Partition::derived(seed.as_bytes(), methods.store.partitions());
    let session = SessionId::derived(partition, seed.as_bytes());
    let exists = methods.store.record(&session, principal).await?.is_some();
    Ok((session, exists))
}

/// The session, for somebody who may read it.
pub async fn readable(
    call: &McpClientCall,
    named: &str,
) -> Result<(SessionId, SessionRecord), CallError> {
    let unknown = || unknown_session(named);
    let granted = match &call.access.grant {
        PresentedToken::Absent => None,
        PresentedToken::Invalid => return Err(unknown()),
        PresentedToken::Valid(grant) => Some(grant.session.as_str()),
    };
    let session = SessionId::parse(named).ok_or_else(unknown)?;
    if granted.is_some_and(|granted| granted != named) || is_revoked(call, &session) {
        return Err(unknown());
    }
    let principal = &call.access.connection.principal;
    let record = call.services.methods.store.record(&session, principal);
    let record = record.await?.ok_or_else(unknown)?;
    if call.access.caller.rights().allow(&record.agent) {
        Ok((session, record))
    } else {
        Err(unknown())
    }
}

fn is_revoked(call: &McpClientCall, session: &SessionId) -> bool {
    let ConnectionToken {
        id,
        principal,
        issued,
        ..
    } = &call.access.connection;
    let revocations = &call.services.methods.issuer.revocations;
    revocations.is_revoked(principal, Some((id, *issued)), Some((session, *issued)))
}

/// For the audit log: what was said in the session goes out.
pub fn record_read(call: &McpClientCall, session: &SessionId) {
    let (caller, id) = (&call.access.caller, &call.access.connection.id);
    let audit = &call.services.methods.audit;
    audit.record_done(caller, Some(id), || Decision::SessionLoaded {
        session: session.clone(),
        observe: true,
    });
}

/// Carries a step out once more if the session was closed, with the session open.
pub async fn reopen(call: &McpClientCall, error: CallError, named: &str) -> Result<(), CallError> {
    match &error {
        CallError::Refused(refusal) if refusal.is(ErrorCode::SessionClosed) => {
            let (session, record) = readable(call, named).await?;
            let params = json!({ "sessionId": session, "cwd": record.cwd });
            call.send("resume", Method::ResumeSession, params).await?;
            Ok(())
        }
        CallError::Refused(refusal) if refusal.is(ErrorCode::ResourceNotFound) => {
            Err(unknown_session(named))
        }
        _ => Err(error),
    }
}
