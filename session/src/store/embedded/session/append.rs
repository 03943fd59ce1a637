//! The effects of an append on a session beside its log.

use std::sync::Arc;

use bytes::Bytes;

use super::StoredSession;
use crate::clock::unix_millis;
use crate::event::{Event, Frame};
use crate::settings_history;
use crate::store::{AppendOutcome, AppendRequest, RunningTurn, VanishedHolders};

/// The changes of an append.
pub struct AppendChanges {
    pub frame: Option<Arc<Frame>>,
    /// More than the log and the inbox.
    pub beside_the_log: bool,
    /// A turn has ended or the session was released: its size is known now.
    pub settles: bool,
}

impl StoredSession {
    /// Returns what was written, if something was.
    pub fn append(&mut self, append: &AppendRequest) -> (AppendOutcome, Option<AppendChanges>) {
        let head = self.head;
        let last = append.first + append.events.len() as u64 - 1;
        let holds = self
            .lease
            .as_ref()
            .is_some_and(|lease| lease.token == append.token);
        if !holds {
            let repeated = self.released_by.as_ref() == Some(&append.token) && last <= head;
            let outcome = if repeated {
                AppendOutcome::Done {
                    head,
                    released: true,
                }
            } else {
                AppendOutcome::Fenced
            };
            let forgot = repeated.then(|| self.forget_acked(append)).flatten();
            return (outcome, forgot);
        }
        if append.first > head + 1 {
            return (AppendOutcome::Gap { head }, None);
        }
        if append.first <= head {
            let outcome = if last <= head {
                AppendOutcome::Done {
                    head,
                    released: false,
                }
            } else {
                AppendOutcome::Gap { head }
            };
            let forgot =
                matches!(outcome, AppendOutcome::Done { .. }).then(|| self.forget_acked(append));
            return (outcome, forgot.flatten());
        }
        let frame = Arc::new(Frame {
            first: append.first,
            nonce: append.nonce,
            events: append.events.clone(),
        });
        let is_end = |event: &Event| matches!(event, Event::Response { turn: true, .. });
        let ended = append.events.iter().any(is_end);
        let learns = append.state.is_some() || append.view.is_some();
        let before = learns.then(|| self.knowledge());
        let mut beside_the_log = self.apply_fields(append);
        let shown = settings_history::added(frame.numbered());
        if !shown.is_empty() {
            self.shown = Some(settings_history::extended(self.shown.as_deref(), &shown));
            beside_the_log = true;
        }
        for request in &append.requests {
            beside_the_log |= self.remember_lost(request, append.first);
        }
        if !self.is_arriving() {
            // Imported events happened long ago, to other connections.
            for (seq, event) in frame.numbered() {
                beside_the_log |= self.apply_event(seq, event);
            }
        }
        if self.running.is_some() && self.before.is_none() {
            self.before = before;
        }
        if !append.events.is_empty() {
            self.head = last;
            self.wrote(std::slice::from_ref(&frame));
        }
        self.forget_acked(append);
        let released = append.release && self.inbox.is_empty();
        if released {
            self.give_up();
            beside_the_log = true;
        }
        let written = AppendChanges {
            settles: ended || released,
            frame: (!append.events.is_empty()).then_some(frame),
            beside_the_log,
        };
        let head = last;
        (AppendOutcome::Done { head, released }, Some(written))
    }

    /// `None` if none of them waited.
    fn forget_acked(&mut self, append: &AppendRequest) -> Option<AppendChanges> {
        let before = self.inbox.len();
        self.inbox
            .retain(|queued| !append.acks.contains(&queued.id));
        if self.inbox.is_empty() {
            self.inbox_bytes = 0;
        }
        (self.inbox.len() < before).then_some(AppendChanges {
            frame: None,
            beside_the_log: false,
            settles: false,
        })
    }

    pub fn give_up(&mut self) {
        self.released_by = self.lease.take().map(|lease| lease.token);
        self.held = false;
        self.vanished = VanishedHolders::default();
    }

    /// Applies an event's effects beside the log; false if there are none.
    fn apply_event(&mut self, seq: u64, event: &Event) -> bool {
        match event {
            Event::Begin(begin) => {
                self.running = Some(RunningTurn {
                    command: begin.command,
                    began: seq,
                });
                self.control(&begin.connection);
                let party = self.parties.join(&begin.connection);
                party.route.switch(seq, begin.via);
                true
            }
            Event::Control { by, via, .. } => {
                self.control(by);
                let party = self.parties.join(by);
                party.route.control(seq, *via);
                true
            }
            Event::Response { to, turn: true, .. } => {
                self.running = None;
                self.before = None;
                self.updated = unix_millis();
                if let Some(party) = self.parties.hear_of(&to.connection) {
                    party.route.one_shot_ended(seq);
                    if party.is_blank() {
                        self.parties.remove(&to.connection);
                    }
                }
                true
            }
            _ => false,
        }
    }

    /// False if there were none.
    fn apply_fields(&mut self, append: &AppendRequest) -> bool {
        let mut changed = false;
        let mut set = |field: &mut Bytes, value: &Option<Bytes>| {
            if let Some(value) = value {
                *field = value.clone();
                changed = true;
            }
        };
        set(&mut self.state, &append.state);
        set(&mut self.view, &append.view);
        set(&mut self.usage, &append.usage);
        set(&mut self.bound, &append.bound);
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
