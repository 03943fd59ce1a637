//! The yardstick: the official in-memory `AcpHttpServer` with an agent in the same process.
//!
//! The agent understands the one directive the benchmark sends, `/count N [delay=MS] [size=BYTES]`,
//! the same way Baton's scripted agent does, so one prompt drives both.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    AgentCapabilities, ContentBlock, ContentChunk, InitializeRequest, InitializeResponse,
    NewSessionRequest, NewSessionResponse, PromptRequest, PromptResponse, SessionId,
    SessionNotification, SessionUpdate, StopReason,
};
use agent_client_protocol::{Agent, Client, ConnectTo, Error, on_receive_request};
use agent_client_protocol_http::AcpHttpServer;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;

use crate::count::Count;

pub async fn serve(listener: TcpListener) -> anyhow::Result<()> {
    let sessions = Sessions::default();
    let router = AcpHttpServer::new(move || agent(sessions.clone())).into_router();
    // axum leaves TCP_NODELAY off, which would cost the official server 44 ms per prompt on WebSocket.
    let listener = listener.tap_io(|socket| {
        let _ = socket.set_nodelay(true);
    });
    axum::serve(listener, router).await?;
    Ok(())
}

fn agent(sessions: Sessions) -> impl ConnectTo<Client> {
    let opened = sessions.clone();
    Agent
        .v1()
        .on_receive_request(
            async |_: InitializeRequest, responder, _cx| {
                responder.respond(
                    InitializeResponse::new(ProtocolVersion::V1)
                        .agent_capabilities(AgentCapabilities::new()),
                )
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |_: NewSessionRequest, responder, _cx| {
                responder.respond(NewSessionResponse::new(opened.open()))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: PromptRequest, responder, cx: ConnectionTo<Client>| {
                let (count, prompt) = (directive(&request)?, sessions.next(&request.session_id));
                let Some(delay) = count.delay else {
                    for k in 1..=count.chunks {
                        send(&cx, &request.session_id, count.text(k, prompt))?;
                    }
                    return responder.respond(PromptResponse::new(StopReason::EndTurn));
                };
                // A handler that sleeps would hold up the connection's other messages.
                cx.clone().spawn(async move {
                    pace(&cx, &request.session_id, count, delay, prompt).await?;
                    responder.respond(PromptResponse::new(StopReason::EndTurn))
                })
            },
            on_receive_request!(),
        )
}

async fn pace(
    cx: &ConnectionTo<Client>,
    session: &SessionId,
    count: Count,
    delay: Duration,
    prompt: u64,
) -> Result<(), Error> {
    for k in 1..=count.chunks {
        if k > 1 {
            tokio::time::sleep(delay).await;
        }
        send(cx, session, count.text(k, prompt))?;
    }
    Ok(())
}

fn send(cx: &ConnectionTo<Client>, session: &SessionId, text: String) -> Result<(), Error> {
    let chunk = ContentChunk::new(ContentBlock::from(text));
    cx.send_notification(SessionNotification::new(
        session.clone(),
        SessionUpdate::AgentMessageChunk(chunk),
    ))
}

fn directive(request: &PromptRequest) -> Result<Count, Error> {
    request
        .prompt
        .iter()
        .find_map(|block| match block {
            ContentBlock::Text(text) => Count::parse(&text.text),
            _ => None,
        })
        .ok_or_else(|| Error::invalid_params().data("send /count N [delay=MS] [size=BYTES]"))
}

/// How many prompts each session has had.
#[derive(Clone, Default)]
struct Sessions {
    opened: Arc<AtomicU64>,
    prompts: Arc<Mutex<HashMap<SessionId, u64>>>,
}

impl Sessions {
    fn open(&self) -> SessionId {
        let number = self.opened.fetch_add(1, Ordering::Relaxed) + 1;
        SessionId::new(format!("session-{number:012}"))
    }

    fn next(&self, session: &SessionId) -> u64 {
        let mut prompts = self.prompts.lock().expect("nothing panics under this lock");
        let count = prompts.entry(session.clone()).or_default();
        *count += 1;
        *count
    }
}
