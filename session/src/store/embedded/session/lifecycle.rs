//! A session as a whole: who sees it, what it is like between two turns, how it comes and goes.

use std::time::Instant;

use bytes::Bytes;

use super::{
    AgentState, ForkOrigin, Lease, SessionParties, SessionParty, SessionStatus, StoredSession,
};
use crate::clock::unix_millis;
use crate::command::{ClientCapabilities, Command, CommandKind, IdempotencyKey};
use crate::id::{ConnectionId, SessionId};
use crate::route::DeliveryPath;
use crate::settings_history;
use crate::store::{
    AdoptRequest, ClaimToken, Claimant, ForkOutcome, ForkRequest, ListPosition, MAX_FORK_DEPTH,
    SessionRecord, SessionSetup, SessionSummary, SharedLog,
};

impl StoredSession {
    /// Whether there is such a session for the principal.
    pub fn is_for(&self, principal: &str) -> bool {
        self.is_seen() && self.principal == principal
    }

    /// Or was, until it was deleted.
    pub fn was_for(&self, principal: &str) -> bool {
        !self.is_arriving() && self.principal == principal
    }

    pub(super) fn is_seen(&self) -> bool {
        matches!(self.standing, SessionStatus::Open | SessionStatus::Closed)
    }

    pub fn is_arriving(&self) -> bool {
        matches!(self.standing, SessionStatus::Arriving(_))
    }

    /// Its place among its principal's sessions; `None` if it is not seen.
    pub fn place(&self, id: &SessionId) -> Option<ListPosition> {
        self.is_seen().then(|| ListPosition {
            updated: self.updated,
            session: id.clone(),
        })
    }

    pub fn summary(&self, place: ListPosition) -> SessionSummary {
        SessionSummary {
            place,
            cwd: self.cwd.clone(),
            title: self.title.clone(),
            directories: self.setup.directories.clone().unwrap_or_default(),
            usage: self.usage.clone(),
        }
    }

    pub fn cwd(&self) -> &str {
        &self.cwd
    }

    pub(super) fn change_setup(&mut self, new: &SessionSetup) {
        let set = |field: &mut Option<Bytes>, value: &Option<Bytes>| {
            if value.is_some() {
                field.clone_from(value);
            }
        };
        set(&mut self.setup.mcp_servers, &new.mcp_servers);
        set(&mut self.setup.directories, &new.directories);
    }

    // ---- between two turns ----

    pub(super) fn knowledge(&self) -> AgentState {
        AgentState {
            state: self.state.clone(),
            view: self.view.clone(),
        }
    }

    /// The end of the log and what was known there; if a turn runs, as it was before.
    fn between_turns(&self) -> (u64, AgentState) {
        let head = self.running.map_or(self.head, |turn| turn.began - 1);
        let knowledge = self.before.clone();
        (head, knowledge.unwrap_or_else(|| self.knowledge()))
    }

    pub fn record(&self) -> SessionRecord {
        let (head, AgentState { state, view }) = self.between_turns();
        SessionRecord {
            agent: self.agent.clone(),
            cwd: self.cwd.clone(),
            params: self.params.clone(),
            setup: self.setup.clone(),
            state,
            view,
            shown: self.shown.clone(),
            title: self.title.clone(),
            usage: self.usage.clone(),
            bound: self.bound.clone(),
            head,
            updated: self.updated,
            began: self.running.map(|turn| turn.began),
        }
    }

    // ---- coming ----

    /// The child, or why there is none.
    pub fn fork(&self, fork: &ForkRequest) -> Result<Self, ForkOutcome> {
        if !self.is_for(&fork.principal) {
            return Err(ForkOutcome::NotFound);
        }
        if fork.only_open && self.standing == SessionStatus::Closed {
            return Err(ForkOutcome::Closed);
        }
        let ancestors = self.origin.as_ref().map_or(0, |origin| origin.generation);
        if ancestors >= MAX_FORK_DEPTH {
            return Err(ForkOutcome::TooDeep);
        }
        let (head, known) = self.between_turns();
        let (cut, known) = match &fork.at {
            None => (head, known),
            Some(cut) if cut.upto > head => return Err(ForkOutcome::NoSuchCut),
            Some(cut) => {
                let (state, view) = (Bytes::new(), cut.view.clone());
                (cut.upto, AgentState { state, view })
            }
        };
        let bound = fork.inherit_bindings.then(|| self.bound.clone());
        let now = unix_millis();
        let connection = fork.connection.clone();
        let mut child = Self {
            principal: self.principal.clone(),
            agent: self.agent.clone(),
            cwd: fork.cwd.clone(),
            params: self.params.clone(),
            setup: self.setup.clone(),
            state: known.state,
            view: known.view.clone(),
            title: self.title.clone(),
            usage: self.usage.clone(),
            bound: bound.unwrap_or_default(),
            head: cut,
            shown: self
                .shown
                .as_ref()
                .map(|line| settings_history::upto(line, cut)),
            used: now,
            updated: now,
            controller: Some(connection.clone()),
            parties: SessionParties::of(connection, SessionParty::reading_from(cut + 1, false)),
            origin: Some(ForkOrigin {
                parent: fork.parent.clone(),
                cut,
                generation: ancestors + 1,
                view: known.view,
            }),
            ..Self::default()
        };
        child.change_setup(&fork.setup);
        Ok(child)
    }

    /// The answer of the fork that made this session; `None` if another fork did, or none.
    pub fn forked_by(&self, fork: &ForkRequest) -> Option<ForkOutcome> {
        let origin = self.origin.as_ref();
        let origin = origin.filter(|origin| origin.parent == fork.parent)?;
        self.is_for(&fork.principal).then(|| ForkOutcome::Done {
            head: origin.cut,
            view: origin.view.clone(),
        })
    }

    pub fn adopt(adoption: &AdoptRequest, claimant: &Claimant) -> Self {
        let record = adoption.record.clone();
        let now = unix_millis();
        Self {
            principal: adoption.principal.clone(),
            agent: record.agent,
            cwd: record.cwd,
            params: record.params,
            setup: record.setup,
            state: record.state,
            view: record.view,
            title: record.title,
            usage: record.usage,
            bound: record.bound,
            shown: Some(String::new()),
            used: now,
            updated: record.updated,
            lease: Some(Lease::of(claimant)),
            standing: SessionStatus::Arriving(now),
            ..Self::default()
        }
    }

    /// Where a session that shares this one's log comes from; `None` if it may not.
    pub fn shared(&self, shared: &SharedLog, principal: &str) -> Option<ForkOrigin> {
        let ancestors = self.origin.as_ref().map_or(0, |origin| origin.generation);
        let (head, _) = self.between_turns();
        let may = self.is_for(principal) && shared.upto <= head && ancestors < MAX_FORK_DEPTH;
        may.then(|| ForkOrigin {
            parent: shared.with.clone(),
            cut: shared.upto,
            generation: ancestors + 1,
            view: Bytes::new(),
        })
    }

    pub fn continues(&mut self, origin: ForkOrigin) {
        self.head = origin.cut;
        self.origin = Some(origin);
    }

    /// Whether this is how the caller's own adoption has begun.
    pub fn is_adopted_by(&self, token: &ClaimToken) -> bool {
        let lease = self.lease.as_ref();
        self.is_arriving() && lease.is_some_and(|lease| lease.token == *token)
    }

    /// Whether the caller has published it: the same call again changes nothing.
    pub fn was_published_by(&self, token: &ClaimToken) -> bool {
        self.is_seen() && self.released_by.as_ref() == Some(token)
    }

    pub fn publish(&mut self) {
        self.standing = SessionStatus::Open;
        self.used = unix_millis();
        self.give_up();
    }

    // ---- going ----

    /// Something outside depends on it.
    pub fn is_bound(&self) -> bool {
        !matches!(self.bound.trim_ascii(), b"" | b"{}")
    }

    /// Nobody sees it any more. True if there is something left to do: then `end` waits.
    pub fn delete(&mut self, end: &Command, at: u64) -> bool {
        let busy = self.lease.is_some() || !self.inbox.is_empty() || self.is_bound();
        self.standing = SessionStatus::Deleted(at);
        if busy {
            let unnamed = IdempotencyKey {
                key: String::new(),
                fingerprint: String::new(),
            };
            self.accept(end, DeliveryPath::Connection, &unnamed);
        }
        busy
    }

    /// The command that ends an expired session with bindings.
    pub fn last_command(&self, id: &SessionId) -> Command {
        let controller = self.controller.clone();
        Command {
            kind: CommandKind::Delete,
            connection: controller.unwrap_or_else(|| ConnectionId::mint(id.partition())),
            request: None,
            client: ClientCapabilities::default(),
            taken_at: unix_millis(),
            trace: None,
            message: Bytes::from_static(b"{}"),
        }
    }

    /// Whether it has to be kept although nobody sees it.
    pub fn is_held_up(&self) -> bool {
        let lease = self.lease.as_ref();
        lease.is_some_and(|lease| lease.expires > Instant::now()) || !self.inbox.is_empty()
    }
}
