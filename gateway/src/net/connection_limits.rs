//! How many connections there may be, in all and from one address. When there is no room, the
//! oldest that is idle makes some: first those that never carried a request, last those of trusted
//! proxies. One that carries a request, a stream or a WebSocket is never closed for another.

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

use crate::metrics::GatewayMetrics;
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
pub struct ConnectionSlots {
    limits: ConnectionLimits,
    metrics: Arc<GatewayMetrics>,
    table: Mutex<SlotTable>,
    /// One has ended.
    ended: Notify,
}

#[derive(Default)]
struct SlotTable {
    open: HashMap<u64, OpenConnection>,
    /// Those told to end are among them until their socket is closed.
    total: usize,
    addresses: HashMap<IpAddr, AddressSlots>,
    idle: BTreeSet<EvictionRank>,
    /// Counts connections and pauses: what is lower began earlier.
    clock: u64,
}

#[derive(Default)]
struct AddressSlots {
    open: usize,
    idle: BTreeSet<EvictionRank>,
}

struct OpenConnection {
    address: IpAddr,
    rank: EvictionRank,
    /// Requests whose answer is not written to its end.
    busy: usize,
    end: CancellationToken,
}

/// The lowest goes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct EvictionRank {
    trusted: bool,
    used: bool,
    since: u64,
    id: u64,
}

impl ConnectionSlots {
    pub fn new(limits: ConnectionLimits, metrics: Arc<GatewayMetrics>) -> Arc<Self> {
        Arc::new(Self {
            limits,
            metrics,
            table: Mutex::default(),
            ended: Notify::new(),
        })
    }

    fn table(&self) -> MutexGuard<'_, SlotTable> {
        self.table.locked()
    }

    /// A place for one more, or `None` if there is none and nobody is idle.
    pub fn admit(self: &Arc<Self>, address: IpAddr, trusted: bool) -> Option<ConnectionSlot> {
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
        let rank = EvictionRank {
            trusted,
            used: false,
            since: id,
            id,
        };
        let end = CancellationToken::new();
        let entry = OpenConnection {
            address,
            rank,
            busy: 0,
            end: end.clone(),
        };
        table.open.insert(id, entry);
        table.addresses.entry(address).or_default().open += 1;
        table.total += 1;
        table.mark_idle(address, rank);
        self.metrics.connections.inc();
        let connections = self.clone();
        Some(ConnectionSlot {
            connections,
            id,
            end,
        })
    }

    /// Says whether there was somebody to make room.
    fn make_room(
        &self,
        table: &mut SlotTable,
        oldest: Option<EvictionRank>,
        limit: &'static str,
    ) -> bool {
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
    pub async fn room_made(&self) {
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

impl SlotTable {
    fn mark_idle(&mut self, address: IpAddr, rank: EvictionRank) {
        self.idle.insert(rank);
        if let Some(held) = self.addresses.get_mut(&address) {
            held.idle.insert(rank);
        }
    }

    fn mark_busy(&mut self, address: IpAddr, rank: EvictionRank) {
        self.idle.remove(&rank);
        if let Some(held) = self.addresses.get_mut(&address) {
            held.idle.remove(&rank);
        }
    }

    /// It is no candidate any more; its place is free when its socket is closed.
    fn end(&mut self, rank: EvictionRank) {
        let Some(entry) = self.open.remove(&rank.id) else {
            return;
        };
        self.mark_busy(entry.address, rank);
        self.release(entry.address);
        entry.end.cancel();
    }

    fn release(&mut self, address: IpAddr) {
        if let Some(held) = self.addresses.get_mut(&address) {
            held.open -= 1;
            if held.open == 0 {
                self.addresses.remove(&address);
            }
        }
    }
}

/// A connection's place, as long as its socket is open.
pub struct ConnectionSlot {
    connections: Arc<ConnectionSlots>,
    id: u64,
    end: CancellationToken,
}

impl ConnectionSlot {
    /// Cancelled when the connection has to make room.
    pub fn end(&self) -> CancellationToken {
        self.end.clone()
    }

    pub fn use_of(&self) -> ConnectionUse {
        ConnectionUse {
            connections: self.connections.clone(),
            id: self.id,
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let table = &mut *self.connections.table();
        if let Some(entry) = table.open.remove(&self.id) {
            table.mark_busy(entry.address, entry.rank);
            table.release(entry.address);
        }
        table.total -= 1;
        self.connections.metrics.connections.dec();
        self.connections.ended.notify_one();
    }
}

/// Says which connection a request is on.
#[derive(Clone)]
pub struct ConnectionUse {
    connections: Arc<ConnectionSlots>,
    id: u64,
}

impl ConnectionUse {
    /// A request has come.
    pub fn begin(&self) -> BusyGuard {
        let table = &mut *self.connections.table();
        if let Some(entry) = table.open.get_mut(&self.id) {
            entry.busy += 1;
            if entry.busy == 1 {
                let (address, rank) = (entry.address, entry.rank);
                table.mark_busy(address, rank);
            }
        }
        BusyGuard(Some(self.clone()))
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
                table.mark_idle(address, rank);
            }
        }
    }
}

/// A request under way, until its answer is written.
pub struct BusyGuard(Option<ConnectionUse>);

impl BusyGuard {
    /// The connection is busy until all of the answer is written, and for ever if it becomes a
    /// WebSocket.
    pub fn until_written(self, answer: Response<Body>) -> Response<TrackedBody> {
        if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
            let answer = answer.map(|body| TrackedBody { body, _busy: None });
            self.keep_busy();
            return answer;
        }
        let _busy = Some(self);
        answer.map(|body| TrackedBody { body, _busy })
    }

    fn keep_busy(mut self) {
        self.0 = None;
    }
}

impl Drop for BusyGuard {
    fn drop(&mut self) {
        if let Some(used) = &self.0 {
            used.finish();
        }
    }
}

/// The body of an answer; its connection is busy as long as it is there.
pub struct TrackedBody {
    body: Body,
    _busy: Option<BusyGuard>,
}

impl hyper::body::Body for TrackedBody {
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

    fn connections(total: usize, per_address: usize) -> Arc<ConnectionSlots> {
        let limits = ConnectionLimits { total, per_address };
        ConnectionSlots::new(limits, Arc::default())
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
        busy.keep_busy();
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
        all.room_made().await;
        let two = all.admit(address(2), false).unwrap();
        let soon = std::time::Duration::from_millis(10);
        assert!(tokio::time::timeout(soon, all.room_made()).await.is_err());
        drop(one);
        all.room_made().await;
        drop(two);
        assert_eq!(all.table().total, 0);
        assert!(all.table().addresses.is_empty() && all.table().idle.is_empty());
    }
}
