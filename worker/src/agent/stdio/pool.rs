//! Starts agents, and keeps some ready in advance.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use baton_protocol::Method;
use baton_session::sync::MutexExt as _;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use super::StdioConfig;
use super::client_profile::ClientProfile;
use super::connection::AgentConnection;
use super::failures;
use super::process::{AgentProcess, LaunchConfig};
use super::running_processes::{MEASURE_EVERY, RunningProcesses};
use super::sandbox::ProcessPaths;
use super::start_backoff::StartBackoff;
use super::start_demand::StartDemand;
use crate::agent::AgentRoom;
use crate::agent_policy::AgentMessage;
use crate::rpc::Failure;

pub struct AgentPool {
    pub launch: LaunchConfig,
    /// How many are kept ready at most.
    pub warm: usize,
    /// How long an agent may take to start.
    pub patience: Duration,
    /// The longest line it may write.
    pub line_limit: usize,
    pub crashes: StartBackoff,
    pub running: Arc<RunningProcesses>,
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
    demand: StartDemand,
    /// What the last session's client can do.
    last_client: Option<ClientProfile>,
}

impl AgentPool {
    pub fn new(config: &StdioConfig) -> Self {
        let metrics = config.metrics.clone();
        Self {
            launch: config.launch.clone(),
            warm: config.warm,
            patience: config.start_timeout,
            line_limit: config.line_limit,
            crashes: StartBackoff::default(),
            running: Arc::new(RunningProcesses::new(config.memory_total, metrics)),
            state: Mutex::default(),
        }
    }

    /// Measures the processes, and keeps as many ready as are wanted, until the pool is gone.
    pub async fn tend(pool: Weak<Self>) {
        loop {
            sleep(MEASURE_EVERY).await;
            let Some(pool) = pool.upgrade() else { return };
            pool.measure().await;
            pool.keep_ready(pool.wanted(), 0);
            pool.refill();
        }
    }

    pub async fn measure(&self) {
        let running = self.running.clone();
        // A panic in there has been reported.
        let _ = tokio::task::spawn_blocking(move || running.measure()).await;
    }

    /// Whether so many sessions have memory for their processes.
    pub fn room_for(&self, sessions: usize) -> AgentRoom {
        let ready = self.state().ready_pids();
        self.running.room_for(sessions, &ready)
    }

    /// One that is ready, else a new one.
    pub async fn take(
        self: &Arc<Self>,
        client: &ClientProfile,
        paths: &ProcessPaths,
    ) -> Result<Arc<AgentConnection>, Failure> {
        let ready = self.take_ready(client);
        let outcome = ready.as_ref().map_or("started", |_| "ready");
        let metrics = &self.running.metrics;
        metrics.taken.get_or_create(&[("process", outcome)]).inc();
        self.note_demand(client);
        self.refill();
        match ready {
            Some(connection) => Ok(connection),
            None => {
                self.keep_ready(self.warm, 1);
                Ok(Arc::new(self.start(client, paths).await?.0))
            }
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
        let mut state = self.state();
        state.ready.push((client.clone(), Arc::new(connection)));
        self.show_ready(&state);
    }

    fn state(&self) -> std::sync::MutexGuard<'_, PoolState> {
        self.state.locked()
    }

    fn show_ready(&self, state: &PoolState) {
        self.running.metrics.ready.set(state.ready.len() as i64);
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
        self.show_ready(&state);
        taken
            .filter(|_| found.is_some())
            .map(|(_, connection)| connection)
    }

    fn note_demand(&self, client: &ClientProfile) {
        let mut state = self.state();
        state.demand.taken(Instant::now());
        state.last_client = Some(client.clone());
    }

    /// How many are to be ready.
    fn wanted(&self) -> usize {
        self.state().wanted(self.warm)
    }

    /// Whether another one is to be ready, and has memory.
    fn lacks_ready(&self) -> bool {
        let mut state = self.state();
        state.ready.len() < state.wanted(self.warm) && self.running.fits_more(1)
    }

    /// Keeps `most` of those that are ready, and fewer if `more` have no memory beside them.
    fn keep_ready(&self, most: usize, more: usize) {
        let mut state = self.state();
        let crowded = |state: &PoolState| {
            let too_little = || !self.running.fits_more_soon(more);
            state.ready.len() > most || (!state.ready.is_empty() && too_little())
        };
        while crowded(&state) {
            state.ready.remove(0);
        }
        self.show_ready(&state);
    }

    /// For more clients like the last one, beside everything else.
    fn refill(self: &Arc<Self>) {
        let mut state = self.state();
        let Some(client) = state.last_client.clone() else {
            return;
        };
        if self.warm == 0 || state.refilling {
            return;
        }
        state.refilling = true;
        let pool = self.clone();
        tokio::spawn(async move {
            while pool.lacks_ready() {
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
        let began = Instant::now();
        let started = self.attempt(client, paths).await;
        let outcome = match &started {
            Ok(_) => {
                self.crashes.started();
                self.state().demand.started(began.elapsed());
                self.running.metrics.start.observe(began.elapsed(), None);
                "ok"
            }
            Err(StartFailure { failure, .. }) => {
                self.crashes.failed(&failure.message);
                "failed"
            }
        };
        let metrics = &self.running.metrics;
        metrics.starts.get_or_create(&[("outcome", outcome)]).inc();
        started
    }

    async fn attempt(
        &self,
        client: &ClientProfile,
        paths: &ProcessPaths,
    ) -> Result<(AgentConnection, Value), StartFailure> {
        let process = AgentProcess::start(&self.launch, paths, &self.running);
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

impl PoolState {
    fn wanted(&mut self, most: usize) -> usize {
        self.demand.wanted(Instant::now(), most)
    }

    fn ready_pids(&self) -> HashSet<u32> {
        let ready = self.ready.iter();
        ready.map(|(_, connection)| connection.pid()).collect()
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
