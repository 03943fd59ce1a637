//! Histories of other tools, as `baton-histories` writes them: several sessions in a body, forks
//! after the session whose beginning they share.
//!
//! A session's id is made of its principal and its id in the other tool. So the same file brings
//! the same sessions, and nobody can ask by an import whether somebody else's session exists.

use std::path::Path;

use axum::body::Body;
use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::http::{Response, StatusCode, header};
use axum::response::IntoResponse as _;
use baton_histories::line::{HistoryHead, HistoryLine, TurnEnding};
use baton_protocol::limits::{self, MAX_MESSAGE, MAX_NAME, check, echo};
use baton_protocol::{UpdateKind, compose};
use baton_session::audit::Decision;
use baton_session::clock::unix_millis;
use baton_session::command::CommandId;
use baton_session::event::{Event, ResponseRecipient, TurnBegin};
use baton_session::field;
use baton_session::id::{ConnectionId, Partition, SessionId};
use baton_session::route::DeliveryPath;
use baton_session::store::{AdoptRequest, SessionRecord, SessionSetup, SharedLog};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::import::SessionImport;
use super::lines::BodyLines;
use crate::app::App;
use crate::auth::Caller;
use crate::error::GatewayError;
use crate::limits::{QuotaReservation, StorageBudget};

/// Sessions in one body.
const MOST_SESSIONS: usize = 1000;

/// The caller's wishes, in the query.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryWish {
    /// The agent that goes on; without it the default.
    agent: Option<String>,
    /// In place of the directory in the file.
    cwd: Option<String>,
    /// Under another name the same file makes other sessions.
    name: Option<String>,
}

struct HistoryIntake<'a> {
    app: &'a App,
    caller: &'a Caller,
    agent: String,
    wish: HistoryWish,
    /// The number of the line that is read.
    line: u64,
    current: Option<CurrentSession<'a>>,
    sessions: Vec<Value>,
}

struct CurrentSession<'a> {
    id: SessionId,
    head: HistoryHead,
    /// `None` if it is there already.
    import: Option<SessionImport<'a>>,
    _admitted: Option<QuotaReservation>,
    /// As clients are named that said this.
    teller: ConnectionId,
    events: u64,
    turns: u64,
    running: bool,
}

pub async fn take_in(
    app: &App,
    caller: &Caller,
    wish: Result<Query<HistoryWish>, QueryRejection>,
    lines: &mut BodyLines,
) -> Result<Response<Body>, GatewayError> {
    caller.require_control()?;
    let Query(wish) = wish.map_err(|fault| refused(limits::shorten(fault.body_text())))?;
    if !app.store.has_room().await? {
        return Err(GatewayError::StoreFull);
    }
    let mut budget = StorageBudget::default();
    if let Some(allowance) = &caller.allowance {
        allowance.request().map_or(Ok(()), Err)?;
        budget = allowance.storage(&*app.store).await??;
    }
    let directory = app.agents.directory(caller.rights()).await?;
    let agent = directory.choose(wish.agent.as_deref());
    let agent = agent.map_err(|missing| refused(missing.0))?.name.clone();
    let mut intake = HistoryIntake {
        app,
        caller,
        agent,
        wish,
        line: 0,
        current: None,
        sessions: Vec::new(),
    };
    let mut taken = 0;
    while let Some(line) = lines.next().await? {
        intake.line += 1;
        taken += line.len() as u64;
        budget.take(taken)?;
        if !line.trim_ascii().is_empty() {
            intake.take(&line).await?;
        }
    }
    intake.finish().await?;
    let created = intake
        .sessions
        .iter()
        .any(|session| session["created"] == true);
    let status = if created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    let answer = json!({ "sessions": intake.sessions }).to_string();
    let headers = [(header::CONTENT_TYPE, "application/json")];
    Ok((status, headers, answer).into_response())
}

impl<'a> HistoryIntake<'a> {
    async fn take(&mut self, line: &Bytes) -> Result<(), GatewayError> {
        let read: HistoryLine<&RawValue> = serde_json::from_slice(line)
            .map_err(|fault| self.fault(&format!("not a line of a history: {fault}")))?;
        if let HistoryLine::Session(head) = read {
            self.finish().await?;
            self.current = Some(self.begin(head).await?);
            return Ok(());
        }
        let number = self.line;
        let current = self.current.as_mut();
        let current = current.ok_or_else(|| at(number, "the head of a session comes first"))?;
        let event = current.event(read).map_err(|why| at(number, &why))?;
        current.events += 1;
        match &mut current.import {
            Some(import) => import.add(event, line.len()).await,
            None => Ok(()),
        }
    }

    async fn begin(&mut self, mut head: HistoryHead) -> Result<CurrentSession<'a>, GatewayError> {
        if self.sessions.len() == MOST_SESSIONS {
            return Err(self.fault(&format!("a body may have {MOST_SESSIONS} sessions")));
        }
        if let Some(cwd) = &self.wish.cwd {
            head.cwd.clone_from(cwd);
        }
        self.check(&head)?;
        let id = self.id(&head, &head.branch);
        let (app, principal) = (self.app, &self.caller.principal);
        let teller = ConnectionId::derived(id.partition(), id.as_str().as_bytes());
        let events = head.fork.as_ref().map_or(0, |fork| fork.after);
        let mut current = CurrentSession {
            id: id.clone(),
            import: None,
            _admitted: None,
            teller,
            events,
            turns: 0,
            running: false,
            head,
        };
        if app.store.record(&id, principal).await?.is_some() {
            return Ok(current);
        }
        if let Some(allowance) = &self.caller.allowance {
            current._admitted = allowance.session(&*app.store).await??;
        }
        let shares = self.shared(&current.head).await?;
        let adoption = AdoptRequest {
            id,
            principal: principal.to_string(),
            record: self.record(&current.head)?,
            shares,
        };
        current.import = SessionImport::adopt(app, adoption).await?;
        if current.import.is_some() {
            return Ok(current);
        }
        Err(self.fault(
            "this session is being imported by another request, or was deleted and is kept for \
             its forks: try again in a minute, or import under another name with name=…",
        ))
    }

    fn check(&self, head: &HistoryHead) -> Result<(), GatewayError> {
        let (source, branch) = (&head.source, &head.branch);
        let named = self.wish.name.as_deref().unwrap_or_default();
        for (field, text) in [("source", &**source), ("branch", branch), ("name", named)] {
            let checked = check(field, text.len(), MAX_NAME);
            checked.map_err(|fault| self.fault(&fault.to_string()))?;
        }
        let cwd = &head.cwd;
        if !Path::new(cwd).is_absolute() || cwd.contains('\0') {
            let why = format!(
                "{} is no absolute path here: name the session's directory with cwd=/…",
                echo(cwd)
            );
            return Err(self.fault(&why));
        }
        Ok(())
    }

    /// The id of a branch of the conversation: the same for the same caller, and for nobody else.
    fn id(&self, head: &HistoryHead, branch: &str) -> SessionId {
        let principal = &self.caller.principal;
        let named = (
            &**principal,
            head.from.name(),
            &self.wish.name,
            &head.source,
        );
        let seed = |branch: &str| json!(["history", named, branch]).to_string();
        // All branches are in one partition: they share logs.
        let first = SessionId::derived(Partition(0), seed("").as_bytes());
        let spread = first.as_str().bytes().fold(0_u32, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(u32::from(byte))
        });
        let partition = spread % u32::from(self.app.store.partitions().max(1));
        SessionId::derived(Partition(partition as u16), seed(branch).as_bytes())
    }

    async fn shared(&self, head: &HistoryHead) -> Result<Option<SharedLog>, GatewayError> {
        let Some(fork) = &head.fork else {
            return Ok(None);
        };
        let with = self.id(head, &fork.branch);
        let record = self.app.store.record(&with, &self.caller.principal).await?;
        let Some(record) = record else {
            return Err(self.fault("the branch that this one leaves is not there"));
        };
        if record.head < fork.after {
            let why = format!(
                "session {with}, which this one leaves, was imported when the file was shorter: \
                 delete it first, or import under another name with name=…"
            );
            return Err(self.fault(&why));
        }
        let upto = fork.after;
        Ok(Some(SharedLog { with, upto }))
    }

    fn record(&self, head: &HistoryHead) -> Result<SessionRecord, GatewayError> {
        let now = unix_millis();
        // A list has nothing from the future.
        let updated = if head.updated == 0 {
            now
        } else {
            head.updated.min(now)
        };
        let record = SessionRecord {
            agent: self.agent.clone(),
            cwd: head.cwd.clone(),
            params: json!({ "cwd": head.cwd, "mcpServers": [] })
                .to_string()
                .into(),
            setup: SessionSetup::default(),
            state: Bytes::new(),
            view: Bytes::new(),
            shown: None,
            title: limits::cut_title(&head.title).to_owned(),
            usage: Bytes::new(),
            bound: Bytes::new(),
            head: 0,
            updated,
            began: None,
        };
        let checked = field::check_record(&record);
        checked.map_err(|fault| self.fault(&fault.to_string()))?;
        Ok(record)
    }

    /// The current one is complete.
    async fn finish(&mut self) -> Result<(), GatewayError> {
        let Some(mut current) = self.current.take() else {
            return Ok(());
        };
        if current.running {
            return Err(self.fault("the last turn of a session has no end"));
        }
        let created = current.import.is_some();
        if let Some(import) = current.import.take() {
            let session = import.finish(None).await?;
            let agent = self.agent.clone();
            self.app.audit.record_done(self.caller, None, || {
                let agent = agent.into();
                Decision::SessionImported { session, agent }
            });
        }
        let head = current.head;
        self.sessions.push(json!({
            "sessionId": current.id,
            "created": created,
            "source": head.source,
            "branch": head.branch,
            "live": head.live,
            "title": head.title,
            "cwd": head.cwd,
            "events": current.events,
            "turns": current.turns,
        }));
        Ok(())
    }

    fn fault(&self, why: &str) -> GatewayError {
        at(self.line, why)
    }
}

impl CurrentSession<'_> {
    fn event(&mut self, line: HistoryLine<&RawValue>) -> Result<Event, String> {
        Ok(match line {
            HistoryLine::Begin if self.running => return Err("the turn before has no end".into()),
            HistoryLine::Begin => {
                self.running = true;
                self.turns += 1;
                Event::Begin(TurnBegin {
                    command: CommandId {
                        number: self.turns,
                        nonce: 0,
                    },
                    connection: self.teller.clone(),
                    via: DeliveryPath::Session,
                })
            }
            HistoryLine::User(update) => Event::Echo {
                by: self.teller.clone(),
                message: self.message(update, true)?,
                at: None,
            },
            HistoryLine::Update(update) => Event::Update {
                turn: self.running,
                message: self.message(update, false)?,
            },
            HistoryLine::End(_) if !self.running => return Err("no turn has begun".into()),
            HistoryLine::End(ending) => {
                self.running = false;
                self.ended(&ending)
            }
            HistoryLine::Session(_) => return Err("a session in a session".into()),
        })
    }

    fn message(&self, update: &RawValue, of_user: bool) -> Result<Bytes, String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct UpdateKindOnly<'a> {
            #[serde(borrow)]
            session_update: std::borrow::Cow<'a, str>,
        }
        let kind: UpdateKindOnly<'_> =
            serde_json::from_str(update.get()).map_err(|fault| format!("no update: {fault}"))?;
        let said_by_user = UpdateKind::of(&kind.session_update) == UpdateKind::UserMessageChunk;
        if said_by_user != of_user {
            return Err("words of the user are \"user\", all else is \"update\"".into());
        }
        let message = compose::update(self.id.as_str(), update);
        if message.len() > MAX_MESSAGE {
            return Err(limits::MAX_MESSAGE_TEXT.into());
        }
        Ok(message)
    }

    fn ended(&self, ending: &TurnEnding) -> Event {
        let request = self.turns.to_string();
        let result = json!(ending).to_string();
        Event::Response {
            message: compose::result(&request, result.as_bytes()),
            to: ResponseRecipient {
                connection: self.teller.clone(),
                request: request.into(),
                via: DeliveryPath::Session,
                trace: None,
                at: None,
            },
            turn: true,
        }
    }
}

fn at(line: u64, why: &str) -> GatewayError {
    refused(format!("line {line}: {}", limits::shorten(why.to_owned())))
}

fn refused(why: String) -> GatewayError {
    GatewayError::Archive(why)
}
