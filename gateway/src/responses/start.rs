//! Begins a response: in a new session, in one that goes on, or in a fork.
//!
//! To go on from a response is to get its conversation exactly as it was. If its turn is the last
//! one, the session goes on, provided that nobody else has asked anything of it in between: the
//! inbox decides, in one step. Everybody else gets a fork that ends with that turn.

use baton_protocol::{compose, meta};
use baton_session::id::SessionId;
use baton_session::store::{AgentCard, SessionRecord};
use serde_json::{Value, json};

use super::ResponseServices;
use super::fault::{invalid, unknown_previous, unsupported};
use super::fold::PROMPT;
use super::input::{APPROVAL, CALL, InputAnswer};
use super::models;
use super::name::ResponseName;
use super::open_question::{OpenQuestion, question_of};
use super::place::ResponsePlace;
use super::request::{ResponseRequest, unknown_conversation};
use super::terms::ResponseTerms;
use crate::access::RequestAccess;
use crate::access::stream_authority::StreamAuthority;
use crate::agents::MissingAgent;
use crate::auth::Caller;
use crate::door::{DoorCall, RpcError, refused};
use crate::error::{FaultKind, GatewayError, fault};
use crate::limits::LimitRefusal;
use crate::methods::{DoorTerms, MethodOutcome};
use crate::stream::one_shot::{FollowedRequest, OneShotFeed};
use crate::stream::writer::{StreamWriter, WriterStep};

/// How often a session is looked at again that is not as it was.
const LOOKS: usize = 8;

pub struct ResponseStart<'a> {
    services: ResponseServices<'a>,
    request: &'a ResponseRequest,
    call: DoorCall<'a>,
    /// A request with this key is carried out once.
    key: Option<&'a str>,
}

/// A response that was begun.
pub struct StartedResponse {
    pub name: ResponseName,
    pub terms: ResponseTerms,
    pub access: RequestAccess,
}

impl<'a> ResponseStart<'a> {
    pub fn new(
        services: ResponseServices<'a>,
        caller: &Caller,
        request: &'a ResponseRequest,
        key: Option<&'a str>,
        over_bytes: Option<LimitRefusal>,
    ) -> Self {
        Self {
            services,
            request,
            call: DoorCall::new(services.methods, caller, key, &request.body, over_bytes),
            key,
        }
    }

    pub async fn run(mut self) -> Result<StartedResponse, GatewayError> {
        if !self.request.input.answers.is_empty() {
            return self.answer().await;
        }
        let (follow, model) = match (&self.request.previous, &self.request.conversation) {
            (Some(previous), _) => self.go_on_from(previous).await?,
            (None, Some(session)) => self.go_on_in(session).await?,
            (None, None) => self.begin_anew().await?,
        };
        let name = ResponseName {
            session: follow.session,
            after: follow.head,
            answers: false,
            asker: self.call.access.connection.id.clone(),
        };
        Ok(StartedResponse {
            name,
            terms: self.terms(model),
            access: self.call.access,
        })
    }

    async fn begin_anew(&mut self) -> Result<(FollowedRequest, String), GatewayError> {
        let rights = self.call.access.caller.rights();
        let directory = self.services.agents.directory(rights).await?;
        let named = self.request.agent();
        let (agent, servers) = match directory.choose(named) {
            Ok(card) => (card.name.clone(), self.servers(card)?),
            Err(MissingAgent(_)) => {
                return Err(models::unknown(named.unwrap_or_default(), &directory));
            }
        };
        self.call.access.connection.agent = Some(agent.clone());
        let cwd = self.request.cwd.as_deref();
        let params = json!({
            "cwd": cwd.unwrap_or(self.services.default_cwd), "mcpServers": servers,
        });
        let session = match self.call.request("new", "session/new", &params).await? {
            MethodOutcome::Created(created) => created.session,
            other => return Err(refused(other)),
        };
        if let Some(model) = self.request.option() {
            self.choose(&session, model).await?;
        }
        let follow = self.prompt(&session, &agent, None).await?;
        Ok((follow, agent))
    }

    /// Sets the option of the category `model`, and waits until the agent has taken it.
    async fn choose(&mut self, session: &SessionId, model: &str) -> Result<(), GatewayError> {
        let params = json!({ "sessionId": session, "modelId": model });
        let follow = match self
            .call
            .request("model", "session/set_model", &params)
            .await?
        {
            MethodOutcome::Follow(follow) => follow,
            other => return Err(refused(other)),
        };
        let authority = StreamAuthority::of(&self.call.access.caller);
        let authority = authority.on(&self.call.access.connection).reading(session);
        let feed = OneShotFeed::open(self.services.streams, follow, None).await?;
        let mut writer = StreamWriter::new(self.services.streams.clone(), feed, None, authority);
        let mut answer = None;
        loop {
            match writer.next().await {
                WriterStep::Batch(batch) => answer = batch.into_iter().last().or(answer),
                WriterStep::End(_) => break,
                WriterStep::Open(_) | WriterStep::KeepAlive | WriterStep::Reset(_) => {}
            }
        }
        let lost = || {
            fault(
                FaultKind::Failed,
                "server_error",
                None,
                "the model was not set",
            )
        };
        match RpcError::of(&answer.ok_or_else(lost)?.message) {
            None => Ok(()),
            Some(error) => {
                let param = Some("model");
                let text = error.message;
                Err(fault(FaultKind::NotFound, "model_not_found", param, text))
            }
        }
    }

    /// The turn goes on that waits for the answer.
    async fn answer(mut self) -> Result<StartedResponse, GatewayError> {
        let answers = &self.request.input.answers;
        for InputAnswer { question, given } in answers {
            let open = OpenQuestion::find(self.services, &self.call.access, question).await?;
            // Clients that keep a conversation themselves send old answers, too.
            let Some(open) = open else { continue };
            self.check_agent(&open.agent)?;
            let name = ResponseName {
                session: open.session,
                after: open.at,
                answers: true,
                asker: self.call.access.connection.id.clone(),
            };
            let terms = self.terms(open.agent);
            let mut result = open.question.answer(given)?;
            let meta = serde_json::from_str(&terms.meta()).expect("made of what was JSON");
            result["_meta"] = meta;
            let id = Value::from(question.as_str()).to_string();
            let message = compose::result(&id, result.to_string().as_bytes());
            self.call.access.caller.count_request()?;
            let terms_of_door = self.call.terms();
            match self.call.send(message, terms_of_door).await? {
                MethodOutcome::Taken => {}
                other => return Err(refused(other)),
            }
            return Ok(StartedResponse {
                name,
                terms,
                access: self.call.access,
            });
        }
        self.answered_before().await
    }

    /// An earlier try of this request has got as far as the answer.
    async fn answered_before(self) -> Result<StartedResponse, GatewayError> {
        let previous = self.request.previous.as_deref();
        let previous = previous.and_then(|previous| previous.parse().ok());
        if let (Some(_), Some(previous)) = (self.key, previous) {
            let previous: ResponseName = previous;
            let own = self.record(&previous.session).await?;
            let at = match own {
                Some(_) => question_of(&**self.services.store, &previous).await?,
                None => None,
            };
            if let Some(after) = at {
                let name = ResponseName {
                    after,
                    answers: true,
                    asker: self.call.access.connection.id.clone(),
                    ..previous
                };
                let place = ResponsePlace::of(&**self.services.store, &name).await?;
                if place != ResponsePlace::Absent {
                    let terms = self.terms(String::new());
                    let access = self.call.access;
                    return Ok(StartedResponse {
                        name,
                        terms,
                        access,
                    });
                }
            }
        }
        let text = "nothing waits for these outputs: their calls were answered, or their turn is \
            over";
        Err(fault(
            FaultKind::Conflict,
            "call_not_open",
            Some("input"),
            text,
        ))
    }

    /// Functions of the client are an MCP server to the agent. Every session has it whose agent
    /// takes such a one: they may be offered later.
    fn servers(&self, card: &AgentCard) -> Result<Value, GatewayError> {
        let takes = &card.initialize["agentCapabilities"]["mcpCapabilities"]["acp"];
        if takes == true {
            let id = meta::FUNCTIONS_SERVER;
            return Ok(json!([{ "type": "acp", "name": "functions", "serverId": id }]));
        }
        if self.has_tools() {
            let text = format!(
                "{} takes no functions of clients: its mcpCapabilities.acp is not true",
                card.name
            );
            return Err(unsupported("tools", text));
        }
        Ok(json!([]))
    }

    /// After whatever waits there already.
    async fn go_on_in(
        &mut self,
        session: &SessionId,
    ) -> Result<(FollowedRequest, String), GatewayError> {
        let record = self.record(session).await?;
        let record = record.ok_or_else(|| unknown_conversation(session.as_str()))?;
        self.check_agent(&record.agent)?;
        self.check_functions(&record)?;
        if let Some(model) = self.other_model(&record) {
            self.choose(session, model).await?;
        }
        let follow = self.prompt(session, &record.agent, None).await?;
        Ok((follow, record.agent))
    }

    async fn go_on_from(
        &mut self,
        previous: &str,
    ) -> Result<(FollowedRequest, String), GatewayError> {
        let unknown = || unknown_previous(previous);
        let name: ResponseName = previous.parse().map_err(|_| unknown())?;
        let record = self.record(&name.session).await?.ok_or_else(unknown)?;
        self.check_agent(&record.agent)?;
        self.check_functions(&record)?;
        let model = self.other_model(&record);
        let agent = record.agent;
        let mut head = None;
        for _ in 0..LOOKS {
            let cut = match ResponsePlace::of(&**self.services.store, &name).await? {
                ResponsePlace::Absent => return Err(unknown()),
                ResponsePlace::Running => return Err(unfinished(previous)),
                ResponsePlace::Asking { question } => return Err(unanswered(previous, &question)),
                // Others who go on from it must not get another model.
                ResponsePlace::Last { head } if model.is_some() => head,
                // The same as before, and yet it was not taken: something waits.
                ResponsePlace::Last { head: same } if head == Some(same) => same,
                ResponsePlace::Last { head: now } => {
                    head = Some(now);
                    match self.prompt(&name.session, &agent, Some(now)).await {
                        Err(GatewayError::Moved) => continue,
                        Err(GatewayError::Door(fault)) if fault.code == CLOSED => now,
                        outcome => return Ok((outcome?, agent)),
                    }
                }
                ResponsePlace::Followed { end } => {
                    // It may be this very request that follows.
                    if let Some(joined) = self.joined(&name.session, &agent).await? {
                        return Ok((joined, agent));
                    }
                    end
                }
            };
            let child = self.fork(&name.session, cut).await?;
            if let Some(model) = model {
                self.choose(&child, model).await?;
            }
            let follow = self.prompt(&child, &agent, None).await?;
            return Ok((follow, agent));
        }
        let text = "the session changes too fast to go on from it: try again";
        Err(fault(FaultKind::Conflict, "conversation_moved", None, text))
    }

    /// The session goes on with this request since an earlier try.
    async fn joined(
        &mut self,
        session: &SessionId,
        agent: &str,
    ) -> Result<Option<FollowedRequest>, GatewayError> {
        if self.key.is_none() {
            return Ok(None);
        }
        let terms = DoorTerms {
            joins: true,
            ..self.call.terms()
        };
        match self.prompt_on(session, agent, terms).await {
            Err(GatewayError::Moved) => Ok(None),
            Err(GatewayError::Door(fault)) if fault.code == CLOSED => Ok(None),
            outcome => outcome.map(Some),
        }
    }

    async fn fork(&mut self, parent: &SessionId, cut: u64) -> Result<SessionId, GatewayError> {
        let params = json!({ "sessionId": parent });
        let outcome = self.call.fork(&params, Some(cut)).await?;
        match outcome.opens() {
            Some(child) => Ok(child.clone()),
            None => Err(refused(outcome)),
        }
    }

    async fn prompt(
        &mut self,
        session: &SessionId,
        agent: &str,
        at_rest: Option<u64>,
    ) -> Result<FollowedRequest, GatewayError> {
        let terms = DoorTerms {
            at_rest,
            ..self.call.terms()
        };
        self.prompt_on(session, agent, terms).await
    }

    async fn prompt_on(
        &mut self,
        session: &SessionId,
        agent: &str,
        door: DoorTerms<'a>,
    ) -> Result<FollowedRequest, GatewayError> {
        let mut blocks = self.request.input.blocks.clone();
        let terms = self.terms(agent.to_owned()).meta();
        blocks[0]["_meta"] = serde_json::from_str(&terms).expect("made of what was JSON");
        let params = json!({ "sessionId": session, "prompt": blocks });
        let message = compose::request(PROMPT, "session/prompt", params);
        match self.call.send(message, door).await? {
            MethodOutcome::Follow(follow) => Ok(follow),
            other => Err(refused(other)),
        }
    }

    fn terms(&self, agent: String) -> ResponseTerms {
        let fields = self.request.fields.iter();
        ResponseTerms {
            at: self.call.access.connection.issued,
            model: self.request.model.clone().unwrap_or(agent),
            previous: self.request.previous.clone(),
            fields: fields
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        }
    }

    async fn record(&self, session: &SessionId) -> Result<Option<SessionRecord>, GatewayError> {
        let caller = &self.call.access.caller;
        let record = self
            .services
            .store
            .record(session, &caller.principal)
            .await?;
        Ok(record.filter(|record| caller.rights().allow(&record.agent)))
    }

    /// The model that was asked for, if the session has another one.
    fn other_model(&self, record: &SessionRecord) -> Option<&'a str> {
        let model = self.request.option()?;
        let view: Value = serde_json::from_slice(&record.view).unwrap_or_default();
        let mut options = view["configOptions"].as_array().into_iter().flatten();
        let current = options.find(|option| option["category"] == "model");
        let same = current.is_some_and(|option| option["currentValue"] == model);
        (!same).then_some(model)
    }

    /// A session has its MCP servers from its beginning.
    fn check_functions(&self, record: &SessionRecord) -> Result<(), GatewayError> {
        let servers = record.setup.mcp_servers.as_ref().unwrap_or(&record.params);
        let offered = format!("\"{}\"", meta::FUNCTIONS_SERVER);
        if !self.has_tools() || memchr::memmem::find(servers, offered.as_bytes()).is_some() {
            return Ok(());
        }
        let text = "this conversation was begun elsewhere, or its agent takes no functions of \
            clients: begin another one with them";
        Err(unsupported("tools", text))
    }

    fn has_tools(&self) -> bool {
        let tools = self.request.fields.get("tools");
        tools.is_some_and(|tools| tools.get() != "[]")
    }

    /// A session stays with the agent it was made for.
    fn check_agent(&self, agent: &str) -> Result<(), GatewayError> {
        match self.request.agent() {
            Some(model) if model != agent => Err(invalid(
                "model",
                format!("this conversation is with {agent}: name that model, or none"),
            )),
            _ => Ok(()),
        }
    }
}

const CLOSED: &str = "session_closed";

fn unanswered(previous: &str, question: &str) -> GatewayError {
    let text = format!(
        "{previous} waits for an answer: send a function_call_output for {CALL}{question}, or a \
         mcp_approval_response for {APPROVAL}{question}"
    );
    fault(FaultKind::Invalid, "no_tool_output", Some("input"), text)
}

fn unfinished(previous: &str) -> GatewayError {
    let text = format!("{previous} has not ended: wait for it, or cancel it");
    let param = Some("previous_response_id");
    fault(
        FaultKind::Conflict,
        "previous_response_not_finished",
        param,
        text,
    )
}
