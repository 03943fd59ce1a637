//! Logs an agent's permission requests and their outcomes to the audit log. The worker that holds
//! the session does so: only it sees each request and its first answer once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use baton_protocol::{Envelope, Method};
use baton_session::audit::{AuditActor, AuditLog, AuditText, Decision, DecisionOutcome};
use baton_session::command::Command;
use baton_session::id::SessionId;
use baton_session::sync::MutexExt as _;
use baton_session::trace::TraceContext;
use serde_json::Value;

pub(crate) struct PermissionAudit {
    audit: AuditLog,
    session: SessionId,
    open: Mutex<HashMap<Arc<str>, OpenPermission>>,
}

struct OpenPermission {
    title: AuditText,
    options: Vec<String>,
}

impl PermissionAudit {
    pub fn new(audit: AuditLog, session: SessionId) -> Self {
        Self {
            audit,
            session,
            open: Mutex::default(),
        }
    }

    /// A question goes to the client for the first time.
    pub fn asked(&self, id: &Arc<str>, message: &[u8]) {
        if let Some(title) = self.recall(id, message) {
            let decision = Decision::PermissionAsked {
                session: self.session.clone(),
                question: (&**id).into(),
                title,
            };
            self.audit
                .record(&decision, DecisionOutcome::Done, &AuditActor::default());
        }
    }

    /// Another holder of the session has asked it.
    pub fn recall(&self, id: &Arc<str>, message: &[u8]) -> Option<AuditText> {
        if !self.audit.is_on() {
            return None;
        }
        let question = OpenPermission::read(message)?;
        let title = question.title.clone();
        let mut open = self.open.locked();
        open.insert(id.clone(), question);
        Some(title)
    }

    /// The answer that counts.
    pub fn answered(&self, id: &str, command: &Command) {
        let mut open = self.open.locked();
        let Some(question) = open.remove(id) else {
            return;
        };
        drop(open);
        let option = question.option(&command.message).into();
        let trace = command.trace.as_ref().and_then(TraceContext::id);
        let who = AuditActor {
            connection: Some(command.connection.clone()),
            trace: trace.map(Into::into),
            ..AuditActor::default()
        };
        let decision = Decision::PermissionAnswered {
            session: self.session.clone(),
            question: id.into(),
            title: question.title,
            option,
        };
        self.audit.record(&decision, DecisionOutcome::Done, &who);
    }

    /// The turn is over: its open requests are dropped.
    pub fn forget(&self, is_over: impl Fn(&str) -> bool) {
        let mut open = self.open.locked();
        open.retain(|id, _| !is_over(id));
    }
}

impl OpenPermission {
    fn read(message: &[u8]) -> Option<Self> {
        let message = Envelope::read(message).ok()?;
        if !message.is(Method::RequestPermission) {
            return None;
        }
        let params: Value = serde_json::from_str(message.params().get()).ok()?;
        let title = params["toolCall"]["title"].as_str();
        let options = params["options"].as_array();
        let options = options.into_iter().flatten();
        Some(Self {
            title: title.unwrap_or_default().into(),
            options: options
                .filter_map(|option| option["optionId"].as_str().map(str::to_owned))
                .collect(),
        })
    }

    /// One of those that were offered; what else a client may say is not repeated.
    fn option(&self, answer: &[u8]) -> &str {
        let result = Envelope::read(answer).ok().and_then(|answer| answer.result);
        let result = result.map(|result| serde_json::from_str(result.get()));
        let result: Value = result.and_then(Result::ok).unwrap_or_default();
        let outcome = &result["outcome"];
        let chosen = outcome["optionId"].as_str().unwrap_or_default();
        match self.options.iter().find(|option| *option == chosen) {
            Some(option) => option,
            None if outcome["outcome"] == "cancelled" => "cancelled",
            None => "none of those offered",
        }
    }
}
