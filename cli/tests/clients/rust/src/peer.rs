//! A connection of the official Rust SDK, unmodified.

use std::sync::{Arc, Mutex};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    CancelNotification, CloseSessionRequest, ContentBlock, DeleteSessionRequest,
    ForkSessionRequest, InitializeRequest, ListSessionsRequest, LoadSessionRequest,
    LoadSessionResponse, NewSessionRequest, NewSessionResponse, PermissionOptionKind,
    PromptRequest, RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    ResumeSessionRequest, ResumeSessionResponse, SelectedPermissionOutcome, SessionConfigId,
    SessionConfigOption, SessionConfigValueId, SessionId, SessionNotification, SessionUpdate,
    SetSessionConfigOptionRequest, SetSessionModeRequest, StopReason, TextContent,
};
use agent_client_protocol::{Agent, Client, on_receive_notification, on_receive_request};
use agent_client_protocol_http::HttpClient;
use anyhow::{Context, Result, ensure};
use tokio::sync::watch;

use crate::checks::ensure_equal;
use crate::turns::{Turn, chunk_texts};

const CWD: &str = "/tmp";

/// One SDK connection, and everything the agent sent over it.
pub struct Peer {
    pub agent: ConnectionTo<Agent>,
    updates: watch::Sender<Vec<SessionUpdate>>,
    permissions: Arc<Mutex<Vec<RequestPermissionRequest>>>,
}

/// Opens a transport, runs `body` over it and closes it.
pub async fn with_peer<R>(url: &str, body: impl AsyncFnOnce(Peer) -> Result<R>) -> Result<R> {
    let updates = watch::Sender::new(Vec::new());
    let permissions = Arc::new(Mutex::new(Vec::new()));
    Client
        .v1()
        .name("baton-scenario")
        .on_receive_notification(
            {
                let updates = updates.clone();
                async move |notification: SessionNotification, _agent| {
                    updates.send_modify(|seen| seen.push(notification.update));
                    Ok(())
                }
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            {
                let permissions = permissions.clone();
                async move |request: RequestPermissionRequest, responder, _agent| {
                    let outcome = allow_once(&request);
                    permissions.lock().unwrap().push(request);
                    responder.respond(RequestPermissionResponse::new(
                        outcome.unwrap_or(RequestPermissionOutcome::Cancelled),
                    ))
                }
            },
            on_receive_request!(),
        )
        .connect_with(HttpClient::with_endpoint(url)?, async |agent| {
            let peer = Peer {
                agent,
                updates,
                permissions,
            };
            Ok(body(peer).await)
        })
        .await
        .context("the transport failed")?
}

impl Peer {
    pub async fn initialize(&self) -> Result<()> {
        let request = InitializeRequest::new(ProtocolVersion::V1);
        let answer = self.agent.send_request(request).block_task().await?;
        ensure_equal(
            &answer.protocol_version,
            &ProtocolVersion::V1,
            "protocolVersion",
        )?;
        ensure!(
            answer.agent_capabilities.load_session,
            "no agentCapabilities.loadSession"
        );
        Ok(())
    }

    pub async fn new_session(&self) -> Result<NewSessionResponse> {
        let request = NewSessionRequest::new(CWD);
        let session = self.agent.send_request(request).block_task().await?;
        ensure!(!session.session_id.0.is_empty(), "sessionId is empty");
        Ok(session)
    }

    /// Runs a turn, notes it in `live` for the comparison with the replay, and returns how it
    /// stopped and its chunks. A straggler of the turn before would count as a chunk of this one
    /// and so be noticed.
    pub async fn turn(
        &self,
        session: &SessionId,
        text: &str,
        live: &mut Vec<Turn>,
    ) -> Result<(StopReason, Vec<String>)> {
        let stop = self.prompt(session, text).await?;
        let chunks = self.take_chunks();
        live.push(Turn {
            user: text.to_owned(),
            agent: chunks.concat(),
        });
        Ok((stop, chunks))
    }

    pub async fn prompt(&self, session: &SessionId, text: &str) -> Result<StopReason> {
        let text = ContentBlock::Text(TextContent::new(text));
        let request = PromptRequest::new(session.clone(), vec![text]);
        Ok(self
            .agent
            .send_request(request)
            .block_task()
            .await?
            .stop_reason)
    }

    pub async fn cancel_after_chunks(&self, session: &SessionId, count: usize) -> Result<()> {
        let mut updates = self.updates.subscribe();
        updates
            .wait_for(|seen| chunk_texts(seen).count() >= count)
            .await?;
        self.agent
            .send_notification(CancelNotification::new(session.clone()))?;
        Ok(())
    }

    pub async fn set_mode(&self, session: &SessionId, mode: &'static str) -> Result<()> {
        let request = SetSessionModeRequest::new(session.clone(), mode);
        self.agent.send_request(request).block_task().await?;
        Ok(())
    }

    pub async fn set_config_option(
        &self,
        session: &SessionId,
        config: &SessionConfigId,
        value: &SessionConfigValueId,
    ) -> Result<Vec<SessionConfigOption>> {
        let request =
            SetSessionConfigOptionRequest::new(session.clone(), config.clone(), value.clone());
        let answer = self.agent.send_request(request).block_task().await?;
        Ok(answer.config_options)
    }

    /// Opens a session that exists. Its past comes as updates, before this returns.
    pub async fn load(&self, session: &SessionId) -> Result<LoadSessionResponse> {
        let request = LoadSessionRequest::new(session.clone(), CWD);
        Ok(self.agent.send_request(request).block_task().await?)
    }

    pub async fn resume(&self, session: &SessionId) -> Result<ResumeSessionResponse> {
        let request = ResumeSessionRequest::new(session.clone(), CWD);
        Ok(self.agent.send_request(request).block_task().await?)
    }

    pub async fn fork(&self, session: &SessionId) -> Result<SessionId> {
        let request = ForkSessionRequest::new(session.clone(), CWD);
        let child = self.agent.send_request(request).block_task().await?;
        ensure!(child.session_id != *session, "the fork has its parent's id");
        Ok(child.session_id)
    }

    pub async fn close(&self, session: &SessionId) -> Result<()> {
        let request = CloseSessionRequest::new(session.clone());
        self.agent.send_request(request).block_task().await?;
        Ok(())
    }

    pub async fn delete(&self, session: &SessionId) -> Result<()> {
        let request = DeleteSessionRequest::new(session.clone());
        self.agent.send_request(request).block_task().await?;
        Ok(())
    }

    pub async fn listed(&self) -> Result<Vec<SessionId>> {
        let request = ListSessionsRequest::new().cwd(std::path::PathBuf::from(CWD));
        let answer = self.agent.send_request(request).block_task().await?;
        let sessions = answer.sessions.into_iter();
        Ok(sessions.map(|session| session.session_id).collect())
    }

    /// Hands over the updates collected so far and starts collecting afresh.
    pub fn take_updates(&self) -> Vec<SessionUpdate> {
        self.updates.send_replace(Vec::new())
    }

    pub fn take_chunks(&self) -> Vec<String> {
        chunk_texts(&self.take_updates())
            .map(str::to_owned)
            .collect()
    }

    pub fn permission_requests(&self) -> Vec<RequestPermissionRequest> {
        self.permissions.lock().unwrap().clone()
    }
}

pub fn allow_once(request: &RequestPermissionRequest) -> Option<RequestPermissionOutcome> {
    let options = &request.options;
    let option = options
        .iter()
        .find(|option| option.kind == PermissionOptionKind::AllowOnce)?;
    let selected = SelectedPermissionOutcome::new(option.option_id.clone());
    Some(RequestPermissionOutcome::Selected(selected))
}
