//! A tool is called.

use std::sync::Arc;
use std::time::Duration;

use baton_protocol::limits::echo;
use baton_protocol::{ErrorCode, Method, meta};
use baton_session::clock::unix_millis;
use serde_json::{Map, Value, json};

use super::arguments::{
    ContinueArguments, ListArguments, NoArguments, ReadArguments, SessionArguments, StartArguments,
    StatusArguments, read, wait,
};
use super::call::{ConversationScope, McpClientCall, trace_meta};
use super::fault::{AcpRefusal, CallError, RpcFault, unknown_session};
use super::named_session::{self, readable, record_read, reopen, resolve};
use super::results;
use super::turn_feed::TurnFeed;
use super::turn_reference::{FollowedCall, TurnReference};
use super::{questions, transcript, turn_lookup};
use crate::stream::one_shot::FollowedRequest;

/// How long a call waits for its turn if its client hears nothing meanwhile: many give up after a
/// minute.
const SILENT_WAIT: Duration = Duration::from_secs(50);

/// `params` of `tools/call`.
pub struct ToolCall {
    pub name: String,
    pub arguments: Map<String, Value>,
    pub meta: Map<String, Value>,
}

pub enum ToolReply {
    Result(Value),
    /// The turn is under way, and its result comes with its end.
    Turn(Box<PromptedTurn>),
}

/// A turn that a call waits for.
pub struct PromptedTurn {
    pub follow: FollowedCall,
    pub wait: Option<Duration>,
    /// This call has asked for it, and may be answered with a task.
    pub is_new: bool,
    /// Questions that are answered, though the log may not say so yet.
    pub answered: Vec<Arc<str>>,
}

impl ToolCall {
    pub fn read(params: &Map<String, Value>) -> Result<Self, RpcFault> {
        let object = |name: &str| match params.get(name) {
            None | Some(Value::Null) => Ok(Map::new()),
            Some(Value::Object(fields)) => Ok(fields.clone()),
            Some(_) => Err(RpcFault::invalid(format!(
                "params.{name} must be an object"
            ))),
        };
        let name = params.get("name").and_then(Value::as_str);
        let name = name.ok_or_else(|| RpcFault::invalid("params.name must name a tool"))?;
        Ok(Self {
            name: name.into(),
            arguments: object("arguments")?,
            meta: object("_meta")?,
        })
    }

    fn progress(&self) -> Option<Arc<str>> {
        let token = self.meta.get("progressToken")?;
        let plain = token.is_string() || token.is_number();
        let token = plain.then(|| token.to_string())?;
        (token.len() <= super::call::MAX_ID).then(|| token.into())
    }

    /// Carried out up to where a turn has to be waited for.
    pub async fn carry_out(mut self, call: &McpClientCall) -> Result<ToolReply, CallError> {
        let arguments = std::mem::take(&mut self.arguments);
        let reply = match self.name.as_str() {
            "list_agents" => list_agents(call, read(arguments)?).await?,
            "start" => return self.start(call, read(arguments)?).await,
            "continue" => return self.go_on(call, read(arguments)?).await,
            "status" => return self.status(call, read(arguments)?).await,
            "read" => page(call, read(arguments)?).await?,
            "cancel" => cancel(call, read(arguments)?).await?,
            "list_sessions" => list_sessions(call, read(arguments)?).await?,
            "close" => close(call, read(arguments)?).await?,
            name => {
                let name = echo(name);
                let text = format!("there is no tool {name}: tools/list has those that there are");
                return Err(RpcFault::invalid(text).into());
            }
        };
        Ok(ToolReply::Result(results::of_fields(reply)))
    }

    /// The same call again, with answers that were given meanwhile.
    pub fn resume(
        &self,
        call: &McpClientCall,
        turn: TurnReference,
        answered: Vec<Arc<str>>,
    ) -> ToolReply {
        let mut prompted = self.prompted(call, turn, None, false);
        prompted.answered = answered;
        prompted.into_reply()
    }

    async fn start(
        &self,
        call: &McpClientCall,
        arguments: StartArguments,
    ) -> Result<ToolReply, CallError> {
        let agent = agent(call, arguments.agent.as_deref())?;
        let cwd = arguments.cwd.as_deref();
        let cwd = cwd.unwrap_or(&call.services.options.cwd);
        let (session, is_new) = match call.scope {
            ConversationScope::Shared => {
                let (session, exists) = named_session::shared(call, agent).await?;
                if !exists {
                    call.create(agent, cwd, Some(&session)).await?;
                }
                (session, !exists)
            }
            ConversationScope::Connection | ConversationScope::Request => {
                (call.create(agent, cwd, None).await?, true)
            }
        };
        let throw_away = call.scope == ConversationScope::Request;
        let prompted = self.prompt(call, session.as_str(), &arguments.prompt).await;
        match prompted {
            Ok(follow) => self.turn(call, follow, wait(arguments.wait_seconds), throw_away),
            Err(error) => {
                // A prompt that was known would have been let in: nobody has ever used the session.
                let limited = |it: &AcpRefusal| it.is(ErrorCode::LimitReached);
                let unused = matches!(&error, CallError::Refused(why) if limited(why));
                if is_new && unused {
                    let params = json!({ "sessionId": session });
                    let _ = call.ask("undo", Method::DeleteSession, params).await;
                }
                Err(error)
            }
        }
    }

    async fn go_on(
        &self,
        call: &McpClientCall,
        arguments: ContinueArguments,
    ) -> Result<ToolReply, CallError> {
        let mut session = resolve(call, arguments.session).await?;
        if arguments.prompt.is_none() && arguments.answers.is_empty() {
            let text = "nothing to send: pass a prompt, or answers to the agent's questions";
            return Err(CallError::Tool(text.into()));
        }
        let answered = answer(call, &session, &arguments.answers).await?;
        if arguments.fork || arguments.fork_at.is_some() {
            session = fork(call, &session, arguments.fork_at).await?;
        }
        let wait = wait(arguments.wait_seconds);
        match arguments.prompt {
            Some(prompt) => {
                let follow = self.prompt(call, &session, &prompt).await?;
                self.turn(call, follow, wait, false)
            }
            None => self.watch(call, &session, wait, answered).await,
        }
    }

    /// Puts the prompt into the session, which is opened if it was closed.
    async fn prompt(
        &self,
        call: &McpClientCall,
        session: &str,
        prompt: &str,
    ) -> Result<FollowedRequest, CallError> {
        let mut params = json!({
            "sessionId": session,
            "prompt": [{ "type": "text", "text": prompt }],
        });
        let trace = trace_meta(&self.meta);
        if trace.as_object().is_some_and(|trace| !trace.is_empty()) {
            params["_meta"] = trace;
        }
        let first = call.follow("prompt", Method::Prompt, params.clone()).await;
        match first {
            Ok(follow) => Ok(follow),
            Err(error) => {
                reopen(call, error, session).await?;
                call.follow("prompt", Method::Prompt, params).await
            }
        }
    }

    fn turn(
        &self,
        call: &McpClientCall,
        follow: FollowedRequest,
        wait: Option<Duration>,
        throw_away: bool,
    ) -> Result<ToolReply, CallError> {
        let turn = TurnReference::of(&follow, unix_millis());
        let turn = turn.ok_or_else(|| RpcFault::internal("the prompt has no name"))?;
        let mut prompted = self.prompted(call, turn, wait, throw_away);
        prompted.is_new = true;
        Ok(prompted.into_reply())
    }

    fn prompted(
        &self,
        call: &McpClientCall,
        turn: TurnReference,
        wait: Option<Duration>,
        throw_away: bool,
    ) -> PromptedTurn {
        let progress = self.progress();
        let silent = progress.is_none() && !throw_away;
        let wait = wait.or(silent.then_some(SILENT_WAIT));
        PromptedTurn {
            follow: FollowedCall {
                turn,
                id: call.id.clone(),
                progress,
                throw_away,
            },
            wait: wait.filter(|_| !throw_away),
            is_new: false,
            answered: Vec::new(),
        }
    }

    async fn status(
        &self,
        call: &McpClientCall,
        arguments: StatusArguments,
    ) -> Result<ToolReply, CallError> {
        call.count()?;
        let session = resolve(call, arguments.session).await?;
        if let Some(limit) = wait(arguments.wait_seconds).filter(|limit| !limit.is_zero()) {
            return self.watch(call, &session, Some(limit), Vec::new()).await;
        }
        let (session, record) = readable(call, &session).await?;
        let found = turn_lookup::of_session(call, &session, &record).await?;
        Ok(ToolReply::Result(results::of_turn(
            &session,
            &found.reader,
            found.status,
            call.revision,
        )))
    }

    /// Waits for the end of the turn that works, if one does.
    async fn watch(
        &self,
        call: &McpClientCall,
        session: &str,
        wait: Option<Duration>,
        answered: Vec<Arc<str>>,
    ) -> Result<ToolReply, CallError> {
        let (session, record) = readable(call, session).await?;
        let store = &call.services.methods.store;
        let waiting = store.waiting_commands(&session).await?;
        if let Some(command) = waiting.first() {
            let began = record.began.map(|began| began - 1);
            let turn = TurnReference {
                head: began.unwrap_or(record.head),
                session,
                command: *command,
                connection: call.access.connection.id.clone(),
                request: "".into(),
                asked: unix_millis(),
            };
            let mut prompted = self.prompted(call, turn, wait, false);
            prompted.answered = answered;
            return Ok(prompted.into_reply());
        }
        let found = turn_lookup::of_session(call, &session, &record).await?;
        let result = results::of_turn(&session, &found.reader, found.status, call.revision);
        Ok(ToolReply::Result(result))
    }
}

impl PromptedTurn {
    fn into_reply(self) -> ToolReply {
        ToolReply::Turn(Box::new(self))
    }

    pub async fn open(self, call: McpClientCall) -> Result<TurnFeed, CallError> {
        let feed = TurnFeed::open(call, self.follow, None, self.wait).await?;
        Ok(feed.after_answers(self.answered))
    }
}

/// A call that names an agent at the path of another is a mistake.
fn agent<'a>(
    call: &'a McpClientCall,
    named: Option<&'a str>,
) -> Result<Option<&'a str>, CallError> {
    match (named, call.agent.as_deref()) {
        (Some(named), Some(path)) if named != path => Err(CallError::Tool(format!(
            "this endpoint is for the agent {path}: leave agent away"
        ))),
        (named, path) => Ok(named.or(path)),
    }
}

async fn list_agents(call: &McpClientCall, _: NoArguments) -> Result<Value, CallError> {
    call.count()?;
    let rights = call.access.caller.rights();
    let directory = call.services.methods.agents.directory(rights).await?;
    let here = |name: &str| call.agent.as_deref().is_none_or(|path| path == name);
    let cards = directory.agents.iter().filter(|(card, _)| here(&card.name));
    let agents = cards.map(|(card, workers)| {
        let mut entry = json!({
            "name": card.name,
            "version": card.version,
            "default": directory.is_default(card),
            "workers": workers,
        });
        if let Some(title) = card.initialize["agentInfo"]["title"].as_str() {
            entry["title"] = json!(title);
        }
        entry
    });
    Ok(json!({ "agents": agents.collect::<Vec<_>>() }))
}

async fn fork(
    call: &McpClientCall,
    session: &str,
    at: Option<String>,
) -> Result<String, CallError> {
    let mut params = json!({ "sessionId": session });
    if let Some(at) = at {
        params["_meta"] = json!({ meta::FORK: { "atMessageId": at } });
    }
    let forked = call.ask("fork", Method::ForkSession, params).await;
    let forked = forked.map_err(|error| known(error, session))?;
    let child = forked["sessionId"].as_str();
    let child = child.ok_or_else(|| RpcFault::internal("the fork has no id"))?;
    Ok(child.into())
}

async fn answer(
    call: &McpClientCall,
    session: &str,
    answers: &Map<String, Value>,
) -> Result<Vec<Arc<str>>, CallError> {
    if answers.is_empty() {
        return Ok(Vec::new());
    }
    let (session, _) = readable(call, session).await?;
    for (id, given) in answers {
        let question = turn_lookup::question(call, &session, id).await?;
        let shown = echo(id);
        let missing = || format!("nobody waits for an answer to {shown}: look with status");
        let question = question.ok_or_else(|| CallError::Tool(missing()))?;
        let reply = questions::answer_plainly(&question, given);
        let unfit = || format!("{shown} takes the id of one of its options, or its form's fields");
        call.tell(reply.ok_or_else(|| CallError::Tool(unfit()))?)
            .await?;
    }
    Ok(answers.keys().map(|id| id.as_str().into()).collect())
}

async fn page(call: &McpClientCall, arguments: ReadArguments) -> Result<Value, CallError> {
    call.count()?;
    let session = resolve(call, arguments.session).await?;
    let (session, _) = readable(call, &session).await?;
    let from = match arguments.cursor {
        None => {
            record_read(call, &session);
            1
        }
        Some(cursor) => cursor.parse().map_err(|_| {
            CallError::Tool("cursor is not the nextCursor of a page: leave it away".into())
        })?,
    };
    let page = transcript::page(call, &session, from, arguments.limit).await?;
    let mut fields = json!({ "session": session, "entries": page.entries });
    if let Some(next) = page.next {
        fields["nextCursor"] = json!(next.to_string());
    }
    Ok(fields)
}

async fn cancel(call: &McpClientCall, arguments: SessionArguments) -> Result<Value, CallError> {
    let session = resolve(call, arguments.session).await?;
    let params = json!({ "sessionId": session });
    let sent = call.follow("cancel", Method::Cancel, params).await;
    sent.map_err(|error| known(error, &session))?;
    Ok(json!({ "session": session, "cancelled": true }))
}

async fn close(call: &McpClientCall, arguments: SessionArguments) -> Result<Value, CallError> {
    let session = resolve(call, arguments.session).await?;
    let params = json!({ "sessionId": session });
    let sent = call.follow("close", Method::CloseSession, params).await;
    sent.map_err(|error| known(error, &session))?;
    Ok(json!({ "session": session, "closed": true }))
}

pub async fn list_sessions(
    call: &McpClientCall,
    arguments: ListArguments,
) -> Result<Value, CallError> {
    let params = json!({ "cursor": arguments.cursor, "cwd": arguments.cwd });
    let listed = call.ask("list", Method::ListSessions, params).await?;
    let sessions = listed["sessions"].as_array().into_iter().flatten();
    let sessions = sessions.map(|entry| {
        let mut session = json!({
            "session": entry["sessionId"],
            "cwd": entry["cwd"],
            "updatedAt": entry["updatedAt"],
        });
        if let Some(title) = entry["title"].as_str() {
            session["title"] = json!(title);
        }
        session
    });
    let mut fields = json!({ "sessions": sessions.collect::<Vec<_>>() });
    if let Some(next) = listed["nextCursor"].as_str() {
        fields["nextCursor"] = json!(next);
    }
    Ok(fields)
}

/// A missing session has one text, whichever tool it was named to.
fn known(error: CallError, session: &str) -> CallError {
    match &error {
        CallError::Refused(refusal) if refusal.is(ErrorCode::ResourceNotFound) => {
            unknown_session(session)
        }
        _ => error,
    }
}
