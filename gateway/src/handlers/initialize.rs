//! `initialize` opens a connection. The gateway answers it alone, from what workers have
//! registered.

use agent_client_protocol_schema::v1;
use baton_protocol::{ErrorCode, Inbound, PROTOCOL_VERSION, compose, meta};
use baton_session::audit::{Decision, DecisionOutcome};
use baton_session::command::ClientCapabilities;
use baton_session::id::{ConnectionId, Partition};
use baton_session::secret::Secret;
use baton_session::store;
use baton_session::token::{CONNECTION_LIFETIME, ConnectionToken};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

use super::client_description;
use crate::agents::{self, MissingAgent};
use crate::app::App;
use crate::auth::Caller;
use crate::limits::LimitRefusal;

pub struct InitializeReply {
    pub connection: ConnectionToken,
    pub token: Secret,
    /// The JSON-RPC answer, which may be an error; the connection exists all the same.
    pub answer: Bytes,
    /// The caller has to wait before it tries again.
    pub refusal: Option<LimitRefusal>,
}

/// `agent` is the one that the path names. `socket` continues a connection that a WebSocket upgrade
/// has opened, `over_bytes` says that too much has come of this caller.
pub async fn initialize(
    app: &App,
    caller: &Caller,
    message: &Inbound,
    agent: Option<&str>,
    socket: Option<SocketConnection>,
    over_bytes: Option<LimitRefusal>,
) -> store::Result<InitializeReply> {
    let params = serde_json::from_str::<InitializeParams>(message.params());
    let said = params.as_ref().ok();
    let said = said.and_then(|params| params.client_capabilities.as_ref());
    let client = said.and_then(|said| v1::ClientCapabilities::deserialize(said).ok());
    let client = client.as_ref().map(capabilities).unwrap_or_default();
    let socket = socket.unwrap_or_else(|| SocketConnection {
        id: ConnectionId::mint(Partition::random(app.store.partitions())),
        issued: app.issuer.revocations.issue_time(&caller.principal, None),
        resumable: false,
    });
    let request = message.id().unwrap_or("null");
    let refusal = over_bytes.or_else(|| caller.allowance.as_ref()?.request());
    let directory;
    let chosen = if let Some(refusal) = &refusal {
        app.metrics.limited(refusal.limit);
        Err(refusal.answer(request))
    } else if params.is_err() {
        let text = "params.protocolVersion must be a number: send 1";
        Err(compose::error(request, ErrorCode::InvalidParams, text))
    } else {
        directory = app.agents.directory(caller.rights()).await?;
        let chosen = directory.choose(agent);
        chosen.map_err(|MissingAgent(text)| compose::error(request, ErrorCode::NoAgent, &text))
    };
    let connection = ConnectionToken {
        id: socket.id,
        principal: caller.principal.to_string(),
        protocol_version: PROTOCOL_VERSION,
        client,
        agent: chosen.as_ref().ok().map(|card| card.name.clone()),
        rights: caller.rights().mark(),
        issued: socket.issued,
        expires: 0,
    };
    let outcome = match &connection.agent {
        Some(_) => DecisionOutcome::Done,
        None => DecisionOutcome::Refused,
    };
    app.audit
        .record_outcome(caller, Some(&connection.id), outcome, || {
            let agent = connection.agent.as_ref().map(Into::into);
            Decision::ConnectionOpened { agent }
        });
    let token = app
        .issuer
        .keys
        .ring()
        .sign_connection(&connection, CONNECTION_LIFETIME);
    if let (Ok(_), Ok(params)) = (&chosen, &params) {
        describe(app, &connection, params).await?;
    }
    let answer = chosen.map(|card| {
        let terminal = said.is_some_and(client_description::logs_in_by_terminal);
        let mut result = agents::initialized(card, PROTOCOL_VERSION, terminal);
        if socket.resumable {
            result["_meta"][meta::CONNECTION] = json!({ "token": token.expose() });
        }
        compose::result(request, result.to_string().as_bytes())
    });
    Ok(InitializeReply {
        connection,
        token,
        answer: answer.unwrap_or_else(|error| error),
        refusal,
    })
}

/// The context of a WebSocket's `initialize`.
pub struct SocketConnection {
    pub id: ConnectionId,
    /// When it was opened, in seconds since 1970.
    pub issued: u64,
    pub resumable: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InitializeParams {
    #[serde(rename = "protocolVersion")]
    _protocol_version: u64,
    client_capabilities: Option<Value>,
    client_info: Option<Value>,
}

/// Keeps what the client says of itself, for workers.
async fn describe(
    app: &App,
    connection: &ConnectionToken,
    params: &InitializeParams,
) -> store::Result<()> {
    let (capabilities, info) = (&params.client_capabilities, &params.client_info);
    let Some(described) = client_description::describe(capabilities.as_ref(), info.as_ref()) else {
        return Ok(());
    };
    let kept = app.store.describe_client(&connection.id, &described).await;
    kept.or_else(|error| match error {
        store::Error::Unavailable(_) => Err(error),
        store::Error::Broken(_) => {
            tracing::warn!(
                %error,
                "a client's description cannot be kept: its agents get the capabilities of its \
                 token"
            );
            Ok(())
        }
    })
}

fn capabilities(client: &v1::ClientCapabilities) -> ClientCapabilities {
    let options = client
        .session
        .as_ref()
        .and_then(|session| session.config_options.as_ref());
    ClientCapabilities {
        read_file: client.fs.read_text_file,
        write_file: client.fs.write_text_file,
        terminal: client.terminal,
        elicitation: client
            .elicitation
            .as_ref()
            .is_some_and(|elicitation| elicitation.form.is_some()),
        url_elicitation: client
            .elicitation
            .as_ref()
            .is_some_and(|elicitation| elicitation.url.is_some()),
        boolean_options: options.is_some(),
        turn_notices: client.meta.as_ref().is_some_and(asks_for_turns),
    }
}

fn asks_for_turns(said: &serde_json::Map<String, Value>) -> bool {
    said.get(meta::TURNS).is_some_and(|asked| asked == true)
}
