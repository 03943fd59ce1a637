//! Starts agents, and keeps some ready in advance.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use baton_protocol::Method;
use baton_session::sync::MutexExt as _;
use serde_json::Value;
use tokio::time::timeout;

use super::client_profile::ClientProfile;
use super::connection::AgentConnection;
use super::failures;
use super::process::{AgentProcess, LaunchConfig};
use super::sandbox::ProcessPaths;
use super::start_backoff::StartBackoff;
use crate::agent_policy::AgentMessage;
use crate::rpc::Failure;

pub struct AgentPool {
    pub launch: LaunchConfig,
    /// How many to keep ready.
    pub warm: usize,
    /// How long an agent may take to start.
    pub patience: Duration,
    /// The longest line it may write.
    pub line_limit: usize,
    pub crashes: StartBackoff,
    state: Mutex<PoolState>,
}

/// Why there is no agent.
#[derive(Debug)]
pub struct StartFailure {
    /// For clients.
    pub failure: Failure,
    /// For the operator, when it is the first.
    pub last_words: Vec<String>,
}

impl From<Failure> for StartFailure {
    fn from(failure: Failure) -> Self {
        Self {
            failure,
            last_words: Vec::new(),
        }
    }
}

impl From<StartFailure> for Failure {
    fn from(not_started: StartFailure) -> Self {
        not_started.failure
    }
}

#[derive(Default)]
struct PoolState {
    /// Agents are told what their client can do when they start: these were told the same.
    ready: Vec<(ClientProfile, Arc<AgentConnection>)>,
    /// Those that sessions share.
    shared: HashMap<ClientProfile, Weak<AgentConnection>>,
    refilling: bool,
}

impl AgentPool {
    pub fn new(launch: LaunchConfig, warm: usize, patience: Duration, line_limit: usize) -> Self {
        Self {
            launch,
            warm,
            patience,
            line_limit,
            crashes: StartBackoff::default(),
            state: Mutex::default(),
        }
    }

    /// One that is ready, else a new one.
    pub async fn take(
        self: &Arc<Self>,
        client: &ClientProfile,
        paths: &ProcessPaths,
    ) -> Result<Arc<AgentConnection>, Failure> {
        let ready = self.take_ready(client);
        self.refill(client);
        match ready {
            Some(connection) => Ok(connection),
            None => Ok(Arc::new(self.start(client, paths).await?.0)),
        }
    }

    /// The one that sessions of such clients share.
    pub async fn share(
        self: &Arc<Self>,
        client: &ClientProfile,
    ) -> Result<Arc<AgentConnection>, Failure> {
        let alive = |state: &PoolState| {
            let connection = state.shared.get(client)?.upgrade()?;
            (!connection.is_gone()).then_some(connection)
        };
        if let Some(connection) = alive(&self.state()) {
            return Ok(connection);
        }
        let ready = self.take_ready(client);
        let connection = match ready {
            Some(connection) => connection,
            None => Arc::new(self.start(client, &ProcessPaths::default()).await?.0),
        };
        let mut state = self.state();
        // Another session may have been faster; then this one is not needed.
        if let Some(other) = alive(&state) {
            return Ok(other);
        }
        state.shared.retain(|_, held| held.strong_count() > 0);
        state
            .shared
            .insert(client.clone(), Arc::downgrade(&connection));
        Ok(connection)
    }

    /// Puts one that was started for another reason to those that are ready.
    pub fn put(&self, client: &ClientProfile, connection: AgentConnection) {
        self.state()
            .ready
            .push((client.clone(), Arc::new(connection)));
    }

    fn state(&self) -> std::sync::MutexGuard<'_, PoolState> {
        self.state.locked()
    }

    fn take_ready(&self, client: &ClientProfile) -> Option<Arc<AgentConnection>> {
        let mut state = self.state();
        state.ready.retain(|(_, connection)| !connection.is_gone());
        let mut ready = state.ready.iter();
        let found = ready.position(|(made_for, _)| made_for == client);
        // One that was made for other clients makes room, so that there is one for clients like
        // this.
        let leaves = found.or_else(|| (state.ready.len() >= self.warm).then_some(0))?;
        let taken = (leaves < state.ready.len()).then(|| state.ready.remove(leaves));
        taken
            .filter(|_| found.is_some())
            .map(|(_, connection)| connection)
    }

    /// For more clients like this one, beside everything else.
    fn refill(self: &Arc<Self>, client: &ClientProfile) {
        let mut state = self.state();
        if self.warm == 0 || state.refilling {
            return;
        }
        state.refilling = true;
        let (pool, client) = (self.clone(), client.clone());
        tokio::spawn(async move {
            while pool.state().ready.len() < pool.warm {
                match pool.start(&client, &ProcessPaths::default()).await {
                    Ok((connection, _)) => pool.put(&client, connection),
                    Err(_) => break,
                }
            }
            pool.state().refilling = false;
        });
    }

    /// Starts one and introduces us. Returns what it says of itself, too.
    pub async fn start(
        &self,
        client: &ClientProfile,
        paths: &ProcessPaths,
    ) -> Result<(AgentConnection, Value), StartFailure> {
        self.crashes.check()?;
        let started = self.attempt(client, paths).await;
        match &started {
            Ok(_) => self.crashes.started(),
            Err(StartFailure { failure, .. }) => self.crashes.failed(&failure.message),
        }
        started
    }

    async fn attempt(
        &self,
        client: &ClientProfile,
        paths: &ProcessPaths,
    ) -> Result<(AgentConnection, Value), StartFailure> {
        let process = AgentProcess::start(&self.launch, paths);
        let (process, input, output) = process
            .map_err(|error| failures::not_started(&format!("cannot be run: {error}"), None))?;
        let connection = AgentConnection::new(process, input, output, self.line_limit);
        let introduction = AgentMessage::own(Method::Initialize, &client.introduction());
        let answer = connection.call(None, &introduction);
        let not_started = |why: &str| StartFailure {
            failure: failures::not_started(why, connection.log().stderr_for_clients()),
            last_words: connection.log().last_stderr(),
        };
        match timeout(self.patience, answer).await {
            Ok(Ok(Ok(result))) => {
                let told = serde_json::from_str(result.get()).ok();
                let told = told.filter(is_introduction);
                let told = told.ok_or_else(|| not_started("said nothing sensible"))?;
                Ok((connection, told))
            }
            Ok(Ok(Err(failure))) => Err(match connection.end() {
                Some(_) => not_started(&connection.end_reason()),
                None => failure.into(),
            }),
            Ok(Err(_)) => Err(not_started("did not answer")),
            Err(_) => {
                let why = format!("did not answer initialize within {:?}", self.patience);
                Err(not_started(&why))
            }
        }
    }
}

/// Fields are added to it, and to the capabilities in it.
fn is_introduction(told: &Value) -> bool {
    let capabilities = told.get("agentCapabilities");
    let of_sessions = capabilities.and_then(|it| it.get("sessionCapabilities"));
    let fits = |part: Option<&Value>| part.is_none_or(|it| it.is_object() || it.is_null());
    told.is_object() && fits(capabilities) && fits(of_sessions)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_introduction_is_an_object_with_objects_in_it() {
        for told in [
            json!({}),
            json!({ "agentCapabilities": null }),
            json!({ "agentCapabilities": { "sessionCapabilities": {} } }),
        ] {
            assert!(is_introduction(&told), "{told}");
        }
        for told in [
            json!([]),
            json!("hello"),
            json!({ "agentCapabilities": true }),
            json!({ "agentCapabilities": { "sessionCapabilities": [] } }),
        ] {
            assert!(!is_introduction(&told), "{told}");
        }
    }
}
