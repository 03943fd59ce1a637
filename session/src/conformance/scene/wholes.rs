//! Sessions as wholes: forked, listed, deleted, forgotten.

use std::time::Duration;

use bytes::Bytes;

use super::{CWD, LONG, Scene};
use crate::command::{Command, CommandKind};
use crate::event::Event;
use crate::id::{Nonce, SessionId};
use crate::store::{
    ForkOutcome, ForkPoint, ForkRequest, ListRequest, SessionSetup, SessionSummary, TidyOutcome,
    TidyPolicy,
};

pub const EVERYTHING_THAT_RESTS: TidyPolicy = TidyPolicy {
    rested: Duration::ZERO,
    unused: LONG,
};
pub const EVERYTHING_UNUSED: TidyPolicy = TidyPolicy {
    rested: Duration::ZERO,
    unused: Duration::ZERO,
};

impl Scene {
    /// Names for a fork that doesn't exist yet, made by a connection that is new to the family.
    pub fn heir(&self) -> Self {
        Self {
            principal: self.principal.clone(),
            agent: self.agent.clone(),
            ..Self::planned_in(&self.store, self.id.partition())
        }
    }

    pub fn fork(&self, heir: &Self) -> ForkRequest {
        ForkRequest {
            parent: self.id.clone(),
            child: heir.id.clone(),
            principal: self.principal.clone(),
            connection: heir.creator.clone(),
            cwd: CWD.to_owned(),
            setup: SessionSetup::default(),
            at: None,
            inherit_bindings: false,
            only_open: false,
        }
    }

    pub fn cut(&self, heir: &Self, upto: u64, view: &'static str) -> ForkRequest {
        let view = Bytes::from_static(view.as_bytes());
        ForkRequest {
            at: Some(ForkPoint { upto, view }),
            ..self.fork(heir)
        }
    }

    pub async fn try_fork(&self, fork: &ForkRequest) -> ForkOutcome {
        self.store.fork(fork).await.expect("the store answers")
    }

    /// A fork after the last finished turn.
    pub async fn forked(&self) -> Self {
        let heir = self.heir();
        let outcome = self.try_fork(&self.fork(&heir)).await;
        assert!(matches!(outcome, ForkOutcome::Done { .. }), "{outcome:?}");
        heir
    }

    /// The principal's, from the top.
    pub fn listing(&self) -> ListRequest {
        ListRequest {
            principal: self.principal.clone(),
            cwd: None,
            after: None,
            limit: 100,
        }
    }

    pub async fn list(&self, listing: &ListRequest) -> Vec<SessionSummary> {
        self.store.list(listing).await.expect("the store answers")
    }

    pub async fn listed(&self) -> Vec<SessionId> {
        let all = self.list(&self.listing()).await;
        all.into_iter()
            .map(|summary| summary.place.session)
            .collect()
    }

    pub async fn lists_only(&self, one: &Self) {
        assert_eq!(self.listed().await, std::slice::from_ref(&one.id));
    }

    /// The list entry of this session.
    pub async fn summary(&self) -> SessionSummary {
        let all = self.list(&self.listing()).await;
        let mut all = all.into_iter();
        all.find(|summary| summary.place.session == self.id)
            .expect("it is listed")
    }

    /// The command that ends a deleted session.
    pub fn last_command(&self) -> Command {
        self.command(CommandKind::Delete, None)
    }

    pub async fn delete(&self) -> bool {
        let end = self.last_command();
        let deleted = self.store.delete(&self.id, &self.principal, &end).await;
        deleted.expect("the store answers")
    }

    // ---- housekeeping ----

    pub async fn tidy(&self, when: &TidyPolicy) -> TidyOutcome {
        let tidied = self.store.tidy(self.id.partition(), when).await;
        tidied.expect("it is tidied")
    }

    /// Everything that nobody uses is forgotten, in rounds.
    pub async fn forget(&self) {
        loop {
            // A session that was used just now does not count as unused yet.
            tokio::time::sleep(Duration::from_millis(5)).await;
            if self.tidy(&EVERYTHING_UNUSED).await == TidyOutcome::default() {
                return;
            }
        }
    }

    /// Every event with its number and nonce, read from `from` on, a few frames at a time.
    pub async fn events(&self, from: u64) -> Vec<(u64, Nonce, Event)> {
        let mut found = Vec::new();
        let mut next = from;
        loop {
            let frames = self.store.read(&self.log(), next, 3).await;
            let frames = frames.expect("it reads");
            let Some(last) = frames.last() else {
                return found;
            };
            for frame in &frames {
                let wanted = frame.numbered().filter(|(seq, _)| *seq >= next);
                found.extend(wanted.map(|(seq, event)| (seq, frame.nonce, event.clone())));
            }
            next = last.last() + 1;
        }
    }

    /// The agent's messages, in order; each under the session's own id.
    pub async fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        for (_, _, event) in self.events(1).await {
            if let Event::Update { message, .. } = event {
                let text = String::from_utf8(message.to_vec()).expect("text");
                let (before, after) = text.split_once(self.id.as_str()).expect("its own id");
                assert!(before.ends_with("\"sessionId\":\""), "{text}");
                let (_, said) = after.split_once("\"update\":\"").expect("words");
                words.push(said.trim_end_matches("\"}}").to_owned());
            }
        }
        words
    }
}

/// An update that names its session, as agents' updates do.
pub fn said(session: &SessionId, words: &str) -> Event {
    let message = format!(
        "{{\"method\":\"session/update\",\"params\":{{\"sessionId\":\"{session}\",\"update\":\"\
         {words}\"}}}}"
    );
    Event::Update {
        turn: true,
        message: message.into(),
    }
}
