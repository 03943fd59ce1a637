//! `--replay`: how fast `session/load` brings a history back, and what clients that read it slowly cost.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep, timeout};

use crate::client::{Conn, History, Loading, Session, Transport};
use crate::count::Count;
use crate::process;
use crate::report::{Outcome, median};
use crate::target::{Kind, Programs, Target};

/// Loads per figure, after one that is not counted.
const LOADS: usize = 11;
/// Housekeeping looks every 5 s at sessions that have rested for 10.
const REST: Duration = Duration::from_secs(17);
const REQUIRED: f64 = 100_000.0;

/// A history that fits into no buffer on the way, and so many clients that what each costs can be told from noise.
const SLOW_EVENTS: u64 = 100_000;
const SLOW_CLIENTS: usize = 16;
const SLOW_READ: usize = 64 * 1024;
const SLOW_EVERY: Duration = Duration::from_millis(100);
const SLOW_FOR: Duration = Duration::from_secs(5);

/// What one server may take for everything.
const LIMIT: Duration = Duration::from_secs(300);

const HEAD: &str = "\
| server | history | events | events/s | slowest, fastest | CPU ms / 1,000 events | client, cores |
|---|---|---:|---:|---:|---:|---:|";

#[derive(Clone, Copy)]
pub struct Replay {
    pub events: u64,
    pub count: Count,
}

struct Measured {
    series: Vec<Series>,
    slow: Slow,
}

/// Some loads of one history.
struct Series {
    state: &'static str,
    updates: u64,
    rates: Vec<f64>,
    /// Of all server processes.
    cpu_ms: f64,
    client_cores: f64,
    fault: Option<String>,
}

struct Slow {
    /// Bytes of the whole history, and what all clients together have read.
    history: usize,
    read: usize,
    /// By how many KiB the process that holds the streams has grown at most.
    grown: f64,
}

impl Replay {
    pub async fn run(&self, targets: &[Kind], programs: &Programs) -> Outcome {
        let mut measured = Vec::new();
        let mut outcome = Outcome::Whole;
        for &kind in targets {
            if kind == Kind::Official {
                eprintln!(
                    "{}: keeps no events, so it has nothing to load",
                    kind.name()
                );
                continue;
            }
            let run = timeout(LIMIT, self.measure(kind, programs)).await;
            match run.context("took too long").flatten() {
                Ok(of_kind) => measured.push((kind, of_kind)),
                Err(error) => {
                    println!("FAILED: {}: {error:#}", kind.name());
                    outcome = Outcome::Unmeasured;
                }
            }
        }
        println!("{HEAD}");
        for (kind, measured) in &measured {
            measured.series.iter().for_each(|series| row(*kind, series));
        }
        println!();
        for (kind, measured) in &measured {
            for series in &measured.series {
                verdict(*kind, series);
                if let Some(fault) = &series.fault {
                    println!("FAULT: {}, {}: {fault}", kind.name(), series.state);
                    outcome = Outcome::Faulty;
                }
            }
            slow_clients(*kind, &measured.slow);
        }
        outcome
    }

    async fn measure(&self, kind: Kind, programs: &Programs) -> Result<Measured> {
        let mut target = Target::start(kind, programs).await?;
        let mut author = Session::open(target.addr, Transport::Http, self.count).await?;
        let history = self.write(&mut author, 0, self.events).await?;
        let mut series = vec![loads(&target, &history, "just written").await?];
        eprintln!("{}: {} loaded", kind.name(), history.session);
        sleep(REST).await;
        series.push(loads(&target, &history, "rested").await?);
        let (written, more) = (history.prompts, SLOW_EVENTS.max(self.events));
        let long = self.write(&mut author, written, more).await?;
        let slow = slow(kind, &target, &long).await?;
        target.check()?;
        Ok(Measured { series, slow })
    }

    /// Prompts until the session has so many events.
    async fn write(&self, author: &mut Session, from: u64, events: u64) -> Result<History> {
        let prompts = events.div_ceil(u64::from(self.count.chunks));
        for _ in from..prompts {
            author.prompt().await.context("writing the history")?;
        }
        Ok(History {
            session: author.id().to_owned(),
            count: self.count,
            prompts,
        })
    }
}

async fn loads(target: &Target, history: &History, state: &'static str) -> Result<Series> {
    let mut fault = history.load(target.addr).await?.fault;
    let server_cpu = || anyhow::Ok(target.cpu_ms()?.iter().map(|(_, ms)| ms).sum::<u64>());
    let (server, client, started) = (server_cpu()?, process::cpu_ms("self")?, Instant::now());
    let (mut rates, mut updates) = (Vec::new(), 0);
    for _ in 0..LOADS {
        let loaded = history.load(target.addr).await?;
        rates.push(loaded.updates as f64 / loaded.seconds);
        updates += loaded.updates;
        fault = fault.or(loaded.fault);
    }
    let client_ms = (process::cpu_ms("self")? - client) as f64;
    rates.sort_by(f64::total_cmp);
    Ok(Series {
        state,
        updates: updates / LOADS as u64,
        rates,
        cpu_ms: (server_cpu()? - server) as f64 * 1000.0 / updates as f64,
        client_cores: client_ms / 1000.0 / started.elapsed().as_secs_f64(),
        fault,
    })
}

/// Many clients load the history, and each reads a little of it every now and then.
async fn slow(kind: Kind, target: &Target, history: &History) -> Result<Slow> {
    let whole = history.load(target.addr).await?.bytes;
    let before = front_rss(kind, target)?;
    let mut clients = JoinSet::new();
    for _ in 0..SLOW_CLIENTS {
        clients.spawn_local(read_slowly(target.addr, history.session.clone()));
    }
    let (mut most, mut read) = (before, 0);
    let mut ticks = interval(SLOW_EVERY);
    while !clients.is_empty() {
        tokio::select! {
            _ = ticks.tick() => most = most.max(front_rss(kind, target)?),
            Some(done) = clients.join_next() => read += done?.context("a client that reads slowly")?,
        }
    }
    Ok(Slow {
        history: whole,
        read,
        grown: most - before,
    })
}

async fn read_slowly(addr: std::net::SocketAddr, session: String) -> Result<usize> {
    let stream = Conn::open_narrow(addr, SLOW_READ as u32).await?;
    let mut loading = Loading::ask(addr, &session, stream).await?;
    let (mut read, end) = (0, Instant::now() + SLOW_FOR);
    let mut ticks = interval(SLOW_EVERY);
    while Instant::now() < end {
        ticks.tick().await;
        read += loading.stream.skip(SLOW_READ).await?;
    }
    Ok(read)
}

fn front_rss(kind: Kind, target: &Target) -> Result<f64> {
    let memory = target.memory()?;
    let front = memory.iter().find(|(name, _)| *name == kind.front());
    let (_, memory) = front.context("no process holds the streams")?;
    Ok(memory.rss as f64)
}

fn row(kind: Kind, series: &Series) {
    println!(
        "| {} | {} | {} | {:.0} | {:.0}, {:.0} | {:.1} | {:.2} |",
        kind.name(),
        series.state,
        series.updates,
        median(series.rates.clone()),
        series.rates[0],
        series.rates[LOADS - 1],
        series.cpu_ms,
        series.client_cores,
    );
}

fn verdict(kind: Kind, series: &Series) {
    let rate = median(series.rates.clone());
    println!(
        "{} the required {REQUIRED:.0} events/s: {}, {}: {rate:.0}",
        if rate > REQUIRED { "above" } else { "BELOW" },
        kind.name(),
        series.state,
    );
}

fn slow_clients(kind: Kind, slow: &Slow) {
    let mib = |bytes: usize| bytes as f64 / 1024.0 / 1024.0;
    println!(
        "{}: {SLOW_CLIENTS} clients that read {} KiB every {} ms had {:.1} of {:.0} MiB each after {} s; \
         the {} grew by {:.1} MiB, {:.0} KiB for each",
        kind.name(),
        SLOW_READ / 1024,
        SLOW_EVERY.as_millis(),
        mib(slow.read) / SLOW_CLIENTS as f64,
        mib(slow.history),
        SLOW_FOR.as_secs(),
        match kind.front() {
            "gateway" => "gateway",
            _ => "process",
        },
        slow.grown / 1024.0,
        slow.grown / SLOW_CLIENTS as f64,
    );
}
