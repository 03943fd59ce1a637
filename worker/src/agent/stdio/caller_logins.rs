//! Callers that log in at the agent, each for itself: `authenticate` and `logout` go to a process
//! with the caller's own HOME, and what the agent keeps there is for this caller's processes alone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use async_trait::async_trait;
use baton_protocol::{ErrorCode, Method, meta};
use baton_session::command::ClientCapabilities;
use baton_session::sync::MutexExt as _;
use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::client_profile::ClientProfile;
use super::connection::AgentConnection;
use super::sandbox::ProcessPaths;
use super::{AgentAuth, StdioShared};
use crate::agent::{CallResult, Conversation, ConversationChanges, SessionOpening, Turn};
use crate::agent_policy::AgentMessage;
use crate::rpc::Failure;

/// Somebody may have to find a password first.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(600);

/// Changes what the agent says of itself so that clients are offered what they can do. `logins`:
/// what it offers to clients with a terminal; `None` if the operator logs in for everybody.
pub fn announce(initialize: &mut Value, logins: Option<Value>) {
    remove(initialize, "/_meta", meta::LOGINS);
    // Which providers there are is a setting of a process, and each session has another one.
    remove(initialize, "/agentCapabilities", "providers");
    if let Some(logins) = logins {
        let terminal = if logins.is_array() { logins } else { json!([]) };
        if !initialize["_meta"].is_object() {
            initialize["_meta"] = json!({});
        }
        initialize["_meta"][meta::LOGINS] = json!({ "terminal": terminal });
        return;
    }
    initialize["authMethods"] = json!([]);
    remove(initialize, "/agentCapabilities/auth", "logout");
}

/// An object that is not there stays away: `null` is no capability.
fn remove(value: &mut Value, object: &str, field: &str) {
    let object = value.pointer_mut(object).and_then(Value::as_object_mut);
    object.map(|object| object.remove(field));
}

/// The processes that have a caller's login, and callers that are logging in.
#[derive(Default)]
pub struct CallersProcesses(Mutex<HashMap<String, CallerProcesses>>);

#[derive(Default)]
struct CallerProcesses {
    sessions: Vec<Weak<AgentConnection>>,
    logs_in: bool,
}

impl CallersProcesses {
    pub fn note(&self, principal: &str, connection: &Arc<AgentConnection>) {
        let mut all = self.0.locked();
        all.retain(|_, caller| {
            caller.sessions.retain(|held| held.strong_count() > 0);
            caller.logs_in || !caller.sessions.is_empty()
        });
        let caller = all.entry(principal.to_owned()).or_default();
        caller.sessions.push(Arc::downgrade(connection));
    }

    fn stop(&self, principal: &str) {
        let all = self.0.locked();
        let sessions = all.get(principal).map(|caller| caller.sessions.clone());
        for connection in sessions.unwrap_or_default() {
            if let Some(connection) = connection.upgrade() {
                connection.kill();
            }
        }
    }

    /// `None` if the caller is logging in already.
    fn begin_login(&self, principal: &str) -> Option<RunningLogin<'_>> {
        let mut all = self.0.locked();
        let caller = all.entry(principal.to_owned()).or_default();
        let is_first = !std::mem::replace(&mut caller.logs_in, true);
        is_first.then(|| RunningLogin {
            all: self,
            principal: principal.to_owned(),
        })
    }
}

struct RunningLogin<'a> {
    all: &'a CallersProcesses,
    principal: String,
}

impl Drop for RunningLogin<'_> {
    fn drop(&mut self) {
        let mut all = self.all.0.locked();
        if let Some(caller) = all.get_mut(&self.principal) {
            caller.logs_in = false;
            if caller.sessions.is_empty() {
                all.remove(&self.principal);
            }
        }
    }
}

/// A session that carries one login to the agent.
pub struct LoginConversation {
    agent: Arc<StdioShared>,
    opening: SessionOpening,
}

impl LoginConversation {
    pub fn new(agent: Arc<StdioShared>, opening: SessionOpening) -> Self {
        Self { agent, opening }
    }

    async fn profile(&self) -> ClientProfile {
        let nobody = || ClientProfile::of_letters(ClientCapabilities::default());
        let Some(client) = &self.opening.client else {
            return nobody();
        };
        let (store, policy) = (self.opening.store(), self.opening.policy());
        let profile = self.agent.clients.of(client, store, policy).await;
        profile.unwrap_or_else(|_| nobody())
    }
}

#[async_trait]
impl Conversation for LoginConversation {
    async fn prompt(&self, _: &Turn, _: &AgentMessage) -> Result<Box<RawValue>, Failure> {
        Err(Failure::invalid_params(
            "this session only carries a login: send session/new",
        ))
    }

    async fn call(&self, message: &AgentMessage) -> Result<CallResult, Failure> {
        let method = Method::of(message.method());
        let is_login = matches!(method, Method::Authenticate | Method::Logout);
        if !is_login || self.agent.auth == AgentAuth::Operator {
            let text = "nobody logs in at this agent through Baton";
            return Err(Failure::new(ErrorCode::MethodNotFound, text));
        }
        let principal = &self.opening.principal;
        let running = self.agent.running.begin_login(principal);
        let _running = running.ok_or_else(|| {
            Failure::internal(
                "you are logging in already: answer that first, or wait until it ends",
            )
        })?;
        let paths = ProcessPaths {
            home: self.agent.home_of(principal)?,
            ..ProcessPaths::default()
        };
        let profile = self.profile().await;
        let (connection, _) = self.agent.pool.start(&profile, &paths).await?;
        connection.log().belongs_to(&self.opening.session);
        let answer = timeout(LOGIN_TIMEOUT, connection.call(None, message)).await;
        let lost = || {
            let end = connection.end();
            end.unwrap_or_else(|| Failure::internal("the agent did not answer in ten minutes"))
        };
        let result = match answer {
            Ok(Ok(reply)) => reply?,
            Ok(Err(_)) | Err(_) => return Err(lost()),
        };
        // What runs may remember it still.
        if method == Method::Logout {
            self.agent.running.stop(principal);
        }
        // It may be writing still.
        connection.kill();
        connection.ended().await;
        Ok(CallResult {
            result,
            announces: None,
        })
    }

    fn view(&self) -> Bytes {
        Bytes::from_static(b"{}")
    }

    fn changes(&self) -> ConversationChanges {
        ConversationChanges::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_gets_no_field_but_the_methods() {
        for capabilities in [
            json!({}),
            json!({ "loadSession": true }),
            json!({ "auth": {} }),
        ] {
            let mut answer = json!({ "protocolVersion": 1, "agentCapabilities": capabilities });
            let mut expected = answer.clone();
            expected["authMethods"] = json!([]);
            announce(&mut answer, None);
            assert_eq!(answer, expected);
        }
        let mut bare = json!({ "protocolVersion": 1 });
        announce(&mut bare, None);
        assert_eq!(bare, json!({ "protocolVersion": 1, "authMethods": [] }));
    }

    #[test]
    fn what_clients_cannot_do_is_not_announced() {
        let mut answer = json!({
            "agentCapabilities": { "auth": { "logout": {}, "more": {} }, "providers": {} },
            "authMethods": [{ "id": "login" }],
        });
        announce(&mut answer, None);
        let expected =
            json!({ "agentCapabilities": { "auth": { "more": {} } }, "authMethods": [] });
        assert_eq!(answer, expected);
    }
}
