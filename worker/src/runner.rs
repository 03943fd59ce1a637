//! Takes sessions while it has room. A wake-up is a hint; the sweep is what guarantees that no
//! session waits for ever.

use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use baton_session::audit::Audit;
use baton_session::id::{Partition, SessionId};
use baton_session::store::{
    self, ALIVE, AgentCard, Claim, ClaimToken, Claimant, HEARTBEAT, Signal, Store, Topic, WorkerId,
};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admission::Admission;
use crate::agent::Agent;
use crate::agent_policy::AgentPolicy;
use crate::content::Accepts;
use crate::hold::{self, Place, Reins};
use crate::housekeeping;
use crate::mcp::{McpPolicy, Transports};
use crate::metrics::Metrics;
use crate::outlet::Lost;
use crate::release::ReleaseHook;
use crate::workspace::WorkspaceRoot;

#[derive(Clone, Debug)]
pub struct Config {
    pub id: WorkerId,
    /// Register the agent by another name than its own.
    pub name: Option<String>,
    /// How many sessions may run here at once.
    pub slots: usize,
    /// How long a session stays ours without a word from us.
    pub lease: Duration,
    /// How long a session is kept that nobody uses.
    pub session_ttl: Duration,
    /// To be told when what is bound to a session is free again.
    pub on_release: Option<ReleaseHook>,
    /// How long turns that cannot be moved may go on when the worker stops.
    pub grace: Duration,
    /// Which MCP servers agents get.
    pub mcp: McpPolicy,
    /// What agents are told of what clients say.
    pub agent_policy: AgentPolicy,
    /// Sessions live beneath it.
    pub workspace_root: Option<WorkspaceRoot>,
    /// Counts what happens here.
    pub metrics: Metrics,
    /// Where the agents' questions are noted.
    pub audit: Audit,
    /// Set once gateways know of the worker, and it takes sessions.
    pub registered: Arc<OnceLock<()>>,
}

impl Config {
    /// How gateways and sessions know the agent.
    pub fn card(&self, agent: &dyn Agent) -> AgentCard {
        let card = agent.card();
        let own = || AgentCard::name_of(&card.name);
        let name = self.name.clone().unwrap_or_else(own);
        AgentCard { name, ..card }
    }
}

const SWEEP: Duration = Duration::from_secs(1);
/// How long agents may take to the end of the step they are in.
const STEP: Duration = Duration::from_secs(2);
/// How long handing over may take: the store may be away.
const HAND_OVER: Duration = Duration::from_secs(10);
const SIGNAL_QUEUE: usize = 16 * 1024;
/// More than these are found by the sweep.
const MAX_TURNED_AWAY: usize = 4096;

/// Runs until `stop`, then hands every session over and returns.
pub async fn run(
    store: Arc<dyn Store>,
    agent: Arc<dyn Agent>,
    config: Config,
    stop: CancellationToken,
) -> store::Result<()> {
    let (sink, mut signals) = mpsc::channel(SIGNAL_QUEUE);
    let listener = store.listen(sink).await?;
    let card = config.card(&*agent);
    for partition in (0..store.partitions()).map(Partition) {
        listener
            .subscribe(&Topic::Ready(partition, card.name.clone()))
            .await?;
        listener
            .subscribe(&Topic::Inbox(partition, config.id.clone()))
            .await?;
    }
    store.register(&card, &config.id, ALIVE).await?;
    config.metrics.slots.set(config.slots as i64);
    let _ = config.registered.set(());
    let runner = Arc::new(Runner {
        slots: Arc::new(Semaphore::new(config.slots)),
        store,
        agent,
        agent_name: card.name.clone(),
        accepts: Accepts::of(&card.initialize),
        admission: Arc::new(Admission {
            servers: config.mcp.clone(),
            agent: Transports::of(&card.initialize),
            root: config.workspace_root.clone(),
            policy: Arc::new(AgentPolicy {
                withheld: config.metrics.withheld.clone(),
                ..config.agent_policy.clone()
            }),
        }),
        config,
        held: Mutex::default(),
        turned_away: Mutex::default(),
        tasks: TaskTracker::new(),
        stop: stop.clone(),
        cut: CancellationToken::new(),
    });
    let tidying = housekeeping::run(
        runner.store.clone(),
        runner.config.session_ttl,
        stop.clone(),
    );
    runner.tasks.spawn(tidying);
    let mut sweep = ticker(SWEEP);
    let mut heartbeat = ticker(HEARTBEAT);
    let mut renewal = ticker(runner.config.lease / 3);
    loop {
        tokio::select! {
            _ = stop.cancelled() => break,
            Some(signal) = signals.recv() => runner.clone().on_signal(signal),
            _ = sweep.tick() => runner.clone().spawn_sweep(),
            _ = renewal.tick() => { runner.tasks.spawn(renew(runner.clone())); }
            _ = heartbeat.tick() => { runner.tasks.spawn(register(runner.clone(), card.clone())); }
        }
    }
    tracing::info!(
        sessions = runner.held().len(),
        "stopping: handing sessions over"
    );
    runner.tasks.close();
    let mut leaving = pin!(runner.leave_all());
    loop {
        tokio::select! {
            () = &mut leaving => return Ok(()),
            // Turns that cannot be moved still need their leases, and what clients say to them.
            Some(signal) = signals.recv() => if let Signal::Inbox(_) | Signal::Lost = signal {
                runner.clone().on_signal(signal);
            },
            _ = renewal.tick() => drop(tokio::spawn(renew(runner.clone()))),
        }
    }
}

struct Runner {
    store: Arc<dyn Store>,
    agent: Arc<dyn Agent>,
    agent_name: String,
    accepts: Accepts,
    admission: Arc<Admission>,
    config: Config,
    slots: Arc<Semaphore>,
    held: Mutex<HashMap<SessionId, Held>>,
    /// Sessions that wanted a worker when there was no room.
    turned_away: Mutex<VecDeque<SessionId>>,
    tasks: TaskTracker,
    stop: CancellationToken,
    cut: CancellationToken,
}

struct Held {
    token: ClaimToken,
    inbox: Arc<Notify>,
    lost: CancellationToken,
    place: Arc<Place>,
}

impl Held {
    fn is_bound(&self) -> bool {
        self.place.bound.load(Ordering::Relaxed)
    }
}

impl Runner {
    fn held(&self) -> MutexGuard<'_, HashMap<SessionId, Held>> {
        self.held.lock().expect("held for moments only")
    }

    fn claimant(&self) -> Claimant {
        Claimant {
            worker: self.config.id.clone(),
            agent: self.agent_name.clone(),
            token: ClaimToken::random(),
            lease: self.config.lease,
        }
    }

    fn on_signal(self: Arc<Self>, signal: Signal) {
        match signal {
            Signal::Ready(session) => self.take(session),
            Signal::Inbox(session) => {
                if let Some(held) = self.held().get(&session) {
                    held.inbox.notify_one();
                }
            }
            Signal::Lost => {
                self.held()
                    .values()
                    .for_each(|held| held.inbox.notify_one());
                self.spawn_sweep();
            }
            _ => {}
        }
    }

    /// Claims the session if there is room, else remembers it until there is.
    fn take(self: Arc<Self>, session: SessionId) {
        let Ok(slot) = self.slots.clone().try_acquire_owned() else {
            let mut waiting = self.turned_away();
            if waiting.len() < MAX_TURNED_AWAY {
                waiting.push_back(session);
            }
            return;
        };
        let tasks = self.tasks.clone();
        tasks.spawn(async move {
            match self.store.claim(&session, &self.claimant()).await {
                Ok(Some(claim)) => self.run_session(claim, slot).await,
                Ok(None) => self.leave(slot),
                Err(error) => tracing::warn!(session.id = %session, %error, "could not claim"),
            }
        });
    }

    /// Of the sessions that only rest here, the one that does so for the longest time leaves.
    fn ask_for_room(&self) {
        let held = self.held();
        let resting = held.values().filter_map(|held| {
            let since = *held.place.resting.lock().expect("held for moments only");
            Some((since?, &held.place))
        });
        if let Some((_, place)) = resting.min_by_key(|(since, _)| *since) {
            place.leave.notify_one();
        }
    }

    /// Gives a slot back, to the next that was turned away.
    fn leave(self: Arc<Self>, slot: OwnedSemaphorePermit) {
        drop(slot);
        let next = self.turned_away().pop_front();
        if let Some(session) = next.filter(|_| !self.stop.is_cancelled()) {
            self.take(session);
        }
    }

    fn turned_away(&self) -> MutexGuard<'_, VecDeque<SessionId>> {
        self.turned_away.lock().expect("held for moments only")
    }

    fn spawn_sweep(self: Arc<Self>) {
        // Others may have room, so nobody is asked to leave for a hint. But what nobody takes needs a free
        // place to be found.
        if self.slots.available_permits() == 0 {
            self.ask_for_room();
        }
        let tasks = self.tasks.clone();
        tasks.spawn(async move {
            for partition in (0..self.store.partitions()).map(Partition) {
                // One partition that cannot be read must not hide the others.
                if let Err(error) = self.clone().sweep(partition).await {
                    tracing::warn!(%error, partition = partition.0, "could not look for waiting sessions");
                }
            }
        });
    }

    async fn sweep(self: Arc<Self>, partition: Partition) -> store::Result<()> {
        while !self.stop.is_cancelled() {
            let Ok(slot) = self.slots.clone().try_acquire_owned() else {
                return Ok(());
            };
            let Some(claim) = self.store.claim_any(partition, &self.claimant()).await? else {
                return Ok(());
            };
            let runner = self.clone();
            self.tasks
                .spawn(async move { runner.run_session(claim, slot).await });
        }
        Ok(())
    }

    /// Everything that can be moved moves at once; the rest has until the end of the grace.
    async fn leave_all(&self) {
        let ends = Instant::now() + self.config.grace.max(STEP);
        if timeout(STEP, self.tasks.wait()).await.is_err() {
            if timeout(HAND_OVER, self.give_up_stuck()).await.is_err() {
                tracing::warn!(
                    sessions = self.held().len(),
                    "could not hand all sessions over; their leases will run out"
                );
                return;
            }
            let bound = self.held().values().any(Held::is_bound);
            if bound && timeout_at(ends, self.tasks.wait()).await.is_err() {
                tracing::warn!("the grace is over: turns that cannot be moved are cut");
                self.cut.cancel();
                let _ = timeout(HAND_OVER, self.tasks.wait()).await;
            }
        }
        if self.held().is_empty() {
            tracing::info!("the worker has handed everything over");
        }
    }

    /// For agents that don't come to the end of a step: others go on from what the log holds, and
    /// what these still say is refused.
    async fn give_up_stuck(&self) {
        let held: Vec<_> = self
            .held()
            .iter()
            .filter(|(_, held)| !held.is_bound())
            .map(|(id, held)| (id.clone(), held.token.clone()))
            .collect();
        for (session, token) in held {
            tracing::warn!(session.id = %session, "handed over in the middle of a step");
            while let Err(error) = self.store.release(&session, &token).await {
                tracing::warn!(session.id = %session, %error, "could not hand over");
                sleep(Duration::from_millis(200)).await;
            }
        }
    }

    async fn run_session(self: Arc<Self>, claim: Claim, slot: OwnedSemaphorePermit) {
        let session = claim.session.clone();
        let metrics = &self.config.metrics;
        let _counted = metrics.session_comes();
        let (inbox, lost) = (Arc::new(Notify::new()), CancellationToken::new());
        let place = Arc::new(Place::default());
        let held = Held {
            token: claim.token.clone(),
            inbox: inbox.clone(),
            lost: lost.clone(),
            place: place.clone(),
        };
        let token = held.token.clone();
        self.held().insert(session.clone(), held);
        let reins = Reins {
            inbox,
            lost,
            place,
            stop: self.stop.clone(),
            cut: self.cut.clone(),
            accepts: self.accepts,
            admission: self.admission.clone(),
            on_release: self.config.on_release.clone(),
            metrics: metrics.clone(),
            audit: self.config.audit.clone(),
        };
        // Also if an agent panics: a lease that nobody works under must not be renewed.
        let entry = Entry {
            runner: &self,
            session: &session,
            token: &token,
        };
        let outcome = hold::run(self.store.clone(), &*self.agent, claim, reins).await;
        drop(entry);
        match outcome {
            Ok(()) => {}
            Err(Lost::Fenced) => {
                // Some are given away on purpose when the worker stops.
                if !self.stop.is_cancelled() {
                    metrics.fenced.inc();
                }
                tracing::warn!(session.id = %session, "fenced: another worker goes on")
            }
            Err(error) => {
                tracing::error!(session.id = %session, %error, "gives a session up");
                // Whoever claims it next goes on from what the log holds.
                let _ = self.store.release(&session, &token).await;
            }
        }
        self.leave(slot);
    }
}

/// A session's place among those held; given up when dropped.
struct Entry<'a> {
    runner: &'a Runner,
    session: &'a SessionId,
    token: &'a ClaimToken,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        let mut held = self.runner.held();
        // A later claim of ours on the same session may have taken the place.
        if held
            .get(self.session)
            .is_some_and(|held| held.token == *self.token)
        {
            held.remove(self.session);
        }
    }
}

/// Beside the loop: a store that is slow to take this must not hold up the leases.
async fn register(runner: Arc<Runner>, card: AgentCard) {
    let worker = &runner.config.id;
    if let Err(error) = runner.store.register(&card, worker, ALIVE).await {
        tracing::warn!(%error, "could not tell the gateways that this worker lives");
    }
}

/// Renews all leases in one go; sessions that are lost stop at once.
async fn renew(runner: Arc<Runner>) {
    let claims: Vec<_> = runner
        .held()
        .iter()
        .map(|(id, held)| (id.clone(), held.token.clone()))
        .collect();
    if claims.is_empty() {
        return runner.config.metrics.lease_age.now();
    }
    match runner.store.renew(&claims, runner.config.lease).await {
        Ok(lost) => {
            // With others lost, some of these may not have been heard of.
            if lost.is_empty() {
                runner.config.metrics.lease_age.now();
            }
            let held = runner.held();
            for (session, token) in claims.iter().filter(|(session, _)| lost.contains(session)) {
                // Released meanwhile and claimed again by us is not lost.
                if let Some(held) = held.get(session).filter(|held| held.token == *token) {
                    held.lost.cancel();
                }
            }
            // A lost hint costs no more than this long.
            held.values().for_each(|held| held.inbox.notify_one());
        }
        Err(error) => {
            tracing::warn!(%error, "could not renew leases");
            sleep(Duration::from_millis(100)).await;
        }
    }
}

fn ticker(period: Duration) -> tokio::time::Interval {
    let mut ticker = interval(period);
    ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticker
}
