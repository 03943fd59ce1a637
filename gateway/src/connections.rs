//! How many connections there may be, in all and from one address. When there is no room, the oldest
//! that is idle makes some: first those that never carried a request, last those of trusted proxies.
//! One that carries a request, a stream or a WebSocket is never closed for another.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::{Response, StatusCode};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use baton_session::sync::MutexExt as _;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    pub total: usize,
    /// Trusted proxies are exempt: all of their clients come from one address.
    pub per_address: usize,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            total: usize::MAX,
            per_address: usize::MAX,
        }
    }
}

/// All connections of a gateway's port.
pub struct Connections {
    limits: ConnectionLimits,
    metrics: Arc<Metrics>,
    table: Mutex<Table>,
    /// One has ended.
    ended: Notify,
}

#[derive(Default)]
struct Table {
    open: HashMap<u64, Entry>,
    /// Those told to end are among them until their socket is closed.
    total: usize,
    addresses: HashMap<IpAddr, Address>,
    idle: BTreeSet<Rank>,
    /// Counts connections and pauses: what is lower began earlier.
    clock: u64,
}

#[derive(Default)]
struct Address {
    open: usize,
    idle: BTreeSet<Rank>,
}

struct Entry {
    address: IpAddr,
    rank: Rank,
    /// Requests whose answer is not written to its end.
    busy: usize,
    end: CancellationToken,
}

/// The lowest goes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    trusted: bool,
    used: bool,
    since: u64,
    id: u64,
}

impl Connections {
    pub fn new(limits: ConnectionLimits, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self {
            limits,
            metrics,
            table: Mutex::default(),
            ended: Notify::new(),
        })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.locked()
    }

    /// A place for one more, or `None` if there is none and nobody is idle.
    pub fn admit(self: &Arc<Self>, address: IpAddr, trusted: bool) -> Option<Place> {
        let address = network(address);
        let table = &mut *self.table();
        let from_there = table.addresses.get(&address).map_or(0, |held| held.open);
        let shares = !trusted && self.limits.per_address < self.limits.total;
        if shares && from_there >= self.limits.per_address {
            let oldest = table.addresses[&address].idle.first().copied();
            if !self.make_room(table, oldest, "address") {
                return None;
            }
        } else if table.total >= self.limits.total {
            let oldest = table.idle.first().copied();
            if !self.make_room(table, oldest, "total") {
                return None;
            }
        }
        table.clock += 1;
        let id = table.clock;
        let rank = Rank {
            trusted,
            used: false,
            since: id,
            id,
        };
        let end = CancellationToken::new();
        let entry = Entry {
            address,
            rank,
            busy: 0,
            end: end.clone(),
        };
        table.open.insert(id, entry);
        table.addresses.entry(address).or_default().open += 1;
        table.total += 1;
        table.rest(address, rank);
        self.metrics.connections.inc();
        let connections = self.clone();
        Some(Place {
            connections,
            id,
            end,
        })
    }

    /// Says whether there was somebody to make room.
    fn make_room(&self, table: &mut Table, oldest: Option<Rank>, limit: &'static str) -> bool {
        self.metrics.crowded(limit, oldest.is_some());
        let Some(rank) = oldest else {
            return false;
        };
        table.end(rank);
        true
    }

    /// There are not enough descriptors although the limit is not reached.
    pub fn shed(&self) {
        let table = &mut *self.table();
        let oldest = table.idle.first().copied();
        self.make_room(table, oldest, "descriptors");
    }

    /// Returns when those that had to make room have done so.
    pub async fn settled(&self) {
        loop {
            let ended = self.ended.notified();
            if self.table().total <= self.limits.total {
                return;
            }
            ended.await;
        }
    }
}

/// The owner of an IPv6 address has a whole network of them.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(six) => Ipv6Addr::from_bits(six.to_bits() & (!0 << 64)).into(),
    }
}

impl Table {
    fn rest(&mut self, address: IpAddr, rank: Rank) {
        self.idle.insert(rank);
        if let Some(held) = self.addresses.get_mut(&address) {
            held.idle.insert(rank);
        }
    }

    fn work(&mut self, address: IpAddr, rank: Rank) {
        self.idle.remove(&rank);
        if let Some(held) = self.addresses.get_mut(&address) {
            held.idle.remove(&rank);
        }
    }

    /// It is no candidate any more; its place is free when its socket is closed.
    fn end(&mut self, rank: Rank) {
        let Some(entry) = self.open.remove(&rank.id) else {
            return;
        };
        self.work(entry.address, rank);
        self.leave(entry.address);
        entry.end.cancel();
    }

    fn leave(&mut self, address: IpAddr) {
        if let Some(held) = self.addresses.get_mut(&address) {
            held.open -= 1;
            if held.open == 0 {
                self.addresses.remove(&address);
            }
        }
    }
}

/// A connection's place, as long as its socket is open.
pub struct Place {
    connections: Arc<Connections>,
    id: u64,
    end: CancellationToken,
}

impl Place {
    /// Cancelled when the connection has to make room.
    pub fn end(&self) -> CancellationToken {
        self.end.clone()
    }

    pub fn use_of(&self) -> Use {
        Use {
            connections: self.connections.clone(),
            id: self.id,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let table = &mut *self.connections.table();
        if let Some(entry) = table.open.remove(&self.id) {
            table.work(entry.address, entry.rank);
            table.leave(entry.address);
        }
        table.total -= 1;
        self.connections.metrics.connections.dec();
        self.connections.ended.notify_one();
    }
}

/// Says which connection a request is on.
#[derive(Clone)]
pub struct Use {
    connections: Arc<Connections>,
    id: u64,
}

impl Use {
    /// A request has come.
    pub fn begin(&self) -> Busy {
        let table = &mut *self.connections.table();
        if let Some(entry) = table.open.get_mut(&self.id) {
            entry.busy += 1;
            if entry.busy == 1 {
                let (address, rank) = (entry.address, entry.rank);
                table.work(address, rank);
            }
        }
        Busy(Some(self.clone()))
    }

    fn finish(&self) {
        let table = &mut *self.connections.table();
        table.clock += 1;
        let now = table.clock;
        if let Some(entry) = table.open.get_mut(&self.id) {
            entry.busy -= 1;
            if entry.busy == 0 {
                entry.rank.used = true;
                entry.rank.since = now;
                let (address, rank) = (entry.address, entry.rank);
                table.rest(address, rank);
            }
        }
    }
}

/// A request under way, until its answer is written.
pub struct Busy(Option<Use>);

impl Busy {
    /// The connection is busy until all of the answer is written, and for ever if it becomes a WebSocket.
    pub fn during(self, answer: Response<Body>) -> Response<Answer> {
        if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
            let answer = answer.map(|body| Answer { body, _busy: None });
            self.stays();
            return answer;
        }
        let _busy = Some(self);
        answer.map(|body| Answer { body, _busy })
    }

    fn stays(mut self) {
        self.0 = None;
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some(used) = &self.0 {
            used.finish();
        }
    }
}

/// The body of an answer; its connection is busy as long as it is there.
pub struct Answer {
    body: Body,
    _busy: Option<Busy>,
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn connections(total: usize, per_address: usize) -> Arc<Connections> {
        let limits = ConnectionLimits { total, per_address };
        Connections::new(limits, Arc::default())
    }

    #[tokio::test]
    async fn the_oldest_that_is_idle_makes_room_and_who_works_does_not() {
        let all = connections(3, 3);
        let places: Vec<_> = (0..3)
            .map(|n| all.admit(address(n), false).unwrap())
            .collect();
        let ended = |n: usize| places[n].end().is_cancelled();
        let busy = places[0].use_of().begin();
        // Used, so it goes after the one that never was.
        drop(places[1].use_of().begin());
        let _fourth = all.admit(address(3), false).unwrap();
        assert_eq!([0, 1, 2].map(ended), [false, false, true]);
        let fifth = all.admit(address(4), false).unwrap();
        assert!(_fourth.end().is_cancelled(), "it never carried a request");
        let _working = fifth.use_of().begin();
        let sixth = all.admit(address(5), false).unwrap();
        assert!(ended(1));
        busy.stays();
        let _sixth_works = sixth.use_of().begin();
        assert!(all.admit(address(6), false).is_none(), "all three work");
        // The first is a WebSocket, and stays one.
        assert!(!ended(0));
    }

    #[tokio::test]
    async fn an_address_has_its_share_and_proxies_have_what_there_is() {
        let all = connections(10, 2);
        let [one, two] = [(), ()].map(|()| all.admit(address(1), false).unwrap());
        let other = all.admit(address(2), false).unwrap();
        let _three = all.admit(address(1), false).unwrap();
        assert!(one.end().is_cancelled() && !two.end().is_cancelled());
        assert!(!other.end().is_cancelled());
        let proxied: Vec<_> = (0..5).map(|_| all.admit(address(9), true)).collect();
        assert!(proxied.iter().all(Option::is_some));
        let six = |last: u16| Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, last).into();
        let [first, _, _] = [1, 2, 3].map(|n| all.admit(six(n), false).unwrap());
        assert!(first.end().is_cancelled(), "one network is one address");
    }

    #[tokio::test]
    async fn nobody_comes_before_the_last_has_gone() {
        let all = connections(1, 1);
        let one = all.admit(address(1), false).unwrap();
        all.settled().await;
        let two = all.admit(address(2), false).unwrap();
        let soon = std::time::Duration::from_millis(10);
        assert!(tokio::time::timeout(soon, all.settled()).await.is_err());
        drop(one);
        all.settled().await;
        drop(two);
        assert_eq!(all.table().total, 0);
        assert!(all.table().addresses.is_empty() && all.table().idle.is_empty());
    }
}
