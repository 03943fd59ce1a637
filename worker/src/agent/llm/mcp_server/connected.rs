//! A server with a connection of its own. It is started or connected to when its tools are asked
//! for, and again when it is gone.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotificationParam,
    ClientRequest, GetPromptRequestParams, GetPromptResult, JsonObject, PaginatedRequestParams,
    ServerResult,
};
use rmcp::service::{
    Peer, PeerRequestOptions, RequestHandle, RoleClient, RunningService, ServiceError,
};
use serde_json::json;
use tokio::sync::{Mutex, mpsc};
use tokio::time::timeout;

use super::local_process::{LocalProcess, ProcessHold};
use super::server_events::{McpHandler, ServerEvents, ServerSaid};
use super::streamable_http::WebServer;
use super::try_pause::TryPause;
use super::{ServerOffer, shortened};
use crate::agent::llm::mcp_tools::MAX_TOOLS;

/// For a program to start, and to list its tools.
const START_PATIENCE: Duration = Duration::from_secs(30);
/// A call of which nothing is heard for so long is given up.
pub const UNUSED_PATIENCE: Duration = Duration::from_secs(600);
/// For a server that reads nothing: it is not told either that its call is cancelled.
const STUCK_PATIENCE: Duration = Duration::from_secs(5);
/// More pages of tools are not asked for.
const MAX_PAGES: usize = 16;
const MAX_PROMPTS: usize = 64;

pub struct ConnectedServer {
    name: String,
    place: ServerPlace,
    events: Arc<ServerEvents>,
    state: Mutex<ServerState>,
}

pub enum ServerPlace {
    Process(LocalProcess),
    Web(WebServer),
}

impl From<LocalProcess> for ServerPlace {
    fn from(process: LocalProcess) -> Self {
        Self::Process(process)
    }
}

impl From<WebServer> for ServerPlace {
    fn from(web: WebServer) -> Self {
        Self::Web(web)
    }
}

#[derive(Default)]
struct ServerState {
    running: Option<RunningServer>,
    pause: TryPause,
}

struct RunningServer {
    service: RunningService<RoleClient, McpHandler>,
    _process: Option<ProcessHold>,
    offer: ServerOffer,
}

/// A call that was made. Dropped, it tells the server that the call is cancelled.
pub struct CallUnderWay {
    pub said: mpsc::Receiver<ServerSaid>,
    pub answer: BoxFuture<'static, Result<CallToolResult, String>>,
}

impl ConnectedServer {
    pub fn new(name: &str, place: ServerPlace) -> Self {
        Self {
            name: name.to_owned(),
            place,
            events: Arc::default(),
            state: Mutex::default(),
        }
    }

    pub async fn offer(&self) -> Result<ServerOffer, String> {
        let mut state = self.state.lock().await;
        let (_, offer) = self.running(&mut state).await?;
        Ok(offer)
    }

    async fn peer(&self) -> Result<Peer<RoleClient>, String> {
        let mut state = self.state.lock().await;
        let (peer, _) = self.running(&mut state).await?;
        Ok(peer)
    }

    async fn running(
        &self,
        state: &mut ServerState,
    ) -> Result<(Peer<RoleClient>, ServerOffer), String> {
        if let Some(running) = &mut state.running
            && !running.service.is_closed()
            && !running.service.peer().is_transport_closed()
        {
            if self.events.take_changed() {
                running.offer = offer_of(running.service.peer()).await?;
            }
            return Ok((running.service.peer().clone(), running.offer.clone()));
        }
        let had_died = state.running.take().is_some();
        state.pause.check()?;
        if had_died {
            tracing::warn!(
                server = self.name,
                "an MCP server has ended: starting it again"
            );
        }
        let started = timeout(START_PATIENCE, self.start()).await;
        let late = |_| Err(format!("it did not answer within {START_PATIENCE:?}"));
        let started = state.pause.note(&self.name, started.unwrap_or_else(late))?;
        let found = (started.service.peer().clone(), started.offer.clone());
        state.running = Some(started);
        Ok(found)
    }

    async fn start(&self) -> Result<RunningServer, String> {
        let handler = McpHandler(self.events.clone());
        let (service, process) = match &self.place {
            ServerPlace::Process(process) => {
                let (service, hold) = process.start(handler).await?;
                (service, Some(hold))
            }
            ServerPlace::Web(web) => (web.connect(handler).await?, None),
        };
        Ok(RunningServer {
            offer: offer_of(service.peer()).await?,
            service,
            _process: process,
        })
    }

    pub async fn call(&self, tool: &str, arguments: JsonObject) -> Result<CallUnderWay, String> {
        let peer = self.peer().await?;
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        // Before it is sent: the server may ask at once.
        let (listener, said) = self.events.listen();
        let options = PeerRequestOptions::default();
        let sent = timeout(
            UNUSED_PATIENCE,
            peer.send_cancellable_request(request, options),
        );
        let stuck = |_| "it does not read what it is sent".to_owned();
        let handle = sent.await.map_err(stuck)?.map_err(short)?;
        listener.named(json!(handle.progress_token).to_string());
        let open = OpenCall::of(&handle);
        let answer = async move {
            let _listener = listener;
            let answer = handle.rx.await;
            open.finish();
            let gone = |_| "it has ended".to_owned();
            match answer.map_err(gone)?.map_err(short)? {
                ServerResult::CallToolResult(result) => Ok(result),
                _ => Err("it answered with something else than a result".into()),
            }
        };
        Ok(CallUnderWay {
            said,
            answer: Box::pin(answer),
        })
    }

    pub async fn prompt(
        &self,
        name: &str,
        arguments: JsonObject,
    ) -> Result<GetPromptResult, String> {
        let peer = self.peer().await?;
        let params = GetPromptRequestParams::new(name).with_arguments(arguments);
        let asked = timeout(START_PATIENCE, peer.get_prompt(params)).await;
        let late = |_| format!("it did not answer within {START_PATIENCE:?}");
        asked.map_err(late)?.map_err(short)
    }
}

async fn offer_of(peer: &Peer<RoleClient>) -> Result<ServerOffer, String> {
    let listed = timeout(START_PATIENCE, listed(peer)).await;
    listed.map_err(|_| format!("it did not list its tools within {START_PATIENCE:?}"))?
}

/// As many tools as a model may be offered; a server may go on for ever.
async fn listed(peer: &Peer<RoleClient>) -> Result<ServerOffer, String> {
    let info = peer.peer_info();
    let says = info.as_ref().map(|info| &info.capabilities);
    let (mut tools, mut cursor) = (Vec::new(), None);
    for _ in 0..MAX_PAGES {
        if says.is_some_and(|it| it.tools.is_none()) {
            break;
        }
        let wanted = PaginatedRequestParams::default().with_cursor(cursor);
        let page = peer.list_tools(Some(wanted)).await.map_err(short)?;
        tools.extend(page.tools);
        cursor = page.next_cursor;
        if cursor.is_none() || tools.len() >= MAX_TOOLS {
            break;
        }
    }
    tools.truncate(MAX_TOOLS);
    let mut prompts = Vec::new();
    if says.is_some_and(|it| it.prompts.is_some()) {
        let page = peer.list_prompts(None).await.map_err(short)?;
        prompts = page.prompts;
    }
    prompts.truncate(MAX_PROMPTS);
    Ok(ServerOffer {
        tools: tools.into(),
        prompts: prompts.into(),
    })
}

fn short(error: ServiceError) -> String {
    shortened(&error.to_string())
}

/// A call that is cancelled if nobody waits for it any more.
struct OpenCall(Option<(Peer<RoleClient>, CancelledNotificationParam)>);

impl OpenCall {
    fn of(handle: &RequestHandle<RoleClient>) -> Self {
        let reason = Some("nobody waits for it any more".to_owned());
        let id = Some(handle.id.clone());
        let cancelled = CancelledNotificationParam::new(id, reason);
        Self(Some((handle.peer.clone(), cancelled)))
    }

    fn finish(mut self) {
        self.0 = None;
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        if let Some((peer, cancelled)) = self.0.take() {
            tokio::spawn(timeout(STUCK_PATIENCE, async move {
                peer.notify_cancelled(cancelled).await
            }));
        }
    }
}
