//! One cell of the table: so many sessions in a closed loop against one target, for a fixed time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Error, Result};
use futures_util::future::join_all;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::client::{Faults, Inbox, Session, Transport};
use crate::count::Count;
use crate::process;
use crate::redis_stats::{RedisCost, RedisCounters};
use crate::target::Target;

const WARM_UP: Duration = Duration::from_millis(500);
/// How long all sessions together may take to open, and a running prompt to be answered at the end.
const OPEN_LIMIT: Duration = Duration::from_secs(30);
const DRAIN_LIMIT: Duration = Duration::from_secs(10);
/// A duplicate may trail its original.
const QUIET: Duration = Duration::from_millis(100);

#[derive(Clone, Copy)]
pub struct Load {
    pub transport: Transport,
    pub count: Count,
    pub duration: Duration,
}

pub struct Sample {
    pub prompts_per_s: f64,
    pub events_per_s: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    /// Of all server processes, per 1,000 delivered events.
    pub cpu_ms: f64,
    /// The same, by process.
    pub cpu_ms_of: Vec<(&'static str, f64)>,
    /// With all sessions open, before the first prompt.
    pub idle_mib: f64,
    pub loaded_mib: f64,
    /// Share of one core the load client itself took.
    pub client_cores: f64,
    /// Per prompt, where there is a Redis.
    pub redis: Option<RedisCost>,
    pub faults: Faults,
    /// The first thing that went wrong, in words.
    pub problem: Option<String>,
}

pub async fn run(target: &mut Target, load: Load, sessions: usize) -> Result<Sample> {
    let opened = timeout(OPEN_LIMIT, open(target, load, sessions)).await;
    let opened = opened.context("the sessions took too long to open")??;
    let idle_mib = target.rss_kib()? as f64 / 1024.0;

    let shared = Rc::new(Shared::default());
    let inboxes: Vec<_> = opened.iter().map(Session::inbox).collect();
    let mut drivers = JoinSet::new();
    for (number, session) in opened.into_iter().enumerate() {
        // Paced answers start spread out over the length of one, as independent users would.
        let offset = load.count.duration() * number as u32 / sessions as u32;
        drivers.spawn_local(drive(session, offset, shared.clone()));
    }

    sleep(WARM_UP).await;
    let before = Reading::take(target, &inboxes).await?;
    shared.measuring.set(true);
    sleep(load.duration).await;
    shared.measuring.set(false);
    target.check()?;
    let after = Reading::take(target, &inboxes).await?;
    let loaded_mib = target.rss_kib()? as f64 / 1024.0;

    shared.stop.set(true);
    let (finished, failed) = drain(drivers).await;
    sleep(QUIET).await;
    target.check()?;
    let (faults, wrong) = book(&inboxes);
    let _ = timeout(
        DRAIN_LIMIT,
        join_all(finished.into_iter().map(Session::close)),
    )
    .await;

    let events = (after.events - before.events) as f64;
    let seconds = (after.at - before.at).as_secs_f64();
    let cpu_ms_of = after.cpu_since(&before, events);
    let prompts = (after.answers - before.answers) as f64;
    let redis = after.redis.as_ref().zip(before.redis.as_ref());
    let redis = redis.map(|(after, before)| after.since(before, prompts));
    let mut round_trips = shared.round_trips.take();
    round_trips.sort_unstable();
    Ok(Sample {
        prompts_per_s: (after.answers - before.answers) as f64 / seconds,
        events_per_s: events / seconds,
        p50_ms: percentile(&round_trips, 0.50),
        p99_ms: percentile(&round_trips, 0.99),
        cpu_ms: cpu_ms_of.iter().map(|(_, cpu_ms)| cpu_ms).sum(),
        cpu_ms_of,
        redis,
        idle_mib,
        loaded_mib,
        client_cores: (after.client_cpu_ms - before.client_cpu_ms) as f64 / 1000.0 / seconds,
        faults,
        problem: failed.or(wrong),
    })
}

/// What the sessions of a cell have in common.
#[derive(Default)]
struct Shared {
    measuring: Cell<bool>,
    stop: Cell<bool>,
    round_trips: RefCell<Vec<Duration>>,
}

/// The state of all counters at one moment.
struct Reading {
    at: Instant,
    events: u64,
    answers: u64,
    cpu_ms: Vec<(&'static str, u64)>,
    client_cpu_ms: u64,
    redis: Option<RedisCounters>,
}

impl Reading {
    async fn take(target: &Target, inboxes: &[Inbox]) -> Result<Self> {
        let redis = match target.redis {
            Some(redis) => Some(RedisCounters::read(redis).await?),
            None => None,
        };
        Ok(Self {
            redis,
            at: Instant::now(),
            events: inboxes.iter().map(|inbox| inbox.with(|l| l.events)).sum(),
            answers: inboxes.iter().map(|inbox| inbox.with(|l| l.answers)).sum(),
            cpu_ms: target.cpu_ms()?,
            client_cpu_ms: process::cpu_ms("self")?,
        })
    }

    /// Milliseconds per 1,000 events, by process.
    fn cpu_since(&self, before: &Self, events: f64) -> Vec<(&'static str, f64)> {
        let both = self.cpu_ms.iter().zip(&before.cpu_ms);
        both.map(|((name, after), (_, before))| (*name, (after - before) as f64 * 1000.0 / events))
            .collect()
    }
}

async fn open(target: &Target, load: Load, sessions: usize) -> Result<Vec<Session>> {
    let mut opening = JoinSet::new();
    for _ in 0..sessions {
        let caller = target.kind.caller();
        opening.spawn_local(Session::open_as(
            caller,
            target.addr,
            load.transport,
            load.count,
        ));
    }
    let mut opened = Vec::with_capacity(sessions);
    while let Some(session) = opening.join_next().await {
        opened.push(session?.context("opening a session")?);
    }
    Ok(opened)
}

async fn drive(mut session: Session, offset: Duration, shared: Rc<Shared>) -> Result<Session> {
    sleep(offset).await;
    while !shared.stop.get() {
        let round_trip = session.prompt().await?;
        if shared.measuring.get() {
            shared.round_trips.borrow_mut().push(round_trip);
        }
    }
    Ok(session)
}

/// Lets running prompts finish. Returns the sessions, still open, and the first failure.
async fn drain(mut drivers: JoinSet<Result<Session>>) -> (Vec<Session>, Option<String>) {
    let (mut finished, mut failed) = (Vec::new(), None);
    let finish = async {
        while let Some(driven) = drivers.join_next().await {
            match driven.map_err(Error::from).flatten() {
                Ok(session) => finished.push(session),
                Err(error) => drop(failed.get_or_insert(format!("{error:#}"))),
            }
        }
    };
    if timeout(DRAIN_LIMIT, finish).await.is_err() {
        let late = drivers.len();
        failed.get_or_insert(format!("{late} sessions got no answer in {DRAIN_LIMIT:?}"));
    }
    (finished, failed)
}

fn book(inboxes: &[Inbox]) -> (Faults, Option<String>) {
    let (mut faults, mut wrong) = (Faults::default(), None);
    for inbox in inboxes {
        inbox.with(|ledger| {
            faults += ledger.close();
            wrong = wrong.take().or(ledger.first_wrong.take());
        });
    }
    (faults, wrong)
}

pub fn percentile(sorted: &[Duration], share: f64) -> f64 {
    let index = (sorted.len() as f64 * share) as usize;
    let value = sorted.get(index.min(sorted.len().saturating_sub(1)));
    value.map_or(f64::NAN, |value| value.as_secs_f64() * 1000.0)
}
