//! `session/fork`: a child that shares its parent's past. No worker is involved.

use baton_session::audit::Decision;
use baton_session::event::Event;
use baton_session::field::echo;
use baton_session::id::{LogId, SessionId};
use baton_session::store::{Cut, Fork, Forked, MAX_FORK_DEPTH, Record};
use baton_session::token::Scope;
use bytes::Bytes;
use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Answer, Call, Outcome, Problem, SESSION_CLOSED, invalid, params, unknown_session};
use crate::pass::Brought;
use crate::rpc;

/// Frames per read while a message is looked for.
const PAGE: usize = 256;

impl Call<'_> {
    pub(super) async fn fork(&self) -> Result<Outcome, Problem> {
        let parent = self.session().await?;
        let (cwd, setup) = params::inherited_place(self.message.envelope)?;
        let wish = params::fork_wish(self.message.envelope)?;
        self.check_outbox().await?;
        let child = self.child_of(&parent);
        let (id, principal) = (&self.connection.id, &self.connection.principal);
        let known = self.app.store.attachment(&child, id, principal).await?;
        // The store repeats what it said about this child, whatever has become of the parent since.
        let is_new = known.is_none();
        let _admitted = match is_new {
            true => {
                self.check_room().await?;
                self.check_sessions().await?
            }
            false => None,
        };
        let at = match wish.at_message_id.filter(|_| is_new) {
            None => None,
            Some(message) => Some(self.cut_after(&parent, &message).await?),
        };
        let cwd = match cwd {
            Some(cwd) => cwd,
            None => self.record(&parent).await?.cwd,
        };
        let fork = Fork {
            child,
            parent,
            principal: self.connection.principal.clone(),
            connection: self.connection.id.clone(),
            cwd,
            setup,
            at,
            inherit_bindings: wish.inherit_bindings,
            // What was closed has no token any more; its principal may still fork it.
            only_open: matches!(self.pass.grant, Brought::Good(_)),
        };
        match self.app.store.fork(&fork).await? {
            Forked::Done { head, view } => {
                if is_new {
                    self.decided(|| Decision::SessionForked {
                        session: fork.child.clone(),
                        parent: fork.parent.clone(),
                    });
                }
                self.watch(&fork.child, head).await?;
                let mut result = with_session(&view, &fork.child);
                let mint = &self.app.mint;
                let meta = mint.meta(&fork.child, &fork.principal, Scope::Control);
                result["_meta"] = json!(meta);
                Ok(Outcome::Answer(Answer {
                    opens: Some(fork.child),
                    message: rpc::result(self.id(), result.to_string().as_bytes()),
                    key: self.key(),
                    refusal: None,
                }))
            }
            Forked::NotFound => Err(unknown_session(fork.parent.as_str())),
            Forked::Closed => Err(Problem::Rpc(rpc::SESSION_CLOSED, SESSION_CLOSED.into())),
            Forked::NoSuchCut => Err(invalid(
                "_meta[\"baton/fork\"].atMessageId names a message of the turn that runs: wait for its end",
            )),
            Forked::TooDeep => Err(Problem::Rpc(
                rpc::LIMIT_REACHED,
                format!("a session may have {MAX_FORK_DEPTH} ancestors at most"),
            )),
        }
    }

    /// The same request, repeated, means the same child.
    fn child_of(&self, parent: &SessionId) -> SessionId {
        let (connection, request) = (&self.connection.id, self.id());
        let seed = format!("{parent}\n{connection}\n{request}");
        SessionId::derived(parent.partition(), seed.as_bytes())
    }

    async fn record(&self, session: &SessionId) -> Result<Record, Problem> {
        let principal = &self.connection.principal;
        let record = self.app.store.record(session, principal).await?;
        record.ok_or_else(|| unknown_session(session.as_str()))
    }

    /// The end of a message, and what the session showed then.
    async fn cut_after(&self, parent: &SessionId, message: &str) -> Result<Cut, Problem> {
        let record = self.record(parent).await?;
        let log = LogId::Session(parent.clone());
        let mut scan = Scan::new(&record, message);
        while scan.next <= record.head {
            let frames = self.app.store.read(&log, scan.next, PAGE).await?;
            if frames.is_empty() {
                break;
            }
            for (seq, event) in frames.iter().flat_map(|frame| frame.numbered()) {
                if seq >= scan.next && seq <= record.head {
                    scan.see(seq, event);
                }
            }
        }
        scan.cut.ok_or_else(|| {
            invalid(format!(
                "the finished turns of the session have no message {}",
                echo(message)
            ))
        })
    }
}

/// Reads a log from its beginning, to find the end of a message.
struct Scan<'a> {
    wanted: &'a str,
    next: u64,
    view: Map<String, Value>,
    /// The last event of the message so far, with what came after it and nobody saw.
    cut: Option<Cut>,
    /// Nothing visible came after the message yet.
    open: bool,
    /// What an update must contain to be looked at. `None`: the id could be written in several ways.
    words: Option<[Finder<'a>; 3]>,
}

#[derive(Deserialize)]
struct Message<P> {
    params: P,
}

#[derive(Deserialize)]
struct Params {
    update: Value,
}

impl<'a> Scan<'a> {
    fn new(record: &Record, wanted: &'a str) -> Self {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:@/".contains(&byte);
        let is_plain = !wanted.is_empty() && wanted.bytes().all(plain);
        let words = [wanted, "current_mode_update", "config_option_update"];
        Self {
            words: is_plain.then(|| words.map(Finder::new)),
            wanted,
            next: 1,
            // What it shows now; the modes and options to choose from don't change.
            view: serde_json::from_slice(&record.view).unwrap_or_default(),
            cut: None,
            open: false,
        }
    }

    fn see(&mut self, seq: u64, event: &Event) {
        self.next = seq + 1;
        match event {
            Event::Update { message, .. } | Event::Echo { message, .. } => {
                let update = self.look(message);
                self.note(&update);
                self.open = update["messageId"] == self.wanted;
            }
            // A session begins with what its agent showed.
            Event::Response { message, .. } if seq == 1 => self.begin(message),
            _ => {}
        }
        if self.open {
            self.cut = Some(Cut {
                upto: seq,
                view: json!(self.view).to_string().into(),
            });
        }
    }

    /// The update, if it is one of the message or changes what the session shows. All others, which are nearly
    /// all, are not taken apart.
    fn look(&self, message: &[u8]) -> Value {
        let concerns = |words: &[Finder]| words.iter().any(|word| word.find(message).is_some());
        if !self.words.as_ref().is_none_or(|words| concerns(words)) {
            return Value::Null;
        }
        let update = serde_json::from_slice::<Message<Params>>(message);
        update
            .map(|message| message.params.update)
            .unwrap_or_default()
    }

    fn begin(&mut self, answer: &Bytes) {
        #[derive(Deserialize)]
        struct Answer {
            result: Value,
        }
        if let Ok(answer) = serde_json::from_slice::<Answer>(answer) {
            for field in ["modes", "configOptions"] {
                if let Some(value) = answer.result.get(field) {
                    self.view.insert(field.to_owned(), value.clone());
                }
            }
        }
    }

    fn note(&mut self, update: &Value) {
        match update["sessionUpdate"].as_str() {
            Some("current_mode_update") => {
                if let Some(Value::Object(modes)) = self.view.get_mut("modes") {
                    modes.insert("currentModeId".into(), update["currentModeId"].clone());
                }
            }
            Some("config_option_update") => {
                let options = update["configOptions"].clone();
                self.view.insert("configOptions".into(), options);
            }
            _ => {}
        }
    }
}

fn with_session(view: &[u8], session: &SessionId) -> Value {
    let mut result: Map<String, Value> = serde_json::from_slice(view).unwrap_or_default();
    result.insert("sessionId".into(), json!(session));
    result.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(kind: &str, id: &str) -> Bytes {
        let update = json!({ "sessionUpdate": kind, "messageId": id, "currentModeId": "ask" });
        json!({ "params": { "update": update } }).to_string().into()
    }

    #[test]
    fn f6_only_what_concerns_the_message_is_taken_apart() {
        let record = Record::default();
        let scan = Scan::new(&record, "m-1");
        assert_eq!(
            scan.look(&update("agent_message_chunk", "m-1"))["messageId"],
            "m-1"
        );
        assert_eq!(
            scan.look(&update("current_mode_update", "x"))["currentModeId"],
            "ask"
        );
        assert_eq!(
            scan.look(&update("agent_message_chunk", "m-2")),
            Value::Null
        );
        // It could be written as an escape.
        let scan = Scan::new(&record, "ä");
        assert_eq!(
            scan.look(&update("agent_message_chunk", "x"))["messageId"],
            "x"
        );
    }
}
