//! Drives a Baton endpoint with the official Rust SDK, unmodified.
//! Usage: `scenario <http|ws> <url>`, for example `scenario ws http://127.0.0.1:8080/acp`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    CancelNotification, CloseSessionRequest, ContentBlock, DeleteSessionRequest,
    ForkSessionRequest, InitializeRequest, ListSessionsRequest, LoadSessionRequest,
    NewSessionRequest, NewSessionResponse, PermissionOptionKind, PromptRequest,
    RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    ResumeSessionRequest, SelectedPermissionOutcome, SessionConfigId, SessionConfigKind,
    SessionConfigOption, SessionConfigSelectOptions, SessionConfigValueId, SessionId,
    SessionNotification, SessionUpdate, SetSessionConfigOptionRequest, SetSessionModeRequest,
    StopReason, TextContent,
};
use agent_client_protocol::{Agent, Client, on_receive_notification, on_receive_request};
use agent_client_protocol_http::HttpClient;
use anyhow::{Context, Result, ensure};
use tokio::sync::watch;

use crate::checks::{ensure_equal, ensure_same_items};
use crate::turns::{Turn, chunk_texts, counted, turns_of};

mod checks;
mod turns;

const LIMIT: Duration = Duration::from_secs(60);
const CWD: &str = "/tmp";

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let url = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["http", url] => url.to_owned(),
        ["ws", url] => url.replacen("http", "ws", 1),
        _ => fail("usage: scenario <http|ws> <url>"),
    };
    let steps = Steps::default();
    match tokio::time::timeout(LIMIT, scenario(&url, &steps)).await {
        Ok(Ok(())) => println!("scenario passed"),
        Ok(Err(error)) => fail(&format!("failed at {}: {error:#}", steps.current())),
        Err(_) => fail(&format!(
            "failed at {}: no end after {} s",
            steps.current(),
            LIMIT.as_secs()
        )),
    }
}

fn fail(message: &str) -> ! {
    println!("{message}");
    std::process::exit(1)
}

/// Prints each step that passed and remembers the one that is running.
#[derive(Default)]
struct Steps(Mutex<&'static str>);

impl Steps {
    fn begin(&self, name: &'static str) {
        *self.0.lock().unwrap() = name;
    }

    fn pass(&self) {
        println!("ok {}", self.current());
    }

    fn current(&self) -> &'static str {
        *self.0.lock().unwrap()
    }
}

async fn scenario(url: &str, steps: &Steps) -> Result<()> {
    steps.begin("initialize");
    let asked_in_all = with_peer(url, async |first| {
        first.initialize().await?;
        steps.pass();

        let (session, live) = first_connection(&first, steps).await?;

        steps.begin("second connection initialize");
        let asked_second = with_peer(url, async |second| {
            second.initialize().await?;
            steps.pass();
            second_connection(&second, &session, &live, steps).await?;
            whole_sessions(&second, &session, live, steps).await?;
            steps.begin("close transports");
            Ok(second.permission_requests().len())
        })
        .await?;

        let late = first.take_chunks();
        let expected = [counted(5, 5, 5), counted(2, 6, 2)].concat();
        let seen = late.len().min(expected.len());
        ensure_same_items(&late, &expected[..seen], "updates seen by the observer")?;
        Ok(first.permission_requests().len() + asked_second)
    })
    .await?;
    // The transports are closed here: the SDK returns only once its DELETE has been answered.
    ensure_equal(&asked_in_all, &1, "permission requests in all")?;
    steps.pass();
    Ok(())
}

/// What the first connection leaves for the second one to find.
struct Session {
    id: SessionId,
    choice: Option<(SessionConfigId, SessionConfigValueId)>,
}

async fn first_connection(first: &Peer, steps: &Steps) -> Result<(Session, Vec<Turn>)> {
    let mut live = Vec::new();

    steps.begin("session/new");
    let session = first.new_session().await?;
    let id = session.session_id.clone();
    steps.pass();

    steps.begin("prompt echo");
    let (stop, chunks) = first.turn(&id, "hello brave new world", &mut live).await?;
    ensure_equal(&chunks.concat().trim(), &"hello brave new world", "echo")?;
    ensure_equal(&stop, &StopReason::EndTurn, "stopReason")?;
    steps.pass();

    steps.begin("permission");
    let (stop, _) = first.turn(&id, "/permission", &mut live).await?;
    let asked = first.permission_requests();
    ensure_equal(&asked.len(), &1, "permission requests received")?;
    ensure_equal(
        &asked[0].session_id,
        &id,
        "session of the permission request",
    )?;
    ensure!(
        allow_once(&asked[0]).is_some(),
        "no allow_once option was offered"
    );
    ensure_equal(&stop, &StopReason::EndTurn, "stopReason")?;
    steps.pass();

    steps.begin("prompt count 50");
    let (stop, chunks) = first.turn(&id, "/count 50", &mut live).await?;
    ensure_same_items(&chunks, &counted(50, 3, 50), "chunks")?;
    ensure_equal(&stop, &StopReason::EndTurn, "stopReason")?;
    steps.pass();

    steps.begin("cancel");
    let cancelled_turn = first.turn(&id, "/count 1000 delay=20", &mut live);
    let (turn, cancel) = tokio::join!(cancelled_turn, first.cancel_after_chunks(&id, 3));
    let (stop, chunks) = turn?;
    cancel?;
    ensure_equal(&stop, &StopReason::Cancelled, "stopReason")?;
    ensure!(
        chunks.len() < 1000,
        "the turn ran to its end in spite of the cancel"
    );
    ensure_same_items(&chunks, &counted(1000, 4, chunks.len()), "chunks")?;
    steps.pass();

    steps.begin("session/set_mode");
    first.set_mode(&id, "ask").await?;
    steps.pass();

    let choice = other_choice(session.config_options.as_deref().unwrap_or_default());
    if let Some((config, value)) = &choice {
        steps.begin("session/set_config_option");
        first.set_config_option(&id, config, value).await?;
        steps.pass();
    }
    Ok((Session { id, choice }, live))
}

async fn second_connection(
    second: &Peer,
    session: &Session,
    live: &[Turn],
    steps: &Steps,
) -> Result<()> {
    steps.begin("session/load");
    let request = LoadSessionRequest::new(session.id.clone(), CWD);
    let answer = second.agent.send_request(request).block_task().await?;
    let replay = turns_of(&second.take_updates())?;
    ensure_same_items(
        &replay,
        live,
        "replay, compared with what the first connection saw",
    )?;
    if let Some(modes) = answer.modes {
        ensure_equal(
            &&*modes.current_mode_id.0,
            &"ask",
            "currentModeId after load",
        )?;
    }
    if let (Some((id, value)), Some(options)) = (&session.choice, answer.config_options) {
        ensure_equal(
            &value_of(&options, id),
            &Some(value),
            "config option after load",
        )?;
    }
    steps.pass();

    steps.begin("prompt on second connection");
    let stop = second.prompt(&session.id, "/count 5").await?;
    ensure_same_items(&second.take_chunks(), &counted(5, 5, 5), "chunks")?;
    ensure_equal(&stop, &StopReason::EndTurn, "stopReason")?;
    steps.pass();

    steps.begin("session/close");
    let request = CloseSessionRequest::new(session.id.clone());
    second.agent.send_request(request).block_task().await?;
    steps.pass();
    Ok(())
}

/// What is done to sessions as wholes; the session is closed by now.
async fn whole_sessions(
    peer: &Peer,
    session: &Session,
    mut live: Vec<Turn>,
    steps: &Steps,
) -> Result<()> {
    let agent = &peer.agent;
    steps.begin("session/resume");
    let request = ResumeSessionRequest::new(session.id.clone(), CWD);
    let answer = agent.send_request(request).block_task().await?;
    ensure!(peer.take_updates().is_empty(), "a resume replays nothing");
    let mode = answer.modes.context("no modes")?.current_mode_id;
    ensure_equal(&&*mode.0, &"ask", "currentModeId after resume")?;
    peer.prompt(&session.id, "/count 2").await?;
    ensure_same_items(&peer.take_chunks(), &counted(2, 6, 2), "chunks")?;
    steps.pass();

    steps.begin("session/fork");
    let request = ForkSessionRequest::new(session.id.clone(), CWD);
    let child = agent.send_request(request).block_task().await?.session_id;
    ensure!(child != session.id, "the fork has its parent's id");
    let request = LoadSessionRequest::new(child.clone(), CWD);
    agent.send_request(request).block_task().await?;
    live.push(Turn::counted(5, 5));
    live.push(Turn::counted(2, 6));
    let past = turns_of(&peer.take_updates())?;
    ensure_same_items(&past, &live, "the fork's past")?;
    peer.prompt(&child, "/count 3").await?;
    ensure_same_items(&peer.take_chunks(), &counted(3, 7, 3), "chunks")?;
    steps.pass();

    steps.begin("session/list");
    let latest = [child.clone(), session.id.clone()];
    let listed = peer.listed().await?;
    ensure!(listed.starts_with(&latest), "the latest are not first");
    steps.pass();

    steps.begin("session/delete");
    for _ in 0..2 {
        let request = DeleteSessionRequest::new(session.id.clone());
        agent.send_request(request).block_task().await?;
    }
    let listed = peer.listed().await?;
    ensure!(
        !listed.contains(&session.id),
        "the deleted session is listed"
    );
    let request = LoadSessionRequest::new(session.id.clone(), CWD);
    let refused = agent.send_request(request).block_task().await;
    let code = refused.err().map(|error| i32::from(error.code));
    ensure_equal(&code, &Some(-32002), "the answer to a load")?;
    peer.prompt(&child, "/count 1").await?;
    ensure_same_items(&peer.take_chunks(), &counted(1, 8, 1), "chunks")?;
    steps.pass();
    Ok(())
}

/// One SDK connection, and everything the agent sent over it.
struct Peer {
    agent: ConnectionTo<Agent>,
    updates: watch::Sender<Vec<SessionUpdate>>,
    permissions: Arc<Mutex<Vec<RequestPermissionRequest>>>,
}

/// Opens a transport, runs `body` over it and closes it.
async fn with_peer<R>(url: &str, body: impl AsyncFnOnce(Peer) -> Result<R>) -> Result<R> {
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
    async fn initialize(&self) -> Result<()> {
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

    async fn new_session(&self) -> Result<NewSessionResponse> {
        let request = NewSessionRequest::new(CWD);
        let session = self.agent.send_request(request).block_task().await?;
        ensure!(!session.session_id.0.is_empty(), "sessionId is empty");
        let modes = session.modes.as_ref().context("no modes")?;
        ensure_equal(&&*modes.current_mode_id.0, &"code", "modes.currentModeId")?;
        Ok(session)
    }

    /// Runs a turn, notes it in `live` for the comparison with the replay, and returns how it
    /// stopped and its chunks. A straggler of the turn before would count as a chunk of this one
    /// and so be noticed.
    async fn turn(
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

    /// Sends a prompt; `text` is one or more directives of the scripted agent.
    async fn prompt(&self, session: &SessionId, text: &str) -> Result<StopReason> {
        let text = ContentBlock::Text(TextContent::new(text));
        let request = PromptRequest::new(session.clone(), vec![text]);
        Ok(self
            .agent
            .send_request(request)
            .block_task()
            .await?
            .stop_reason)
    }

    async fn cancel_after_chunks(&self, session: &SessionId, count: usize) -> Result<()> {
        let mut updates = self.updates.subscribe();
        updates
            .wait_for(|seen| chunk_texts(seen).count() >= count)
            .await?;
        self.agent
            .send_notification(CancelNotification::new(session.clone()))?;
        Ok(())
    }

    async fn set_mode(&self, session: &SessionId, mode: &'static str) -> Result<()> {
        let request = SetSessionModeRequest::new(session.clone(), mode);
        self.agent.send_request(request).block_task().await?;
        Ok(())
    }

    async fn set_config_option(
        &self,
        session: &SessionId,
        config: &SessionConfigId,
        value: &SessionConfigValueId,
    ) -> Result<()> {
        let request =
            SetSessionConfigOptionRequest::new(session.clone(), config.clone(), value.clone());
        let answer = self.agent.send_request(request).block_task().await?;
        ensure_equal(
            &value_of(&answer.config_options, config),
            &Some(value),
            "config option",
        )
    }

    async fn listed(&self) -> Result<Vec<SessionId>> {
        let request = ListSessionsRequest::new().cwd(std::path::PathBuf::from(CWD));
        let answer = self.agent.send_request(request).block_task().await?;
        let sessions = answer.sessions.into_iter();
        Ok(sessions.map(|session| session.session_id).collect())
    }

    /// Hands over the updates collected so far and starts collecting afresh.
    fn take_updates(&self) -> Vec<SessionUpdate> {
        self.updates.send_replace(Vec::new())
    }

    fn take_chunks(&self) -> Vec<String> {
        chunk_texts(&self.take_updates())
            .map(str::to_owned)
            .collect()
    }

    fn permission_requests(&self) -> Vec<RequestPermissionRequest> {
        self.permissions.lock().unwrap().clone()
    }
}

fn allow_once(request: &RequestPermissionRequest) -> Option<RequestPermissionOutcome> {
    let options = &request.options;
    let option = options
        .iter()
        .find(|option| option.kind == PermissionOptionKind::AllowOnce)?;
    let selected = SelectedPermissionOutcome::new(option.option_id.clone());
    Some(RequestPermissionOutcome::Selected(selected))
}

/// The id of a select option and one of its values that is not the current one.
fn other_choice(
    options: &[SessionConfigOption],
) -> Option<(SessionConfigId, SessionConfigValueId)> {
    options.iter().find_map(|option| {
        let SessionConfigKind::Select(select) = &option.kind else {
            return None;
        };
        let choices = match &select.options {
            SessionConfigSelectOptions::Ungrouped(choices) => choices.clone(),
            SessionConfigSelectOptions::Grouped(groups) => groups
                .iter()
                .flat_map(|group| group.options.clone())
                .collect(),
            _ => return None,
        };
        let choice = choices
            .into_iter()
            .find(|choice| choice.value != select.current_value)?;
        Some((option.id.clone(), choice.value))
    })
}

fn value_of<'a>(
    options: &'a [SessionConfigOption],
    id: &SessionConfigId,
) -> Option<&'a SessionConfigValueId> {
    let option = options.iter().find(|option| option.id == *id)?;
    match &option.kind {
        SessionConfigKind::Select(select) => Some(&select.current_value),
        _ => None,
    }
}
