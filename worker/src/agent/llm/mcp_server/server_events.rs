//! What a server says and asks of its own accord. It goes to a call that is under way, because only
//! in a turn there is somebody who can be asked.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use baton_session::sync::MutexExt as _;
use rmcp::ClientHandler;
use rmcp::model::{
    CustomRequest, CustomResult, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, ErrorData, FormElicitationCapability, Implementation,
    ProgressNotificationParam, UrlElicitationCapability,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

/// What a call has not looked at yet; more progress is left out.
const MAX_WAITING: usize = 64;
const NOBODY: &str = "nobody can be asked: no tool of this server is under way";

/// For a call under way.
pub enum ServerSaid {
    Progress(ServerProgress),
    /// The answer is JSON, or why there is none.
    Question(ServerQuestion, oneshot::Sender<Result<Value, String>>),
}

#[derive(Debug, PartialEq)]
pub struct ServerProgress {
    pub progress: f64,
    pub total: Option<f64>,
    pub message: Option<String>,
}

/// With its params.
#[derive(Debug)]
pub enum ServerQuestion {
    Elicitation(Value),
    Sampling(Value),
}

#[derive(Default)]
pub struct ServerEvents {
    changed: AtomicBool,
    listeners: Mutex<Vec<Listener>>,
    count: AtomicU64,
}

struct Listener {
    number: u64,
    /// The call's name in notifications of progress.
    key: Option<String>,
    heard: mpsc::Sender<ServerSaid>,
}

/// Listens as long as it is there.
pub struct CallListener {
    events: Arc<ServerEvents>,
    number: u64,
}

impl ServerEvents {
    /// Whether there may be other tools than before; asked once.
    pub fn take_changed(&self) -> bool {
        self.changed.swap(false, Ordering::Relaxed)
    }

    pub fn note_change(&self) {
        self.changed.store(true, Ordering::Relaxed);
    }

    pub fn listen(self: &Arc<Self>) -> (CallListener, mpsc::Receiver<ServerSaid>) {
        let (heard, said) = mpsc::channel(MAX_WAITING);
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        self.listeners().push(Listener {
            number,
            key: None,
            heard,
        });
        let events = self.clone();
        (CallListener { events, number }, said)
    }

    pub fn note_progress(&self, key: &str, progress: ServerProgress) {
        let listeners = self.listeners();
        let mut listeners = listeners.iter();
        let listener = listeners.find(|it| it.key.as_deref() == Some(key));
        if let Some(listener) = listener {
            // A call that cannot keep up shows the next one.
            let _ = listener.heard.try_send(ServerSaid::Progress(progress));
        }
    }

    /// Asks by way of the first call that is under way.
    async fn ask(&self, question: ServerQuestion) -> Result<Value, String> {
        let heard = self.listeners().first().map(|it| it.heard.clone());
        let heard = heard.ok_or(NOBODY)?;
        let (reply, answer) = oneshot::channel();
        let sent = heard.send(ServerSaid::Question(question, reply)).await;
        sent.map_err(|_| NOBODY)?;
        answer.await.map_err(|_| NOBODY)?
    }

    fn listeners(&self) -> MutexGuard<'_, Vec<Listener>> {
        self.listeners.locked()
    }
}

impl CallListener {
    pub fn named(&self, key: String) {
        let mut listeners = self.events.listeners();
        let own = listeners.iter_mut().find(|it| it.number == self.number);
        if let Some(listener) = own {
            listener.key = Some(key);
        }
    }
}

impl Drop for CallListener {
    fn drop(&mut self) {
        let number = self.number;
        self.events.listeners().retain(|it| it.number != number);
    }
}

/// Our side of a connection to a server.
pub struct McpHandler(pub Arc<ServerEvents>);

// Sampling is on its way out of MCP, and servers still ask for it.
#[expect(deprecated)]
mod sampling_types {
    pub use rmcp::model::{
        ClientCapabilities, CreateMessageRequestParams, CreateMessageResult,
        InitializeRequestParams, SamplingCapability,
    };
}
use self::sampling_types::*;

#[expect(deprecated)]
impl ClientHandler for McpHandler {
    fn get_info(&self) -> InitializeRequestParams {
        let mut capabilities = ClientCapabilities::default();
        let form = FormElicitationCapability::new();
        let asks = ElicitationCapability::new().with_form(form);
        capabilities.elicitation = Some(asks.with_url(UrlElicitationCapability::new()));
        capabilities.sampling = Some(SamplingCapability::default());
        let version = env!("CARGO_PKG_VERSION");
        InitializeRequestParams::new(capabilities, Implementation::new("baton", version))
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let question = ServerQuestion::Sampling(json!(params));
        let answer = self.0.ask(question).await;
        let answer = answer.and_then(|it| serde_json::from_value(it).map_err(|e| e.to_string()));
        answer.map_err(|why| ErrorData::invalid_request(why, None))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let answer = self
            .0
            .ask(ServerQuestion::Elicitation(json!(request)))
            .await;
        let answer = answer.and_then(|it| serde_json::from_value(it).map_err(|e| e.to_string()));
        Ok(answer.unwrap_or_else(|_| ElicitResult::new(ElicitationAction::Decline)))
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        let mut params = request.params.unwrap_or_default();
        // Questions in a form that rmcp does not know.
        let question = match request.method.as_str() {
            "elicitation/create" if params.is_object() => {
                if params.get("mode").is_none() {
                    params["mode"] = json!("form");
                }
                ServerQuestion::Elicitation(params)
            }
            "sampling/createMessage" => ServerQuestion::Sampling(params),
            other => {
                let method: String = other.chars().take(100).collect();
                let code = rmcp::model::ErrorCode::METHOD_NOT_FOUND;
                return Err(ErrorData::new(code, method, None));
            }
        };
        let answer = self.0.ask(question).await;
        let answer = answer.map_err(|why| ErrorData::invalid_request(why, None))?;
        Ok(CustomResult::new(answer))
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let key = json!(params.progress_token).to_string();
        let progress = ServerProgress {
            progress: params.progress,
            total: params.total,
            message: params.message,
        };
        self.0.note_progress(&key, progress);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.0.note_change();
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.0.note_change();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(number: u32) -> ServerProgress {
        ServerProgress {
            progress: number.into(),
            total: None,
            message: None,
        }
    }

    #[tokio::test]
    async fn progress_reaches_its_call_and_no_more_of_it_than_there_is_room_for() {
        let events = Arc::new(ServerEvents::default());
        let (first, mut said) = events.listen();
        let (_second, mut nothing) = events.listen();
        first.named("1".into());
        for number in 0..1000 {
            events.note_progress("1", progress(number));
            events.note_progress("2", progress(number));
        }
        for number in 0..MAX_WAITING as u32 {
            let Some(ServerSaid::Progress(heard)) = said.recv().await else {
                panic!("there is progress");
            };
            assert_eq!(heard, progress(number));
        }
        drop(first);
        assert!(said.recv().await.is_none());
        assert!(nothing.try_recv().is_err());
    }

    #[tokio::test]
    async fn a_question_is_answered_by_a_call_or_by_nobody() {
        let events = Arc::new(ServerEvents::default());
        let ask = || events.ask(ServerQuestion::Elicitation(json!({})));
        assert_eq!(ask().await, Err(NOBODY.to_owned()));
        let (listener, mut said) = events.listen();
        let answering = async {
            let Some(ServerSaid::Question(_, reply)) = said.recv().await else {
                panic!("a question");
            };
            reply.send(Ok(json!(7))).expect("somebody waits");
        };
        let (answer, ()) = tokio::join!(ask(), answering);
        assert_eq!(answer, Ok(json!(7)));
        // A call that ends takes its questions with it.
        let ending = async {
            said.recv().await;
            drop(listener);
        };
        let (answer, ()) = tokio::join!(ask(), ending);
        assert_eq!(answer, Err(NOBODY.to_owned()));
    }
}
