//! One connection to one server, shared by all who ask. It is made anew when it broke and when
//! another server has become the primary; whoever was under way gets an error and asks again.

use std::sync::{Arc, Mutex, MutexGuard};

use redis::aio::{ConnectionLike as _, MultiplexedConnection};
use redis::{Cmd, Pipeline, RedisError, Value};
use tokio::time::Instant;

use super::fault;
use super::servers::{Address, Servers, config};

pub(super) struct Line {
    servers: Servers,
    place: Mutex<Place>,
    /// Held by the one who makes the next connection.
    dialing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Place {
    made: u64,
    wire: Option<Wire>,
    /// For those who waited while it did not work.
    failed: Option<(Instant, Arc<RedisError>)>,
}

#[derive(Clone)]
struct Wire {
    number: u64,
    connection: MultiplexedConnection,
    address: Option<Address>,
}

impl Line {
    pub fn new(servers: Servers) -> Self {
        Self {
            servers,
            place: Mutex::default(),
            dialing: tokio::sync::Mutex::default(),
        }
    }

    pub async fn send(&self, command: &Cmd) -> Result<Value, Arc<RedisError>> {
        let mut wire = self.wire().await?;
        let answer = wire.connection.req_packed_command(command).await;
        self.judge(&wire, answer.and_then(Value::extract_error))
    }

    /// All on one connection, in order. Errors of single commands are among the values.
    pub async fn send_all(&self, commands: &Pipeline) -> Result<Vec<Value>, Arc<RedisError>> {
        let mut wire = self.wire().await?;
        let count = commands.len();
        let answer = wire
            .connection
            .req_packed_commands(commands, 0, count)
            .await;
        let answers = self.judge(&wire, answer)?;
        for answer in &answers {
            if let Value::ServerError(error) = answer {
                let _ = self.judge::<()>(&wire, Err(error.clone().into()));
            }
        }
        Ok(answers)
    }

    /// Forgets a connection that is of no use any more.
    fn judge<T>(&self, wire: &Wire, answer: Result<T, RedisError>) -> Result<T, Arc<RedisError>> {
        if let Err(error) = &answer
            && fault::breaks(error)
        {
            let mut place = self.place();
            if place
                .wire
                .as_ref()
                .is_some_and(|now| now.number == wire.number)
            {
                place.wire = None;
            }
        }
        answer.map_err(Arc::new)
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().expect("held for moments only")
    }

    fn usable(&self) -> Option<Wire> {
        let mut place = self.place();
        let wire = place.wire.take();
        place.wire = wire.filter(|wire| self.servers.is_primary(wire.address.as_ref()));
        place.wire.clone()
    }

    async fn wire(&self) -> Result<Wire, Arc<RedisError>> {
        if let Some(wire) = self.usable() {
            return Ok(wire);
        }
        let asked = Instant::now();
        let _dialing = self.dialing.lock().await;
        if let Some(wire) = self.usable() {
            return Ok(wire);
        }
        if let Some((at, error)) = &self.place().failed
            && *at > asked
        {
            return Err(error.clone());
        }
        let dialed = self.servers.dial(&config()).await;
        let mut place = self.place();
        match dialed {
            Ok((connection, address)) => {
                place.made += 1;
                let wire = Wire {
                    number: place.made,
                    connection,
                    address,
                };
                place.wire = Some(wire.clone());
                Ok(wire)
            }
            Err(error) => {
                let error = Arc::new(error);
                place.failed = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }
}
