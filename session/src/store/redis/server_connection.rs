//! One connection to one server, shared by all who ask. It is made anew when it broke or has not
//! answered, and when another server has become the primary; whoever was under way gets an error and asks
//! again.

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
use super::servers::{ServerAddress, RedisServers, config};
use crate::sync::MutexExt as _;

/// A caller that gives up after this time proves that the connection does not answer.
const UNANSWERED_TIMEOUT: Duration = Duration::from_millis(750);
/// Lines to servers that are gone are forgotten when there are more.
const MAX_CONNECTIONS: usize = 256;

pub(super) struct ServerConnection {
    target: ConnectionTarget,
    place: Arc<Mutex<ConnectionState>>,
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
    wire: Option<LiveConnection>,
    /// The next connection, which is being made for all who wait. A task of its own makes it: whoever was first may be
    /// left alone for a while by those who poll it, and must not hold up the others.
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
            place: Arc::default(),
        }
    }

    pub async fn send(&self, command: &Cmd) -> Result<Value, Arc<RedisError>> {
        let mut wire = self.wire().await?;
        let unanswered = UnansweredGuard::new(self, &wire);
        let answer = wire.connection.req_packed_command(command).await;
        unanswered.end();
        self.drop_if_broken(&wire, answer.and_then(Value::extract_error))
    }

    /// All on one connection, in order. Errors of single commands are among the values.
    pub async fn send_all(&self, commands: &Pipeline) -> Result<Vec<Value>, Arc<RedisError>> {
        let mut wire = self.wire().await?;
        let count = commands.len();
        let unanswered = UnansweredGuard::new(self, &wire);
        let answer = wire
            .connection
            .req_packed_commands(commands, 0, count)
            .await;
        unanswered.end();
        let answers = self.drop_if_broken(&wire, answer)?;
        for answer in &answers {
            if let Value::ServerError(error) = answer {
                let _ = self.drop_if_broken::<()>(&wire, Err(error.clone().into()));
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

    fn drop_if_broken<T>(&self, wire: &LiveConnection, answer: Result<T, RedisError>) -> Result<T, Arc<RedisError>> {
        if let Err(error) = &answer
            && fault::breaks(error)
        {
            self.forget(wire.number);
        }
        answer.map_err(Arc::new)
    }

    /// The connection is of no use any more.
    fn forget(&self, number: u64) {
        let mut place = self.place();
        place.wire.take_if(|wire| wire.number == number);
    }

    fn place(&self) -> MutexGuard<'_, ConnectionState> {
        lock(&self.place)
    }

    fn usable(&self) -> Option<LiveConnection> {
        let mut place = self.place();
        let wire = place.wire.take();
        place.wire = wire.filter(|wire| self.target.leads_to(wire.address.as_ref()));
        place.wire.clone()
    }

    async fn wire(&self) -> DialResult {
        if let Some(wire) = self.usable() {
            return Ok(wire);
        }
        let dialing = {
            let mut place = self.place();
            let start = || self.start_dialing().boxed().shared();
            place.dialing.get_or_insert_with(start).clone()
        };
        dialing.await
    }

    fn start_dialing(&self) -> impl Future<Output = DialResult> + use<> {
        let (way, place) = (self.target.clone(), self.place.clone());
        let unmade = place.clone();
        let task = tokio::spawn(async move {
            let dialed = way.dial().await;
            let mut place = lock(&place);
            place.dialing = None;
            let (connection, address) = dialed.map_err(Arc::new)?;
            place.made += 1;
            let wire = LiveConnection {
                number: place.made,
                connection,
                address,
            };
            place.wire = Some(wire.clone());
            Ok(wire)
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

fn lock(place: &Mutex<ConnectionState>) -> MutexGuard<'_, ConnectionState> {
    place.locked()
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

/// Those who ask may leave before the connection's own patience ends, and nobody else may ask: their
/// leaving has to count.
struct UnansweredGuard<'a> {
    line: Option<&'a ServerConnection>,
    number: u64,
    since: Instant,
}

impl<'a> UnansweredGuard<'a> {
    fn new(line: &'a ServerConnection, wire: &LiveConnection) -> Self {
        Self {
            line: Some(line),
            number: wire.number,
            since: Instant::now(),
        }
    }

    fn end(mut self) {
        self.line = None;
    }
}

impl Drop for UnansweredGuard<'_> {
    fn drop(&mut self) {
        if let Some(line) = self.line
            && self.since.elapsed() >= UNANSWERED_TIMEOUT
        {
            line.forget(self.number);
        }
    }
}

/// A line to each node of a Cluster: none of them waits for another.
pub(super) struct NodeConnections {
    login: ServerLogin,
    lines: Mutex<HashMap<ServerAddress, Arc<ServerConnection>>>,
}

impl NodeConnections {
    pub fn new(login: ServerLogin) -> Self {
        Self {
            login,
            lines: Mutex::default(),
        }
    }

    pub fn to(&self, node: &ServerAddress) -> Arc<ServerConnection> {
        let mut lines = self.lines.locked();
        if let Some(line) = lines.get(node) {
            return line.clone();
        }
        if lines.len() >= MAX_CONNECTIONS {
            lines.retain(|_, line| line.place().wire.is_some());
        }
        let line = Arc::new(ServerConnection::new(ConnectionTarget::Node(Box::new(self.login.at(node)))));
        lines.insert(node.clone(), line.clone());
        line
    }
}
