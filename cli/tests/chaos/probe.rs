//! How long it takes, as readers of running turns see it when nothing else is wrong: until words come again after
//! each kind of fault, and until a stream is back at another gateway.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use self::reader::Reader;
use crate::fault::{By, StoreFault};
use crate::fleet::Fleet;
use crate::ledger::Ledger;
use crate::schedule::LEASE;
use crate::setup::Store;
use crate::support::within;

mod reader;

/// Turns per round; the struck worker has about a third of them, the struck primary as well.
const TURNS: usize = 12;
const RESUMED: usize = 64;
const WORDS: &str = "/count 100000 delay=20";
/// A primary that does not answer for so long is replaced, by sentinels as in a Cluster.
const NODE_TIMEOUT: Duration = Duration::from_secs(3);

/// The longest silences of the readers whom a kind of fault concerned.
pub struct Recovery {
    pub what: String,
    /// What was promised.
    pub limit: Option<Duration>,
    pub silences: Vec<Duration>,
}

#[derive(Default)]
pub struct Times {
    pub recoveries: Vec<Recovery>,
    pub resume: Vec<Duration>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Struck {
    GatewayKill,
    WorkerTerm,
    WorkerKill,
    /// All of the store is away for so many milliseconds.
    StoreAway(u64),
    PrimaryKill,
    Failover,
}

impl Struck {
    fn of(store: Store) -> &'static [Self] {
        use Struck::{Failover, GatewayKill, PrimaryKill, StoreAway, WorkerKill, WorkerTerm};
        match store {
            Store::Redis => &[
                GatewayKill,
                WorkerTerm,
                WorkerKill,
                StoreAway(1000),
                StoreAway(4000),
            ],
            Store::Replica => &[GatewayKill, WorkerTerm, WorkerKill],
            Store::Sentinel | Store::Cluster | Store::Valkey => {
                &[GatewayKill, WorkerTerm, WorkerKill, PrimaryKill, Failover]
            }
            Store::Files => &[GatewayKill],
        }
    }

    fn name(self) -> String {
        match self {
            Self::GatewayKill => "kill -9 of a gateway".into(),
            Self::WorkerTerm => "SIGTERM of a worker".into(),
            Self::WorkerKill => "kill -9 of a worker".into(),
            Self::StoreAway(millis) => format!("the store away for {millis} ms"),
            Self::PrimaryKill => "kill -9 of a primary".into(),
            Self::Failover => "a planned failover".into(),
        }
    }

    /// Only the turns that are elsewhere afterwards were concerned.
    fn moves_turns(self) -> bool {
        match self {
            Self::WorkerTerm | Self::WorkerKill | Self::PrimaryKill | Self::Failover => true,
            Self::GatewayKill | Self::StoreAway(_) => false,
        }
    }

    fn limit(self, store: Store) -> Option<Duration> {
        let second = Duration::from_secs(1);
        match self {
            // There is no other: it has to start again.
            Self::GatewayKill if store == Store::Files => None,
            Self::GatewayKill => Some(Duration::from_millis(100)),
            Self::WorkerTerm => Some(Duration::from_millis(200)),
            Self::WorkerKill => Some(LEASE + second),
            Self::StoreAway(millis) => Some(Duration::from_millis(millis) + second),
            Self::PrimaryKill => Some(NODE_TIMEOUT + 5 * second),
            Self::Failover => None,
        }
    }
}

pub async fn run(fleet: &Fleet, ledger: &Ledger, rounds: usize) -> Times {
    let store = fleet.setup.store;
    let mut times = Times::default();
    for struck in Struck::of(store) {
        let mut silences = Vec::new();
        for _ in 0..rounds {
            silences.extend(silence(fleet, ledger, *struck).await);
        }
        times.recoveries.push(Recovery {
            what: struck.name(),
            limit: struck.limit(store),
            silences,
        });
    }
    if store != Store::Files {
        times.resume = resume(fleet, ledger).await;
    }
    times
}

/// The longest silence of each turn that the fault concerned. All turns are read through the first gateway, and go to
/// another if that ends.
async fn silence(fleet: &Fleet, ledger: &Ledger, struck: Struck) -> Vec<Duration> {
    let fronts = fleet.fronts();
    let readers = join_all((0..TURNS).map(|_| Reader::start(&fronts, WORDS))).await;
    let sessions: Vec<String> = readers
        .iter()
        .map(|reader| reader.session.clone())
        .collect();
    let places = || -> Vec<String> {
        let sessions = sessions.iter();
        sessions
            .map(|session| place(fleet, struck, session))
            .collect()
    };
    let before = places();
    let over = CancellationToken::new();
    let listening = readers.into_iter();
    let listening = listening.map(|reader| reader.longest_silence(over.clone(), ledger));
    let strike = async {
        // Each of them has heard something before.
        sleep(Duration::from_millis(200)).await;
        strike(fleet, struck, &before[0]).await;
        // What was on its way has arrived: whatever comes after this is new.
        sleep(Duration::from_millis(300)).await;
        over.cancel();
    };
    let everybody = async { tokio::join!(join_all(listening), strike) };
    let (heard, ()) = within("everybody hears something again", everybody).await;
    let moves = struck.moves_turns();
    let moved = before
        .into_iter()
        .zip(places())
        .map(|(before, after)| !moves || before != after);
    let (silences, readers): (Vec<_>, Vec<_>) = heard.into_iter().unzip();
    fleet.heal().await;
    join_all(readers.into_iter().map(Reader::cancel)).await;
    let concerned = silences.into_iter().zip(moved).filter(|(_, moved)| *moved);
    concerned.map(|(silence, _)| silence).collect()
}

/// Where a turn is, in what this fault concerns: its worker, or the server that keeps it.
fn place(fleet: &Fleet, struck: Struck, session: &str) -> String {
    let servers = fleet.servers.as_ref().filter(|_| struck.moves_turns());
    servers.map_or(String::new(), |servers| match struck {
        Struck::WorkerKill | Struck::WorkerTerm => servers.worker_of(session),
        _ => servers.keeper_of(session),
    })
}

/// `place` is what it strikes, where there are several.
async fn strike(fleet: &Fleet, struck: Struck, place: &str) {
    let worker = || {
        let mut workers = fleet.workers().iter();
        let found = workers.find(|worker| worker.log().contains(place));
        found.expect("a worker logs its id")
    };
    let store = async |fault, lasts| {
        if let Some(servers) = &fleet.servers {
            servers.strike_at(place, fault, lasts, &fleet.ledger).await;
        }
    };
    match struck {
        Struck::GatewayKill => {
            let gateway = &fleet.members[0];
            gateway.kill();
            sleep(Duration::from_millis(500)).await;
            gateway.start();
        }
        Struck::WorkerTerm => {
            let worker = worker();
            worker.terminate().await;
            worker.start();
        }
        Struck::WorkerKill => {
            let worker = worker();
            worker.kill();
            sleep(LEASE).await;
            worker.start();
        }
        Struck::StoreAway(millis) => {
            let lasts = Duration::from_millis(millis);
            store(StoreFault::Outage(By::Kill), lasts).await;
        }
        Struck::PrimaryKill => store(StoreFault::Lose, Duration::ZERO).await,
        Struck::Failover => store(StoreFault::Failover, Duration::ZERO).await,
    }
}

/// From the GET with a cursor to the first event at the other gateway, while all turns run.
async fn resume(fleet: &Fleet, ledger: &Ledger) -> Vec<Duration> {
    let fronts = fleet.fronts();
    let starts = (0..RESUMED).map(|_| Reader::start(&fronts, "/count 100000 delay=50"));
    let mut readers = join_all(starts).await;
    let mut times = Vec::new();
    for reader in &mut readers {
        let cursor = reader.stream.last_id.clone();
        // A client that comes back has no connection open there.
        let began = Instant::now();
        reader.move_on().await;
        let first = timeout(Duration::from_secs(30), reader.stream.block()).await;
        times.push(began.elapsed());
        let start = first.ok().flatten().map(|event| event.id);
        ledger.started(
            "probe",
            &reader.session,
            &cursor,
            &start.unwrap_or_default(),
        );
        reader.chunk(ledger).await;
    }
    join_all(readers.into_iter().map(Reader::cancel)).await;
    times
}
