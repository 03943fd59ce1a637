//! One session at an agent's process: how it is opened, and how messages are sent to it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_protocol::{ErrorCode, Method};
use baton_session::sync::MutexExt as _;
use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{Mutex as AsyncMutex, mpsc};
use tokio::time::timeout;

use super::agent_session_names::{AgentSessionNames, HeldName};
use super::chosen_settings::{ChosenSetting, ChosenSettings, SettingsRestore};
use super::client_profile::ClientProfile;
use super::connection::{AgentConnection, AgentOutput, QueuedOutput, opened};
use super::message::AgentReply;
use super::replay::{AgentReplay, LoggedConversation};
use super::settings_view::SettingsView;
use super::transcript::Transcript;
use crate::agent::{SessionOpening, raw};
use crate::agent_policy::{AgentAnswer, AgentMessage};
use crate::rpc::Failure;

pub struct AgentSession {
    pub connection: Arc<AgentConnection>,
    number: u64,
    /// The agent's name for the session.
    pub session: String,
    /// The client that the process was told of.
    pub client: ClientProfile,
    pub output: AsyncMutex<mpsc::Receiver<QueuedOutput>>,
    /// Context that the agent gets before the next prompt.
    pub context: Mutex<Option<String>>,
    /// Output from while the session was opened, until somebody reads it.
    pub early: Mutex<VecDeque<AgentOutput>>,
    /// The state of the agent's replay.
    pub replay: Mutex<AgentReplay>,
    /// Tells the agent when the session leaves it.
    closes: bool,
    _name: HeldName,
}

/// The methods that an agent has to restore and close sessions.
#[derive(Clone, Copy, Debug, Default)]
pub struct SessionAbilities {
    pub resume: bool,
    pub load: bool,
    pub close: bool,
}

impl SessionAbilities {
    pub fn of(initialize: &Value) -> Self {
        let capabilities = &initialize["agentCapabilities"];
        let has = |name: &str| capabilities["sessionCapabilities"][name].is_object();
        Self {
            resume: has("resume"),
            load: capabilities["loadSession"] == true,
            close: has("close"),
        }
    }
}

/// Describes the session to open.
pub struct OpenRequest<'a> {
    pub opening: &'a SessionOpening,
    /// The client that the process was told of.
    pub client: &'a ClientProfile,
    /// The agent's name for the session, if it has had it before.
    pub before: Option<&'a str>,
    pub abilities: SessionAbilities,
    pub names: &'a Arc<AgentSessionNames>,
    /// Modes and options as clients know them; empty if the session is new.
    pub shown: &'a SettingsView,
    pub chosen: &'a ChosenSettings,
    /// No other session shares the process.
    pub alone: bool,
    pub patience: Duration,
}

/// An open session, and its modes and options.
pub struct OpenedSession {
    pub agent_session: AgentSession,
    pub settled: RestoredSettings,
}

/// Modes and options when everything that was chosen is set, or refused.
pub struct RestoredSettings {
    pub view: SettingsView,
    pub refused: Vec<ChosenSetting>,
}

impl OpenRequest<'_> {
    /// Restores the session if the agent can, else opens a new one with the conversation until now
    /// as context.
    pub async fn open(&self, connection: Arc<AgentConnection>) -> Result<OpenedSession, Failure> {
        connection.log().belongs_to(&self.opening.session);
        let session = &self.opening.session;
        let (number, heard) = connection.open_queue(session, self.alone);
        let mut pending = PendingSession {
            request: self,
            connection,
            number,
            heard,
            early: VecDeque::new(),
            replay: AgentReplay::none(),
        };
        if let Some(before) = self.before
            && let Some(name) = pending.claim(before)
            && let Some(result) = pending.restore(before).await?
        {
            let settled = pending.restore_settings(before, &result).await?;
            return Ok(pending.into_session(before.to_owned(), name, settled, None));
        }
        let mut past = Transcript::default();
        self.opening
            .replay_log(|event| past.add_event(event))
            .await?;
        let new = self.opening.message(Method::NewSession, None)?;
        let result = pending.call(&new).await?;
        let inner = opened(&result).ok_or_else(|| {
            Failure::internal("the agent's answer to session/new has no sessionId")
        })?;
        if !pending.connection.owns_name(number, &inner) {
            let text =
                "the agent gave the session a name that another session has: it is not opened";
            return Err(Failure::internal(text));
        }
        let name = self.names.note(&inner, session);
        let context = (!past.is_empty()).then(|| past.as_prompt_text());
        let settled = pending.restore_settings(&inner, &result).await?;
        Ok(pending.into_session(inner, name, settled, context))
    }
}

/// A session that is being opened: nobody else reads its output yet.
struct PendingSession<'a> {
    request: &'a OpenRequest<'a>,
    connection: Arc<AgentConnection>,
    number: u64,
    heard: mpsc::Receiver<QueuedOutput>,
    early: VecDeque<AgentOutput>,
    replay: AgentReplay,
}

impl PendingSession<'_> {
    /// `None` if another session is at that name.
    fn claim(&self, before: &str) -> Option<HeldName> {
        let session = &self.request.opening.session;
        let held = self.request.names.claim(before, session);
        let held = held.filter(|_| self.connection.name_queue(self.number, Some(before)));
        if held.is_none() {
            tracing::warn!(
                session.id = %session,
                "another session uses the same agent session id: opening a new one"
            );
        }
        held
    }

    /// `None` if the agent cannot, or does not know the session any more.
    async fn restore(&mut self, before: &str) -> Result<Option<Box<RawValue>>, Failure> {
        let ways = [
            (Method::ResumeSession, self.request.abilities.resume),
            (Method::LoadSession, self.request.abilities.load),
        ];
        for (method, can) in ways {
            if !can {
                continue;
            }
            let message = self.request.opening.message(method, Some(before))?;
            self.replay = AgentReplay::default();
            let reply = self.call(&message).await;
            match (reply, self.connection.end()) {
                (Ok(result), _) => {
                    self.compare(method).await?;
                    return Ok(Some(result));
                }
                (Err(failure), Some(_)) => return Err(failure),
                (Err(failure), None) => {
                    tracing::info!(
                        session.id = %self.request.opening.session,
                        method = method.name(),
                        code = failure.code,
                        "the agent does not bring the session back"
                    );
                }
            }
        }
        self.replay = AgentReplay::none();
        self.connection.name_queue(self.number, None);
        Ok(None)
    }

    /// The agent's replay is not shown again: the session's own log counts. A difference is logged.
    async fn compare(&mut self, method: Method) -> Result<(), Failure> {
        // After `session/resume` an agent need not replay anything, and then its log need not be
        // read.
        if method == Method::ResumeSession && !self.replay.has_told() {
            return Ok(());
        }
        let past = logged_conversation(self.request.opening).await?;
        if let Some((told, known)) = self.replay.compare(&past) {
            tracing::warn!(
                session.id = %self.request.opening.session,
                method = method.name(),
                told,
                known,
                "the agent remembers the conversation otherwise than it was"
            );
        }
        Ok(())
    }

    /// Sets the chosen settings again before the agent gets a prompt. Clients get one update when
    /// all are set.
    async fn restore_settings(
        &mut self,
        session: &str,
        result: &RawValue,
    ) -> Result<RestoredSettings, Failure> {
        let (shown, chosen) = (self.request.shown, self.request.chosen);
        let mut view = shown.blank();
        self.read_settings(&mut view);
        view.renew(SettingsView::of(result));
        let mut restoring = SettingsRestore::new(chosen);
        // Settings that the agent has no method for any more, so that nobody could choose
        // otherwise.
        let mut unknown = Vec::new();
        while let Some(choice) = restoring.next(&view) {
            if !self.set(&choice, session, &mut view).await? {
                unknown.push(choice);
            }
        }
        let mut chosen = chosen.clone();
        chosen.drop_unoffered(&view);
        unknown.iter().for_each(|choice| chosen.forget(choice));
        let refused = chosen.missing_in(&view);
        view.fill_from(shown);
        Ok(RestoredSettings { view, refused })
    }

    /// False if the agent does not know how.
    async fn set(
        &mut self,
        choice: &ChosenSetting,
        session: &str,
        view: &mut SettingsView,
    ) -> Result<bool, Failure> {
        let (method, params) = choice.request(view);
        let message = self
            .request
            .opening
            .policy()
            .message(method.name(), &raw(&params));
        let reply = match message {
            Ok(message) => self.call(&message.addressed_to(session)).await,
            Err(refusal) => Err(refusal),
        };
        let mut knows = true;
        match reply {
            Ok(result) => {
                view.note(&choice.what, &choice.value);
                let result: Value = serde_json::from_str(result.get()).unwrap_or_default();
                view.set_options(&result["configOptions"]);
            }
            // Also if it was stopped because it did not answer.
            Err(failure) if self.connection.is_gone() => return Err(failure),
            Err(failure) => {
                knows = !failure.is(ErrorCode::MethodNotFound);
                let (choice, why) = (choice.describe(), failure.message);
                tracing::warn!(
                    session.id = %self.request.opening.session,
                    choice,
                    why,
                    "the agent refused a setting that was chosen earlier"
                );
            }
        }
        self.read_settings(view);
        Ok(knows)
    }

    /// Applies updates of modes and options that came while the session was opened. For a new
    /// session they are passed on unchanged.
    fn read_settings(&mut self, view: &mut SettingsView) {
        if self.request.shown.is_empty() {
            return;
        }
        self.early.retain(|said| match said {
            AgentOutput::Notice { line, .. } => {
                !SettingsView::is_about_one(line) || {
                    view.read(line);
                    false
                }
            }
            _ => true,
        });
    }

    /// Messages before the answer belong to the opening.
    async fn call(&mut self, message: &AgentMessage) -> AgentReply {
        let mut answer = self.connection.call(Some(self.number), message);
        let patience = self.request.patience;
        let heard = async {
            loop {
                tokio::select! {
                    biased;
                    reply = &mut answer => return reply.unwrap_or_else(|_| Err(self.gone())),
                    heard = self.heard.recv() => match heard.map(|heard| heard.what) {
                        Some(AgentOutput::Answer { to, reply }) => drop(to.send(reply)),
                        Some(AgentOutput::Notice { line, .. })
                            if !self.replay.is_over() && self.replay.take(&line) => {}
                        Some(notice @ AgentOutput::Notice { .. }) => self.early.push_back(notice),
                        Some(AgentOutput::Question { id, .. }) => {
                            let failure =
                                Failure::internal("nobody is asked while a session is opened");
                            self.connection.answer(&id, &AgentAnswer::own(Err(failure)));
                        }
                        None => return Err(self.gone()),
                    }
                }
            }
        };
        match timeout(patience, heard).await {
            Ok(reply) => reply,
            Err(_) => {
                self.connection.kill();
                let method = message.method();
                Err(super::failures::gone(
                    &format!("did not answer {method} within {patience:?} and was stopped"),
                    self.connection.log().stderr_for_clients(),
                ))
            }
        }
    }

    fn gone(&self) -> Failure {
        let end = self.connection.end();
        end.unwrap_or_else(|| Failure::internal("the agent's answer was lost"))
    }

    fn into_session(
        self,
        session: String,
        name: HeldName,
        settled: RestoredSettings,
        context: Option<String>,
    ) -> OpenedSession {
        let agent_session = AgentSession {
            _name: name,
            closes: !self.request.alone && self.request.abilities.close,
            connection: self.connection,
            number: self.number,
            session,
            client: self.request.client.clone(),
            output: AsyncMutex::new(self.heard),
            context: Mutex::new(context),
            early: Mutex::new(self.early),
            replay: Mutex::new(self.replay),
        };
        OpenedSession {
            agent_session,
            settled,
        }
    }
}

/// Reads the logged conversation, to compare a replay with.
pub async fn logged_conversation(opening: &SessionOpening) -> Result<LoggedConversation, Failure> {
    let mut past = LoggedConversation::default();
    opening.replay_log(|event| past.add_event(event)).await?;
    Ok(past)
}

impl AgentSession {
    /// A listener must run for the answer to come.
    pub async fn call(&self, message: &AgentMessage) -> AgentReply {
        let message = message.addressed_to(&self.session);
        let answer = self.connection.call(Some(self.number), &message);
        let lost = || {
            self.connection
                .end()
                .unwrap_or_else(|| Failure::internal("the agent's answer was lost"))
        };
        answer.await.unwrap_or_else(|_| Err(lost()))
    }

    /// Puts an update before all output of the agent.
    pub fn push_first(&self, update: Bytes) {
        let told = AgentOutput::Notice {
            line: update,
            method: Method::Update.name().to_owned(),
            session: Some(self.session.clone()),
        };
        let mut early = self.early.locked();
        early.push_front(told);
    }

    /// Whether there is unread output from while the session was opened.
    pub fn has_early_output(&self) -> bool {
        let early = self.early.locked();
        !early.is_empty()
    }

    /// Nothing of it is heard any more.
    pub fn leave(&self) {
        self.connection.close_queue(self.number);
    }

    pub fn notify(&self, message: &AgentMessage) {
        self.connection.notify(&message.addressed_to(&self.session));
    }
}

impl Drop for AgentSession {
    fn drop(&mut self) {
        if self.closes && !self.connection.is_gone() {
            let params = json!({ "sessionId": self.session });
            let close = AgentMessage::own(Method::CloseSession, &params);
            // Its answer is of no interest to anybody.
            drop(self.connection.call(None, &close));
        }
        self.connection.close_queue(self.number);
    }
}
