//! One session and the steps on it, as plain functions of its state.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::shelf::note_use;
use crate::clock::unix_millis;
use crate::command::{Command, Idempotency, Queued};
use crate::event::{Event, Frame};
use crate::id::{ConnectionId, SessionId};
use crate::route::{Route, Via};
use crate::store::{
    Append, Appended, Attach, Attached, Attachment, Claim, ClaimToken, Claimant, Directive,
    Enqueue, Enqueued, INBOX_BYTES, INBOX_LIMIT, KEPT_DIRECTIVES, NewSession, REMEMBERED_KEYS,
    Running, WorkerId,
};

/// The frames are on the shelf. What is skipped ends with this process.
#[derive(Clone, Serialize, Deserialize)]
pub struct Session {
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
    pub inbox: Vec<Queued>,
    /// What was put into the inbox since it was last empty.
    #[serde(skip)]
    inbox_bytes: u64,
    last_command: u64,
    /// The last idempotency keys, and those of commands that still wait.
    known: Vec<Known>,
    #[serde(skip)]
    pub lease: Option<Lease>,
    /// Its place in the queue for a worker.
    #[serde(skip)]
    pub waits: Option<u64>,
    /// The claim that gave the session up last: its repeated append is a duplicate, not a trespass.
    #[serde(skip)]
    released_by: Option<ClaimToken>,
    running: Option<Running>,
    /// Somebody has it who has not given it up.
    held: bool,
    /// Holders in a row that vanished without writing anything, and the end of the log then.
    stalls: u32,
    stalled_at: u64,
    /// When a turn last ended or a client came, in milliseconds since 1970.
    pub used: u64,
    pending: Vec<u64>,
    controller: Option<ConnectionId>,
    pub parties: HashMap<ConnectionId, Party>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Known {
    key: Idempotency,
    number: u64,
    head: u64,
    via: Via,
}

/// What an append has changed.
pub struct Written {
    pub frame: Option<Arc<Frame>>,
    /// More than the log and the inbox.
    pub beside_the_log: bool,
}

#[derive(Clone)]
pub struct Lease {
    pub worker: WorkerId,
    pub token: ClaimToken,
    pub expires: Instant,
}

/// A connection as the session sees it.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Party {
    /// Holder of its session stream, and until when that counts.
    #[serde(skip)]
    pub stream: Option<(String, Instant)>,
    pub written: Option<String>,
    /// The holder of its connection stream was told to tail this session.
    watched: bool,
    route: Route,
    directives: Vec<Directive>,
}

impl Party {
    /// Chooses the stream for what this connection is about to receive.
    fn settle(&mut self, watched: bool) -> Option<Via> {
        let has_stream = self
            .stream
            .as_ref()
            .is_some_and(|(_, until)| *until > Instant::now());
        let via = if has_stream {
            Via::Session
        } else {
            Via::Connection
        };
        self.watched |= watched;
        (via == Via::Session || self.watched).then_some(via)
    }
}

impl Session {
    pub fn create(new: &NewSession, first: &Command, key: &Idempotency) -> Self {
        let creator = &first.connection;
        let via = if new.one_shot {
            Via::OneShot
        } else {
            Via::Connection
        };
        let mut party = Party {
            watched: true,
            ..Party::default()
        };
        party.route.switch(1, Via::Connection);
        let mut session = Self {
            principal: new.principal.clone(),
            agent: new.agent.clone(),
            cwd: new.cwd.clone(),
            params: new.params.clone(),
            state: Bytes::new(),
            view: Bytes::new(),
            title: String::new(),
            head: 0,
            inbox: Vec::new(),
            inbox_bytes: 0,
            last_command: 0,
            known: Vec::new(),
            lease: None,
            waits: None,
            released_by: None,
            running: None,
            held: false,
            stalls: 0,
            stalled_at: 0,
            used: unix_millis(),
            pending: Vec::new(),
            controller: Some(creator.clone()),
            parties: HashMap::from([(creator.clone(), party)]),
        };
        session.accept(first, via, key);
        session
    }

    /// Puts a session together that an earlier process has left.
    pub fn revive(mut self, inbox: Vec<Queued>) -> Self {
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
        let listens = |party: &Party| party.stream.as_ref().is_some_and(|(_, until)| *until > now);
        self.lease.is_some() || !self.inbox.is_empty() || self.parties.values().any(listens)
    }

    pub fn enqueue(&mut self, request: &Enqueue) -> Enqueued {
        if self.principal != request.principal {
            return Enqueued::NotFound;
        }
        if let Some(known) = self.recall(&request.key) {
            return known;
        }
        let command = &request.command;
        // Cancels and answers must get through to a session whose inbox is full of prompts.
        let room = if command.kind.is_urgent() { 2 } else { 1 };
        let bytes = self.inbox_bytes + command.message.len() as u64;
        let heavy = !self.inbox.is_empty() && bytes > room * INBOX_BYTES;
        if self.inbox.len() as u64 >= room * INBOX_LIMIT || heavy {
            return Enqueued::Full;
        }
        let via = if request.one_shot {
            Via::OneShot
        } else if command.request.is_none() {
            Via::Connection
        } else {
            let head = self.head;
            match self
                .parties
                .entry(command.connection.clone())
                .or_default()
                .settle(request.watched)
            {
                Some(via) => via,
                None => return Enqueued::Unwatched { head },
            }
        };
        let number = self.accept(command, via, &request.key);
        Enqueued::Accepted {
            number,
            head: self.head,
            via,
        }
    }

    fn recall(&self, key: &Idempotency) -> Option<Enqueued> {
        let named = !key.key.is_empty();
        let known = self
            .known
            .iter()
            .find(|known| named && known.key.key == key.key)?;
        if known.key.fingerprint != key.fingerprint {
            return Some(Enqueued::Conflict);
        }
        let (number, head, via) = (known.number, known.head, known.via);
        Some(Enqueued::Joined { number, head, via })
    }

    fn accept(&mut self, command: &Command, via: Via, key: &Idempotency) -> u64 {
        self.last_command += 1;
        let number = self.last_command;
        let queued = Queued {
            number,
            via,
            takes_control: false,
            command: command.clone(),
        };
        self.inbox_bytes += command.message.len() as u64;
        self.inbox.push(queued);
        if !key.key.is_empty() {
            self.remember(Known {
                key: key.clone(),
                number,
                head: self.head,
                via,
            });
        }
        number
    }

    /// The oldest key that nobody waits under makes room for the new one.
    fn remember(&mut self, new: Known) {
        if self.known.len() as u64 >= REMEMBERED_KEYS {
            let waits = |known: &Known| {
                self.inbox
                    .iter()
                    .any(|queued| queued.number == known.number)
            };
            if let Some(oldest) = self.known.iter().position(|known| !waits(known)) {
                self.known.remove(oldest);
            }
        }
        self.known.push(new);
    }

    pub fn attach(&mut self, request: &Attach) -> Attached {
        if self.principal != request.principal {
            return Attached::NotFound;
        }
        if self.cwd != request.cwd {
            return Attached::WrongCwd(self.cwd.clone());
        }
        let head = self.head;
        let party = self.parties.entry(request.connection.clone()).or_default();
        let mut directives = party.directives.iter();
        if !directives.any(|directive| directive.request == request.request) {
            let Some(via) = party.settle(request.watched) else {
                return Attached::Unwatched { head };
            };
            party.route.attach(head + 1, via);
            let last = party
                .directives
                .last()
                .map_or(0, |directive| directive.number);
            if party.directives.len() >= KEPT_DIRECTIVES {
                party.directives.remove(0);
            }
            party.directives.push(Directive {
                number: last + 1,
                upto: head,
                replay: request.replay,
                via: if request.one_shot { Via::OneShot } else { via },
                request: request.request.clone(),
            });
            self.controller = Some(request.connection.clone());
        }
        Attached::Done(Box::new(self.attachment(&request.connection)))
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
        }
    }

    pub fn claim(&mut self, id: &SessionId, claimant: &Claimant) -> Option<Claim> {
        let now = Instant::now();
        if let Some(lease) = &self.lease {
            let ours = lease.token == claimant.token;
            if lease.expires > now && !ours {
                return None;
            }
            if ours {
                return Some(self.claimed(id, claimant));
            }
        } else if self.inbox.is_empty() {
            return None;
        }
        self.count_stall();
        self.held = true;
        Some(self.claimed(id, claimant))
    }

    fn claimed(&mut self, id: &SessionId, claimant: &Claimant) -> Claim {
        self.lease = Some(Lease {
            worker: claimant.worker.clone(),
            token: claimant.token.clone(),
            expires: Instant::now() + claimant.lease,
        });
        Claim {
            session: id.clone(),
            token: claimant.token.clone(),
            head: self.head,
            cwd: self.cwd.clone(),
            params: self.params.clone(),
            setup: Default::default(),
            state: self.state.clone(),
            bound: Bytes::new(),
            running: self.running,
            stalls: self.stalls,
            inbox: self.inbox.clone(),
        }
    }

    fn count_stall(&mut self) {
        let again = self.stalled_at == self.head;
        let before = if again { self.stalls } else { 0 };
        self.stalls = before + u32::from(self.held);
        self.stalled_at = self.head;
    }

    /// Returns what was written, if something was.
    pub fn append(&mut self, append: &Append) -> (Appended, Option<Written>) {
        let head = self.head;
        let last = append.first + append.events.len() as u64 - 1;
        let holds = self
            .lease
            .as_ref()
            .is_some_and(|lease| lease.token == append.token);
        if !holds {
            let repeated = self.released_by.as_ref() == Some(&append.token) && last <= head;
            let outcome = if repeated {
                Appended::Done {
                    head,
                    released: true,
                }
            } else {
                Appended::Fenced
            };
            return (outcome, None);
        }
        if append.first > head + 1 {
            return (Appended::Gap { head }, None);
        }
        if append.first <= head {
            let outcome = if last <= head {
                Appended::Done {
                    head,
                    released: false,
                }
            } else {
                Appended::Gap { head }
            };
            return (outcome, None);
        }
        let frame = Arc::new(Frame {
            first: append.first,
            nonce: append.nonce,
            events: append.events.clone(),
        });
        let mut beside_the_log = self.apply_fields(append);
        for (seq, event) in frame.numbered() {
            beside_the_log |= self.follow(seq, event);
        }
        if !append.events.is_empty() {
            self.head = last;
        }
        self.inbox
            .retain(|queued| !append.acks.contains(&queued.number));
        if self.inbox.is_empty() {
            self.inbox_bytes = 0;
        }
        let released = append.release && self.inbox.is_empty();
        if released {
            self.give_up();
            beside_the_log = true;
        }
        let written = Written {
            frame: (!append.events.is_empty()).then_some(frame),
            beside_the_log,
        };
        let head = last;
        (Appended::Done { head, released }, Some(written))
    }

    pub fn give_up(&mut self) {
        self.released_by = self.lease.take().map(|lease| lease.token);
        self.held = false;
    }

    /// What an event changes beside the log; false if nothing.
    fn follow(&mut self, seq: u64, event: &Event) -> bool {
        match event {
            Event::Begin(begin) => {
                self.running = Some(Running {
                    command: begin.command,
                    began: seq,
                });
                self.controller = Some(begin.connection.clone());
                let party = self.parties.entry(begin.connection.clone()).or_default();
                party.route.switch(seq, begin.via);
                true
            }
            Event::Response { to, turn: true, .. } => {
                self.running = None;
                if let Some(party) = self.parties.get_mut(&to.connection) {
                    party.route.one_shot_ended(seq);
                }
                true
            }
            _ => false,
        }
    }

    /// False if there were none.
    fn apply_fields(&mut self, append: &Append) -> bool {
        let mut changed = false;
        let mut set = |field: &mut Bytes, value: &Option<Bytes>| {
            if let Some(value) = value {
                *field = value.clone();
                changed = true;
            }
        };
        set(&mut self.state, &append.state);
        set(&mut self.view, &append.view);
        if let Some(pending) = &append.pending {
            self.pending = pending.clone();
            changed = true;
        }
        if let Some(title) = &append.title {
            self.title = title.clone();
            changed = true;
        }
        changed
    }
}
