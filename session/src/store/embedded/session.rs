//! One session and the steps on it, as plain functions of its state.

use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use self::inbox::KnownCommand;
pub use self::parties::{SessionParties, SessionParty};
use super::backend::note_use;
use crate::clock::unix_millis;
use crate::command::{Command, IdempotencyKey, QueuedCommand};
use crate::id::{ConnectionId, SessionId};
use crate::route::DeliveryPath;
use crate::store::{
    AttachOutcome, AttachParams, AttachRequest, Attachment, Claim, ClaimToken, Claimant,
    KEPT_ATTACH_REQUESTS, NewSession, RunningTurn, SeenPosition, SessionSetup, VanishedHolders,
    WorkerId,
};

mod append;
mod inbox;
mod lifecycle;
mod parties;
mod weight;

/// The session without its frames, which the backend has. Skipped fields end with this process,
/// fields with a default are not in the records of the first version.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct StoredSession {
    pub principal: String,
    pub agent: String,
    cwd: String,
    params: Bytes,
    state: Bytes,
    view: Bytes,
    title: String,
    pub head: u64,
    /// Kept apart from the rest: a command may be large.
    #[serde(skip)]
    pub inbox: Vec<QueuedCommand>,
    /// Bytes put into the inbox since it was last empty.
    #[serde(skip)]
    inbox_bytes: u64,
    last_command: u64,
    /// The last idempotency keys, and those of commands that still wait.
    known: Vec<KnownCommand>,
    #[serde(skip)]
    pub lease: Option<Lease>,
    /// Its place in the queue for a worker.
    #[serde(skip)]
    pub waits: Option<u64>,
    /// The claim that gave the session up last: its repeated append is a duplicate, not a trespass.
    #[serde(skip)]
    released_by: Option<ClaimToken>,
    running: Option<RunningTurn>,
    /// Somebody has it who has not given it up.
    held: bool,
    /// Since it was claimed, its holder has renewed its lease.
    #[serde(default)]
    renewed: bool,
    /// Holders in a row that vanished, and the end of the log then.
    #[serde(default)]
    vanished: VanishedHolders,
    #[serde(default)]
    vanished_at: u64,
    /// When a turn last ended or a client came, in milliseconds since 1970.
    pub used: u64,
    pending: Vec<u64>,
    controller: Option<ConnectionId>,
    pub parties: SessionParties,
    #[serde(default)]
    pub standing: SessionStatus,
    /// Earlier versions did not write it down.
    #[serde(default)]
    closed_by: Option<ConnectionId>,
    /// Replaces values of the params; set by loads, resumes and forks.
    #[serde(default)]
    pub setup: SessionSetup,
    #[serde(default)]
    usage: Bytes,
    #[serde(default)]
    bound: Bytes,
    /// The agent's state before the running turn, if it has changed since.
    #[serde(default)]
    before: Option<AgentState>,
    /// When it was created or its last turn ended, in milliseconds since 1970.
    #[serde(default)]
    pub updated: u64,
    #[serde(default)]
    pub origin: Option<ForkOrigin>,
    /// Of its own log: what it shares with its parent is not counted. Nor is what earlier versions
    /// have written.
    #[serde(default)]
    log_bytes: u64,
    /// Where modes and options have changed. The first versions did not write it down.
    #[serde(default)]
    shown: Option<String>,
}

/// The lifecycle state of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionStatus {
    #[default]
    Open,
    /// Until somebody loads or resumes it.
    Closed,
    /// It is being taken in since this time, and nobody sees it yet.
    Arriving(u64),
    /// Since this time, nobody sees it any more.
    Deleted(u64),
}

/// The agent's state, and the modes and options that it shows.
#[derive(Clone, Serialize, Deserialize)]
pub struct AgentState {
    state: Bytes,
    view: Bytes,
}

/// Where a fork comes from.
#[derive(Clone, Serialize, Deserialize)]
pub struct ForkOrigin {
    parent: SessionId,
    /// The last event that it shares.
    pub cut: u64,
    /// How many ancestors it has.
    generation: usize,
    /// The view in the answer to the fork.
    #[serde(default)]
    view: Bytes,
}

#[derive(Clone)]
pub struct Lease {
    pub worker: WorkerId,
    pub token: ClaimToken,
    pub expires: Instant,
}

impl Lease {
    fn of(claimant: &Claimant) -> Self {
        Self {
            worker: claimant.worker.clone(),
            token: claimant.token.clone(),
            expires: Instant::now() + claimant.lease,
        }
    }
}

impl StoredSession {
    pub fn create(new: &NewSession, first: &Command, key: &IdempotencyKey) -> Self {
        let creator = &first.connection;
        let via = if new.one_shot {
            DeliveryPath::OneShot
        } else {
            DeliveryPath::Connection
        };
        let now = unix_millis();
        let mut session = Self {
            principal: new.principal.clone(),
            agent: new.agent.clone(),
            cwd: new.cwd.clone(),
            params: new.params.clone(),
            setup: SessionSetup {
                mcp_servers: None,
                directories: Some(new.directories.clone()).filter(|given| !given.is_empty()),
            },
            used: now,
            updated: now,
            shown: Some(String::new()),
            controller: Some(creator.clone()),
            parties: SessionParties::of(creator.clone(), SessionParty::reading_from(1, true)),
            ..Self::default()
        };
        session.accept(first, via, key);
        session
    }

    /// Puts a session together that an earlier process has left.
    pub fn revive(mut self, inbox: Vec<QueuedCommand>) -> Self {
        self.inbox_bytes = inbox
            .iter()
            .map(|queued| queued.command.message.len() as u64)
            .sum();
        self.inbox = inbox;
        self
    }

    /// Notes that it is used; what was noted before, if that is too long ago to stand.
    pub fn use_now(&mut self) -> Option<u64> {
        note_use(&mut self.used)
    }

    /// Somebody works on it, has asked something of it, or listens.
    pub fn is_busy(&self) -> bool {
        let now = Instant::now();
        let listens =
            |party: &SessionParty| party.stream.as_ref().is_some_and(|(_, until)| *until > now);
        self.lease.is_some() || !self.inbox.is_empty() || self.parties.any(listens)
    }

    /// A turn runs, or something waits.
    pub fn has_work(&self) -> bool {
        self.running.is_some() || !self.inbox.is_empty()
    }

    pub fn attach(&mut self, request: &AttachParams) -> AttachOutcome {
        if !self.is_for(&request.principal) {
            return AttachOutcome::NotFound;
        }
        let opens = self.standing == SessionStatus::Closed && !request.observe;
        if opens && request.only_open {
            return AttachOutcome::Closed;
        }
        let anywhere = request.observe && request.cwd.is_empty();
        if self.cwd != request.cwd && !anywhere {
            return AttachOutcome::WrongCwd(self.cwd.clone());
        }
        let head = self.head;
        let party = self.parties.join(&request.connection);
        // An observer with one-shot reads comes repeatedly as the same connection, and wants all
        // events up to now.
        let anew = request.observe && request.one_shot;
        let mut directives = party.directives.iter();
        if anew || !directives.any(|directive| directive.request == request.request) {
            let Some(via) = party.choose_stream(request.watched) else {
                return AttachOutcome::Unwatched { head };
            };
            party.route.attach(head + 1, via);
            let last = party
                .directives
                .last()
                .map_or(0, |directive| directive.number);
            if party.directives.len() >= KEPT_ATTACH_REQUESTS {
                party.directives.remove(0);
            }
            if !request.request.is_empty() {
                party.directives.push(AttachRequest {
                    number: last + 1,
                    upto: head,
                    replay: request.replay,
                    via: if request.one_shot {
                        DeliveryPath::OneShot
                    } else {
                        via
                    },
                    request: request.request.clone(),
                });
            }
            if !request.observe {
                self.control(&request.connection);
                self.change_setup(&request.setup);
                self.standing = SessionStatus::Open;
            }
        }
        AttachOutcome::Done(Box::new(self.attachment(&request.connection)))
    }

    fn is_closed_by(&self, connection: &ConnectionId) -> bool {
        self.standing == SessionStatus::Closed && self.closed_by.as_ref() == Some(connection)
    }

    /// False if it is open, somebody else has closed it, there is more to come, or something may be
    /// on its way.
    pub fn unwatch(&mut self, connection: &ConnectionId, watch: u64, seen: SeenPosition) -> bool {
        let rests = self.is_closed_by(connection) && self.inbox.is_empty();
        let heard = rests && self.head == seen.upto;
        let Some(party) = self.parties.hear_of(connection).filter(|_| heard) else {
            return false;
        };
        let mut directives = party.directives.iter();
        let answered = directives.all(|directive| directive.number <= seen.directive);
        if answered && std::mem::take(&mut party.watched) {
            party.left = watch;
        }
        answered && party.left == watch
    }

    pub fn attachment(&self, connection: &ConnectionId) -> Attachment {
        let party = self.parties.get(connection);
        Attachment {
            head: self.head,
            route: party.map(|party| party.route.clone()).unwrap_or_default(),
            controller: self.controller.clone(),
            directives: party
                .map(|party| party.directives.clone())
                .unwrap_or_default(),
            view: self.view.clone(),
            pending: self.pending.clone(),
            deleted: matches!(self.standing, SessionStatus::Deleted(_)),
            closed: self.is_closed_by(connection),
            left: party.map_or(0, |party| party.left),
        }
    }

    pub fn claim(&mut self, id: &SessionId, claimant: &Claimant) -> Option<Claim> {
        let now = Instant::now();
        if let Some(lease) = &self.lease {
            let ours = lease.token == claimant.token;
            if ours {
                return Some(self.claimed(id, claimant));
            }
            if lease.expires > now || claimant.takes_over.is_none() || self.is_arriving() {
                return None;
            }
        } else if self.inbox.is_empty() {
            return None;
        }
        self.count_vanished();
        self.held = true;
        self.renewed = false;
        Some(self.claimed(id, claimant))
    }

    fn claimed(&mut self, id: &SessionId, claimant: &Claimant) -> Claim {
        self.lease = Some(Lease::of(claimant));
        Claim {
            session: id.clone(),
            token: claimant.token.clone(),
            principal: self.principal.clone(),
            head: self.head,
            cwd: self.cwd.clone(),
            params: self.params.clone(),
            setup: self.setup.clone(),
            state: self.state.clone(),
            bound: self.bound.clone(),
            running: self.running,
            vanished: self.vanished,
            inbox: self.inbox.clone(),
        }
    }

    fn count_vanished(&mut self) {
        if self.vanished_at != self.head {
            self.vanished = VanishedHolders::default();
            self.vanished_at = self.head;
        }
        if self.held {
            // Waiting for somebody's answer is no sign of trouble.
            let asks = !self.pending.is_empty();
            if self.renewed {
                self.vanished.at_once = 0;
            } else {
                self.vanished.at_once += u32::from(!asks);
            }
            self.vanished.working += u32::from(!(self.renewed && asks));
        }
    }

    /// Extends the lease. `None` if the session is not held under this token, else whether that is
    /// to be saved: that its holder has lived so long is remembered beyond this process.
    pub fn renew(&mut self, token: &ClaimToken, lease: Duration) -> Option<bool> {
        let held = self.lease.as_mut().filter(|held| held.token == *token)?;
        held.expires = Instant::now() + lease;
        Some(!std::mem::replace(&mut self.renewed, true))
    }
}
