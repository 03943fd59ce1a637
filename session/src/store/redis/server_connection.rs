//! One connection to one server, shared by all callers. It is replaced when it broke or has not
//! answered, and when another server has become the primary; pending commands get an error and are
//! repeated by their callers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _, Shared};
use redis::aio::{ConnectionLike as _, MultiplexedConnection};
use redis::{Cmd, ErrorKind, Pipeline, RedisError, Value};
use tokio::task::JoinError;
use tokio::time::Instant;

use super::fault;
use super::login::ServerLogin;
use super::servers::{RedisServers, ServerAddress, config};
use crate::sync::MutexExt as _;

/// A caller that gives up after this time proves that the connection does not answer.
const UNANSWERED_TIMEOUT: Duration = Duration::from_millis(750);
/// Above this number, connections to servers that are gone are dropped.
const MAX_CONNECTIONS: usize = 256;

pub(super) struct ServerConnection {
    target: ConnectionTarget,
    state: Arc<Mutex<ConnectionState>>,
}

#[derive(Clone)]
enum ConnectionTarget {
    /// The only server, or the primary that sentinels name.
    Primary(RedisServers),
    /// One node of a Cluster.
    Node(Box<ServerLogin>),
}

#[derive(Default)]
struct ConnectionState {
    made: u64,
    live: Option<LiveConnection>,
    /// The next connection, shared by all callers that wait for it. A task of its own makes it: a
    /// caller that is not polled for a while must not hold up the others.
    dialing: Option<Shared<BoxFuture<'static, DialResult>>>,
}

type DialResult = Result<LiveConnection, Arc<RedisError>>;

#[derive(Clone)]
struct LiveConnection {
    number: u64,
    connection: MultiplexedConnection,
    address: Option<ServerAddress>,
}

impl ServerConnection {
    pub fn to_primary(servers: RedisServers) -> Self {
        Self::new(ConnectionTarget::Primary(servers))
    }

    fn new(target: ConnectionTarget) -> Self {
        Self {
            target,
            state: Arc::default(),
        }
    }

    pub async fn send(&self, command: &Cmd) -> Result<Value, Arc<RedisError>> {
        let mut live = self.live().await?;
        let unanswered = UnansweredGuard::new(self, &live);
        let answer = live.connection.req_packed_command(command).await;
        unanswered.end();
        self.drop_if_broken(&live, answer.and_then(Value::extract_error))
    }

    /// All on one connection, in order. Errors of single commands are among the values.
    pub async fn send_all(&self, commands: &Pipeline) -> Result<Vec<Value>, Arc<RedisError>> {
        let mut live = self.live().await?;
        let count = commands.len();
        let unanswered = UnansweredGuard::new(self, &live);
        let answer = live
            .connection
            .req_packed_commands(commands, 0, count)
            .await;
        unanswered.end();
        let answers = self.drop_if_broken(&live, answer)?;
        for answer in &answers {
            if let Value::ServerError(error) = answer {
                let _ = self.drop_if_broken::<()>(&live, Err(error.clone().into()));
            }
        }
        Ok(answers)
    }

    /// To a node that does not have the slot yet, but is about to get it.
    pub async fn send_asking(&self, command: &Cmd) -> Result<Value, Arc<RedisError>> {
        let mut commands = Pipeline::new();
        commands.add_command(redis::cmd("ASKING"));
        commands.add_command(command.clone());
        let answer = self.send_all(&commands).await?.pop().unwrap_or(Value::Nil);
        Ok(answer.extract_error()?)
    }

    fn drop_if_broken<T>(
        &self,
        live: &LiveConnection,
        answer: Result<T, RedisError>,
    ) -> Result<T, Arc<RedisError>> {
        if let Err(error) = &answer
            && fault::breaks(error)
        {
            self.forget(live.number);
        }
        answer.map_err(Arc::new)
    }

    /// The connection is of no use any more.
    fn forget(&self, number: u64) {
        let mut state = self.state();
        state.live.take_if(|live| live.number == number);
    }

    /// How many connections were made: the number of the last one.
    pub fn number(&self) -> u64 {
        self.state().made
    }

    fn state(&self) -> MutexGuard<'_, ConnectionState> {
        lock(&self.state)
    }

    fn usable(&self) -> Option<LiveConnection> {
        let mut state = self.state();
        let live = state.live.take();
        state.live = live.filter(|live| self.target.leads_to(live.address.as_ref()));
        state.live.clone()
    }

    async fn live(&self) -> DialResult {
        if let Some(live) = self.usable() {
            return Ok(live);
        }
        let dialing = {
            let mut state = self.state();
            let start = || self.start_dialing().boxed().shared();
            state.dialing.get_or_insert_with(start).clone()
        };
        dialing.await
    }

    fn start_dialing(&self) -> impl Future<Output = DialResult> + use<> {
        let (way, state) = (self.target.clone(), self.state.clone());
        let unmade = state.clone();
        let task = tokio::spawn(async move {
            let dialed = way.dial().await;
            let mut state = lock(&state);
            state.dialing = None;
            let (connection, address) = dialed.map_err(Arc::new)?;
            state.made += 1;
            let live = LiveConnection {
                number: state.made,
                connection,
                address,
            };
            state.live = Some(live.clone());
            Ok(live)
        });
        async move {
            let stopped = |error: JoinError| {
                lock(&unmade).dialing = None;
                let what = "the connection was not made";
                Arc::new(RedisError::from((ErrorKind::Io, what, error.to_string())))
            };
            task.await.map_err(stopped)?
        }
    }
}

fn lock(state: &Mutex<ConnectionState>) -> MutexGuard<'_, ConnectionState> {
    state.locked()
}

impl ConnectionTarget {
    async fn dial(&self) -> Result<(MultiplexedConnection, Option<ServerAddress>), RedisError> {
        match self {
            Self::Primary(servers) => servers.dial(&config()).await,
            Self::Node(login) => Ok((login.dial(&config()).await?, None)),
        }
    }

    fn leads_to(&self, address: Option<&ServerAddress>) -> bool {
        match self {
            Self::Primary(servers) => servers.is_primary(address),
            Self::Node(_) => true,
        }
    }
}

/// Callers may give up before the connection's own timeout, and there may be no other caller: their
/// giving up has to count.
struct UnansweredGuard<'a> {
    connection: Option<&'a ServerConnection>,
    number: u64,
    since: Instant,
}

impl<'a> UnansweredGuard<'a> {
    fn new(connection: &'a ServerConnection, live: &LiveConnection) -> Self {
        Self {
            connection: Some(connection),
            number: live.number,
            since: Instant::now(),
        }
    }

    fn end(mut self) {
        self.connection = None;
    }
}

impl Drop for UnansweredGuard<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection
            && self.since.elapsed() >= UNANSWERED_TIMEOUT
        {
            connection.forget(self.number);
        }
    }
}

/// A connection to each node of a Cluster: none of them waits for another.
pub(super) struct NodeConnections {
    login: ServerLogin,
    connections: Mutex<HashMap<ServerAddress, Arc<ServerConnection>>>,
}

impl NodeConnections {
    pub fn new(login: ServerLogin) -> Self {
        Self {
            login,
            connections: Mutex::default(),
        }
    }

    pub fn to(&self, node: &ServerAddress) -> Arc<ServerConnection> {
        let mut connections = self.connections.locked();
        if let Some(connection) = connections.get(node) {
            return connection.clone();
        }
        if connections.len() >= MAX_CONNECTIONS {
            connections.retain(|_, connection| connection.state().live.is_some());
        }
        let connection = Arc::new(ServerConnection::new(ConnectionTarget::Node(Box::new(
            self.login.at(node),
        ))));
        connections.insert(node.clone(), connection.clone());
        connection
    }
}
