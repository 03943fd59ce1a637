//! The steps on a session, and how they are applied to a store.

use std::sync::Arc;
use std::time::Duration;

use baton_session::command::{ClientCapabilities, Command, CommandId, CommandKind, IdempotencyKey};
use baton_session::event::{Event, ResponseRecipient, TurnBegin};
use baton_session::id::{ConnectionId, LogId, Nonce, SessionId};
use baton_session::route::DeliveryPath;
use baton_session::store::{
    AppendOutcome, AppendRequest, AttachOutcome, AttachParams, Attachment, ClaimToken, Claimant,
    EnqueueOutcome, EnqueueRequest, INBOX_LIMIT, NewSession, RunningTurn, SessionSetup, Store,
    StreamId, StreamTouch, WorkerId,
};
use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;

pub const CWD: &str = "/project";
pub const PRINCIPAL: &str = "somebody";
const HOUR: Duration = Duration::from_secs(3600);

pub struct Cast {
    pub session: SessionId,
    /// Nobody else's, so that "any" session is this one.
    pub agent: String,
    /// The first one created the session.
    pub connections: [ConnectionId; 2],
}

/// Connections, tokens, keys and so on are numbers from small ranges, so that they meet again.
#[derive(Clone, Debug)]
pub enum Step {
    Enqueue {
        by: usize,
        key: u8,
        fingerprint: u8,
        urgent: bool,
        one_shot: bool,
        watched: bool,
        foreign: bool,
    },
    /// With a lease that lasts, or one that is over at once.
    Claim {
        token: u8,
        lasting: bool,
        any: bool,
    },
    Renew {
        token: u8,
    },
    /// `offset` says how far `first` is from where it should be.
    Append {
        token: u8,
        offset: i64,
        events: Vec<Write>,
        acks: Vec<u64>,
        pending: Option<u64>,
        release: bool,
    },
    Release {
        token: u8,
    },
    Attach {
        by: usize,
        request: u8,
        replay: bool,
        one_shot: bool,
        watched: bool,
        elsewhere: bool,
    },
    Open {
        by: usize,
        holder: u8,
    },
    Touch {
        by: usize,
        holder: u8,
        written: u8,
    },
    Close {
        by: usize,
        holder: u8,
    },
}

#[derive(Clone, Debug)]
pub enum Write {
    Update,
    Begin {
        command: u64,
        by: usize,
        via: DeliveryPath,
    },
    End {
        by: usize,
    },
}

/// The outcome of a step, or the state after it.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    Enqueued(EnqueueOutcome),
    /// Head, running turn and the numbers that wait.
    Claimed(Option<(u64, Option<RunningTurn>, Vec<u64>)>),
    Lost(bool),
    Appended(AppendOutcome),
    Attached(Box<View>),
    Refused(AttachOutcome),
    Opened(Option<String>),
    Nothing,
    Looks {
        inbox: Vec<(u64, DeliveryPath)>,
        views: Vec<View>,
        frames: Vec<(u64, u64)>,
    },
}

#[derive(Debug, PartialEq)]
pub struct View {
    pub head: u64,
    /// By event number, from 1 to some beyond the head.
    pub ways: Vec<Option<DeliveryPath>>,
    /// Position in the cast.
    pub controller: Option<usize>,
    /// Number, upto, replay, via, request.
    pub directive: Option<(u64, u64, bool, DeliveryPath, String)>,
    pub pending: Vec<u64>,
}

pub fn step() -> impl Strategy<Value = Step> {
    let flag = any::<bool>;
    let rare = || prop::bool::weighted(0.1);
    let via = prop_oneof![
        Just(DeliveryPath::Session),
        Just(DeliveryPath::Connection),
        Just(DeliveryPath::OneShot)
    ];
    let write = prop_oneof![
        2 => Just(Write::Update),
        2 => (1..4u64, 0..2usize, via).prop_map(|(command, by, via)| Write::Begin { command, by, via }),
        1 => (0..2usize).prop_map(|by| Write::End { by }),
    ];
    let offset = prop_oneof![6 => Just(0i64), 3 => -3..=-1i64, 1 => 1..=2i64];
    let acks = vec(1..8u64, 0..3);
    prop_oneof![
        6 => (0..2usize, 0..5u8, 0..2u8, flag(), rare(), flag(), rare()).prop_map(
            |(by, key, fingerprint, urgent, one_shot, watched, foreign)| {
                Step::Enqueue { by, key, fingerprint, urgent, one_shot, watched, foreign }
            }
        ),
        5 => (0..3u8, flag(), flag()).prop_map(|(token, lasting, any)| Step::Claim { token, lasting, any }),
        1 => (0..3u8).prop_map(|token| Step::Renew { token }),
        8 => (0..3u8, offset, vec(write, 0..4), acks, proptest::option::weighted(0.2, 1..9u64), flag()).prop_map(
            |(token, offset, events, acks, pending, release)| {
                Step::Append { token, offset, events, acks, pending, release }
            }
        ),
        1 => (0..3u8).prop_map(|token| Step::Release { token }),
        3 => (0..2usize, 0..3u8, flag(), rare(), flag(), rare()).prop_map(
            |(by, request, replay, one_shot, watched, elsewhere)| {
                Step::Attach { by, request, replay, one_shot, watched, elsewhere }
            }
        ),
        2 => (0..2usize, 0..2u8).prop_map(|(by, holder)| Step::Open { by, holder }),
        1 => (0..2usize, 0..2u8, 0..9u8).prop_map(|(by, holder, written)| Step::Touch { by, holder, written }),
        2 => (0..2usize, 0..2u8).prop_map(|(by, holder)| Step::Close { by, holder }),
    ]
}

/// Where an append that is `offset` off begins.
pub fn first(head: u64, offset: i64) -> u64 {
    (head + 1).saturating_add_signed(offset).max(1)
}

fn token(number: u8) -> ClaimToken {
    ClaimToken(format!("token{number}").into())
}

impl Cast {
    fn log(&self) -> LogId {
        LogId::Session(self.session.clone())
    }

    fn command(&self, by: usize, kind: CommandKind, request: &str) -> Command {
        Command {
            kind,
            connection: self.connections[by].clone(),
            request: Some(request.into()),
            client: ClientCapabilities::default(),
            taken_at: 1_700_000_000_000,
            trace: None,
            message: Bytes::new(),
        }
    }

    pub async fn create(&self, store: &Arc<dyn Store>) {
        let new = NewSession {
            id: self.session.clone(),
            principal: PRINCIPAL.into(),
            agent: self.agent.clone(),
            cwd: CWD.into(),
            params: Bytes::new(),
            directories: Bytes::new(),
            one_shot: false,
        };
        let key = IdempotencyKey {
            key: "new".into(),
            fingerprint: "0".into(),
        };
        store
            .create(&new, &self.command(0, CommandKind::New, "new"), &key)
            .await
            .unwrap();
    }

    /// The names of commands with these numbers, whether they wait or not.
    async fn named(&self, store: &Arc<dyn Store>, numbers: &[u64]) -> Vec<CommandId> {
        let waiting = store.waiting_commands(&self.session).await.unwrap();
        let name = |number: &u64| {
            let found = waiting.iter().find(|id| id.number == *number);
            found.copied().unwrap_or(CommandId::from(*number))
        };
        numbers.iter().map(name).collect()
    }

    fn event(&self, write: &Write) -> Event {
        let connection = |by: &usize| self.connections[*by].clone();
        match write {
            Write::Update => Event::Update {
                turn: true,
                message: Bytes::from_static(b"{}"),
            },
            Write::Begin { command, by, via } => Event::Begin(TurnBegin {
                command: (*command).into(),
                connection: connection(by),
                via: *via,
            }),
            Write::End { by } => {
                let to = ResponseRecipient {
                    connection: connection(by),
                    request: "1".into(),
                    via: DeliveryPath::Session,
                    trace: None,
                    at: None,
                };
                Event::Response {
                    to,
                    turn: true,
                    message: Bytes::from_static(b"{}"),
                }
            }
        }
    }

    fn touch(&self, by: usize, holder: u8, written: Option<u8>) -> StreamTouch {
        let connection = self.connections[by].clone();
        let stream = StreamId {
            connection,
            session: Some(self.session.clone()),
        };
        StreamTouch {
            stream,
            holder: holder.to_string(),
            written: written.map(|number| number.to_string()),
            delivered: None,
        }
    }

    pub async fn take(&self, store: &Arc<dyn Store>, step: &Step) -> Outcome {
        match step.clone() {
            Step::Enqueue {
                by,
                key,
                fingerprint,
                urgent,
                one_shot,
                watched,
                foreign,
            } => {
                let kind = if urgent {
                    CommandKind::Cancel
                } else {
                    CommandKind::Prompt
                };
                let request = EnqueueRequest {
                    session: self.session.clone(),
                    principal: if foreign { "stranger" } else { PRINCIPAL }.into(),
                    command: self.command(by, kind, &key.to_string()),
                    key: IdempotencyKey {
                        key: format!("k{key}"),
                        fingerprint: fingerprint.to_string(),
                    },
                    one_shot,
                    watched,
                    limit: INBOX_LIMIT,
                    about: None,
                    takes: Default::default(),
                    findable: true,
                };
                Outcome::Enqueued(without_nonce(store.enqueue(&request).await.unwrap()))
            }
            Step::Claim {
                token: number,
                lasting,
                any,
            } => {
                let claimant = Claimant {
                    worker: WorkerId(format!("worker{number}").into()),
                    agent: self.agent.clone(),
                    token: token(number),
                    lease: if lasting { HOUR } else { Duration::ZERO },
                    takes_over: Some(u64::MAX),
                };
                let due = store.due(self.session.partition(), &self.agent, 100);
                let is_due = due.await.unwrap().sessions.contains(&self.session);
                let claim = if any && !is_due {
                    None
                } else {
                    store.claim(&self.session, &claimant).await.unwrap()
                };
                Outcome::Claimed(claim.map(|claim| {
                    let numbers = claim.inbox.iter().map(|queued| queued.id.number);
                    (claim.head, claim.running, numbers.collect())
                }))
            }
            Step::Renew { token: number } => {
                let lost = store
                    .renew(&[(self.session.clone(), token(number))], HOUR)
                    .await
                    .unwrap();
                Outcome::Lost(!lost.is_empty())
            }
            Step::Append {
                token: number,
                offset,
                events,
                acks,
                pending,
                release,
            } => {
                let head = store.heads(&[self.log()]).await.unwrap()[0];
                let (session, token) = (self.session.clone(), token(number));
                let events = events.iter().map(|write| self.event(write)).collect();
                let append = AppendRequest {
                    acks: self.named(store, &acks).await,
                    pending: pending.map(|number| vec![number]),
                    release,
                    ..AppendRequest::new(session, token, Nonce(1), first(head, offset), events)
                };
                Outcome::Appended(store.append(&append).await.unwrap())
            }
            Step::Release { token: number } => {
                store.release(&self.session, &token(number)).await.unwrap();
                Outcome::Nothing
            }
            Step::Attach {
                by,
                request,
                replay,
                one_shot,
                watched,
                elsewhere,
            } => {
                let attach = AttachParams {
                    session: self.session.clone(),
                    principal: PRINCIPAL.into(),
                    connection: self.connections[by].clone(),
                    request: request.to_string().into(),
                    cwd: if elsewhere { "/elsewhere" } else { CWD }.into(),
                    replay,
                    one_shot,
                    watched,
                    setup: SessionSetup::default(),
                    observe: false,
                    only_open: false,
                };
                match store.attach(&attach).await.unwrap() {
                    AttachOutcome::Done(attachment) => {
                        Outcome::Attached(Box::new(self.view(*attachment)))
                    }
                    refused => Outcome::Refused(refused),
                }
            }
            Step::Open { by, holder } => {
                let touch = self.touch(by, holder, None);
                let opened = store
                    .open_stream(&touch.stream, PRINCIPAL, &touch.holder)
                    .await
                    .unwrap();
                Outcome::Opened(opened.expect("the session is there").written.cursor)
            }
            Step::Touch {
                by,
                holder,
                written,
            } => {
                store
                    .touch_streams(&[self.touch(by, holder, Some(written))])
                    .await
                    .unwrap();
                Outcome::Nothing
            }
            Step::Close { by, holder } => {
                store
                    .close_stream(&self.touch(by, holder, None))
                    .await
                    .unwrap();
                Outcome::Nothing
            }
        }
    }

    fn view(&self, attachment: Attachment) -> View {
        let position = |connection| {
            self.connections
                .iter()
                .position(|known| *known == connection)
        };
        View {
            head: attachment.head,
            ways: (1..attachment.head + 3)
                .map(|seq| attachment.route.at(seq))
                .collect(),
            controller: attachment.controller.clone().and_then(position),
            directive: attachment.latest().map(|directive| {
                let request = directive.request.to_string();
                (
                    directive.number,
                    directive.upto,
                    directive.replay,
                    directive.via,
                    request,
                )
            }),
            pending: attachment.pending,
        }
    }

    /// Everything that can be seen.
    pub async fn look(&self, store: &Arc<dyn Store>) -> Outcome {
        let inbox = store.inbox(&self.session, &[]).await.unwrap();
        let frames = store.read(&self.log(), 1, 1000).await.unwrap();
        let mut views = Vec::new();
        for connection in &self.connections {
            let attachment = store
                .attachment(&self.session, connection, PRINCIPAL)
                .await
                .unwrap();
            views.push(self.view(attachment.expect("the session is there")));
        }
        Outcome::Looks {
            inbox: inbox
                .iter()
                .map(|queued| (queued.id.number, queued.via))
                .collect(),
            views,
            frames: frames
                .iter()
                .map(|frame| (frame.first, frame.last()))
                .collect(),
        }
    }
}

/// The store draws it, so no two are the same.
fn without_nonce(outcome: EnqueueOutcome) -> EnqueueOutcome {
    match outcome {
        EnqueueOutcome::Accepted { command, head, via } => EnqueueOutcome::Accepted {
            command: command.number.into(),
            head,
            via,
        },
        EnqueueOutcome::Joined { command, head, via } => EnqueueOutcome::Joined {
            command: command.number.into(),
            head,
            via,
        },
        other => other,
    }
}
