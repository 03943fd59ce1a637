//! Takes sessions while it has free slots. A wake-up is a hint; the sweep guarantees that no
//! session waits for ever.

use std::collections::{HashSet, VecDeque};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use baton_session::audit::AuditLog;
use baton_session::id::{Partition, SessionId};
use baton_session::store::{
    self, ALIVE, AgentCard, Claim, Claimant, HEARTBEAT, Signal, Store, StoreTime, Topic, WorkerId,
};
use baton_session::sync::MutexExt as _;
use futures_util::future::join;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admission::SessionAdmission;
use crate::agent::{Agent, AgentRoom};
use crate::agent_policy::AgentPolicy;
use crate::event_writer::SessionLost;
use crate::housekeeping;
use crate::leases::{self, HeldLeases, LeaseReservation};
use crate::mcp::{McpPolicy, McpTransports};
use crate::metrics::WorkerMetrics;
use crate::prompt_content::PromptCapabilities;
use crate::release_hook::ReleaseHook;
use crate::session_task::{self, SessionContext};
use crate::store_outages::StoreOutages;
use crate::workspace::WorkspaceRoot;

mod leaving;
mod sweep;

#[derive(Clone, Debug)]
pub struct RunnerConfig {
    pub id: WorkerId,
    /// Register the agent by another name than its own.
    pub name: Option<String>,
    /// How many sessions may run here at once.
    pub slots: usize,
    /// How long a session stays ours without a word from us.
    pub lease: Duration,
    /// How long an unused session is kept.
    pub session_ttl: Duration,
    /// To be told when what is bound to a session is free again.
    pub on_release: Option<ReleaseHook>,
    /// How long turns that cannot be moved may go on when the worker stops.
    pub grace: Duration,
    /// Which MCP servers agents get.
    pub mcp: McpPolicy,
    /// Filters what agents get from clients.
    pub agent_policy: AgentPolicy,
    /// Sessions live beneath it.
    pub workspace_root: Option<WorkspaceRoot>,
    /// Counts what happens here.
    pub metrics: WorkerMetrics,
    /// Where the agents' questions are noted.
    pub audit: AuditLog,
    /// Set once gateways know of the worker, and it takes sessions.
    pub registered: Arc<OnceLock<()>>,
}

impl RunnerConfig {
    /// How gateways and sessions know the agent.
    pub fn card(&self, agent: &dyn Agent) -> AgentCard {
        let card = agent.card();
        let own = || AgentCard::name_of(&card.name);
        let name = self.name.clone().unwrap_or_else(own);
        AgentCard { name, ..card }
    }
}

const SWEEP: Duration = Duration::from_secs(1);
const SIGNAL_QUEUE: usize = 16 * 1024;
/// More than these are found by the sweep.
const MAX_WAITING_FOR_SLOT: usize = 4096;

/// Runs until `stop`, then hands every session over and returns.
pub async fn run(
    store: Arc<dyn Store>,
    agent: Arc<dyn Agent>,
    config: RunnerConfig,
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
        listener
            .subscribe(&Topic::Handed(partition, config.id.clone()))
            .await?;
    }
    store.register(&card, &config.id, ALIVE).await?;
    config.metrics.slots.set(config.slots as i64);
    let _ = config.registered.set(());
    tracing::info!(worker.id = %config.id, slots = config.slots, "worker takes sessions");
    let runner = Arc::new(Runner {
        slots: Arc::new(Semaphore::new(config.slots)),
        store,
        agent,
        agent_name: card.name.clone(),
        accepts: PromptCapabilities::of(&card.initialize),
        admission: Arc::new(SessionAdmission {
            servers: config.mcp.clone(),
            agent: McpTransports::of(&card.initialize),
            root: config.workspace_root.clone(),
            policy: Arc::new(AgentPolicy {
                withheld: config.metrics.withheld.clone(),
                ..config.agent_policy.clone()
            }),
        }),
        leases: Arc::default(),
        outages: StoreOutages::new(config.lease),
        config,
        swept: Mutex::default(),
        waiting_for_slot: Mutex::default(),
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
    let mut leases = pin!(keep_leases(runner.clone()));
    loop {
        tokio::select! {
            _ = stop.cancelled() => break,
            Some(signal) = signals.recv() => runner.clone().on_signal(signal),
            _ = sweep.tick() => runner.clone().spawn_sweep(),
            () = &mut leases => {}
            _ = heartbeat.tick() => { runner.tasks.spawn(register(runner.clone(), card.clone())); }
        }
    }
    tracing::info!(
        sessions = runner.leases.len(),
        "stopping: handing sessions over"
    );
    let mut leaving = pin!(async {
        runner.tasks.close();
        join(runner.leave(&*listener), runner.hand_over_all()).await;
    });
    loop {
        tokio::select! {
            () = &mut leaving => return Ok(()),
            Some(signal) = signals.recv() => match signal {
                Signal::Handed(session) => {
                    runner.tasks.spawn(leaving::pass_on(runner.clone(), session));
                }
                // Turns that cannot be moved still need their leases, and what clients say to them.
                Signal::Inbox(_) | Signal::Command(..) | Signal::Lost => {
                    runner.clone().on_signal(signal);
                }
                _ => {}
            },
            () = &mut leases => {}
        }
    }
}

struct Runner {
    store: Arc<dyn Store>,
    agent: Arc<dyn Agent>,
    agent_name: String,
    accepts: PromptCapabilities,
    admission: Arc<SessionAdmission>,
    config: RunnerConfig,
    slots: Arc<Semaphore>,
    leases: Arc<HeldLeases>,
    outages: StoreOutages,
    /// Partitions that are being looked at.
    swept: Mutex<HashSet<Partition>>,
    /// Sessions that wanted a worker when there was no room.
    waiting_for_slot: Mutex<VecDeque<SessionId>>,
    tasks: TaskTracker,
    stop: CancellationToken,
    cut: CancellationToken,
}

impl Runner {
    fn on_signal(self: Arc<Self>, signal: Signal) {
        match signal {
            Signal::Ready(session) | Signal::Handed(session) => self.claim_if_room(session),
            Signal::Inbox(session) => {
                if let Some(held) = self.leases.get(&session) {
                    held.inbox.doubt();
                }
            }
            Signal::SetupChanged(session) => {
                if let Some(held) = self.leases.get(&session) {
                    held.inbox.note_new_setup();
                }
            }
            Signal::Command(session, command) => {
                if let Some(held) = self.leases.get(&session) {
                    held.inbox.hear(*command);
                }
            }
            // Leases first: the sweep comes after.
            Signal::Lost => {
                // Before any command is heard that came later.
                self.leases.doubt_inboxes();
                self.outages.note_everywhere();
                self.leases.renew_now.notify_one();
            }
            _ => {}
        }
    }

    /// A slot, if there is one and the agent has memory for another session.
    fn try_take_slot(&self) -> Option<OwnedSemaphorePermit> {
        let slot = self.slots.clone().try_acquire_owned().ok()?;
        if self.agent.room_for(self.slots_taken()) == AgentRoom::Free {
            return Some(slot);
        }
        self.config.metrics.agent_processes.without_memory.inc();
        None
    }

    /// Whether one more session could be taken.
    fn room(&self) -> AgentRoom {
        let taken = self.slots_taken();
        if taken < self.config.slots {
            self.agent.room_for(taken + 1)
        } else {
            AgentRoom::Full
        }
    }

    fn slots_taken(&self) -> usize {
        self.config.slots - self.slots.available_permits()
    }

    /// Claims the session if there is room, else remembers it until there is. A worker that stops
    /// takes nothing.
    fn claim_if_room(self: Arc<Self>, session: SessionId) {
        if self.stop.is_cancelled() {
            return;
        }
        let Some(slot) = self.try_take_slot() else {
            let mut waiting = self.waiting_for_slot();
            if waiting.len() < MAX_WAITING_FOR_SLOT {
                waiting.push_back(session);
            }
            drop(waiting);
            self.evict_lingering();
            return;
        };
        let tasks = self.tasks.clone();
        tasks.spawn(async move {
            if let Err(error) = self.claim(&session, slot, None).await {
                tracing::warn!(session.id = %session, %error, "could not claim");
            }
        });
    }

    /// True if the session is ours now, and runs.
    async fn claim(
        self: Arc<Self>,
        session: &SessionId,
        slot: OwnedSemaphorePermit,
        takes_over: Option<StoreTime>,
    ) -> store::Result<bool> {
        let Some(reserved) = self.leases.reserve(session) else {
            self.release_slot(slot);
            return Ok(false);
        };
        let claimant = Claimant {
            worker: self.config.id.clone(),
            agent: self.agent_name.clone(),
            token: reserved.held.token.clone(),
            lease: self.config.lease,
            takes_over,
        };
        let claim = leases::claim(&*self.store, session, &claimant);
        let claimed = self.outages.watch(session.partition(), claim).await;
        match claimed {
            Ok(Some(claim)) => {
                reserved.held.grant();
                let runner = self.clone();
                self.tasks
                    .spawn(async move { runner.run_session(claim, reserved, slot).await });
                Ok(true)
            }
            Ok(None) => {
                let wanted = reserved.release();
                self.clone().release_slot(slot);
                if wanted {
                    self.claim_if_room(session.clone());
                }
                Ok(false)
            }
            Err(error @ store::Error::Unavailable(_)) => {
                // It may have been granted without our knowing.
                let _ = self.store.release(session, &claimant.token).await;
                Err(error)
            }
            // An unreadable session is left to its lease, and does not keep others from being
            // claimed.
            Err(error) => {
                tracing::error!(session.id = %session, %error, "could not claim a session");
                self.release_slot(slot);
                Ok(false)
            }
        }
    }

    /// Evicts a session that only stays in case its next prompt is near.
    fn evict_lingering(&self) {
        let held = self.leases.granted();
        let lingers = leases::longest_idle(&held).filter(|slot| {
            let idle = slot.idle();
            idle.is_some_and(|idle| !idle.has_agent)
        });
        if let Some(slot) = lingers {
            slot.evict.notify_one();
        }
    }

    /// Gives a slot back, to the next that was turned away.
    fn release_slot(self: Arc<Self>, slot: OwnedSemaphorePermit) {
        drop(slot);
        let next = self.waiting_for_slot().pop_front();
        if let Some(session) = next {
            self.claim_if_room(session);
        }
    }

    fn waiting_for_slot(&self) -> MutexGuard<'_, VecDeque<SessionId>> {
        self.waiting_for_slot.locked()
    }

    async fn run_session(
        self: Arc<Self>,
        claim: Claim,
        reserved: LeaseReservation,
        slot: OwnedSemaphorePermit,
    ) {
        let metrics = &self.config.metrics;
        let _counted = metrics.count_session();
        let held = reserved.held.clone();
        let context = SessionContext {
            inbox: held.inbox.clone(),
            lost: held.lost.clone(),
            slot: held.slot.clone(),
            stop: self.stop.clone(),
            interrupt: self.cut.clone(),
            accepts: self.accepts,
            admission: self.admission.clone(),
            on_release: self.config.on_release.clone(),
            metrics: metrics.clone(),
            audit: self.config.audit.clone(),
        };
        let outcome = session_task::run(self.store.clone(), &*self.agent, claim, context).await;
        let session = reserved.session().clone();
        let wanted = reserved.release();
        match outcome {
            Ok(()) => {}
            Err(SessionLost::Fenced) => {
                // Some are given away on purpose when the worker stops.
                if !self.stop.is_cancelled() {
                    metrics.fenced.inc();
                }
                tracing::warn!(session.id = %session, "fenced: another worker holds the session")
            }
            Err(error) => {
                // The next holder continues from the log.
                match error {
                    SessionLost::Gap { head } => {
                        tracing::warn!(
                            session.id = %session,
                            head,
                            "the store lost more of the log than is buffered here: the turn \
                             continues from the rest"
                        )
                    }
                    error => {
                        tracing::error!(
                            session.id = %session,
                            %error,
                            "releasing a session after an error"
                        )
                    }
                }
                let _ = self.store.release(&session, &held.token).await;
            }
        }
        self.clone().release_slot(slot);
        if wanted {
            self.claim_if_room(session);
        }
    }
}

/// Beside the loop: a store that is slow to take this must not hold up the leases.
async fn register(runner: Arc<Runner>, card: AgentCard) {
    let worker = &runner.config.id;
    if let Err(error) = runner.store.register(&card, worker, ALIVE).await {
        tracing::warn!(%error, "could not register the worker");
    }
}

/// Renews when it is time, and at once after signals were lost: the store may have been away for
/// longer than a lease. A partition that does not answer holds up no other.
async fn keep_leases(runner: Arc<Runner>) {
    let lease = runner.config.lease;
    let mut time = ticker(lease / 3);
    let mut renewals = FuturesUnordered::new();
    let mut under_way = HashSet::new();
    let mut sweeps = false;
    loop {
        tokio::select! {
            _ = time.tick() => {}
            () = runner.leases.renew_now.notified() => sweeps = true,
            Some(partition) = renewals.next() => {
                under_way.remove(&partition);
                if !under_way.is_empty() {
                    continue;
                }
                runner.config.metrics.lease_age.now();
                if std::mem::take(&mut sweeps) && !runner.stop.is_cancelled() {
                    runner.clone().spawn_sweep();
                }
                continue;
            }
        }
        let mut partitions = runner.leases.partitions();
        if partitions.is_empty() {
            // Nothing has to be renewed before others' sessions are looked for.
            partitions.insert(Partition(0));
        }
        for partition in partitions {
            if under_way.insert(partition) {
                let runner = runner.clone();
                renewals.push(async move {
                    runner.leases.renew(&*runner.store, partition, lease).await;
                    partition
                });
            }
        }
    }
}

fn ticker(period: Duration) -> tokio::time::Interval {
    let mut ticker = interval(period);
    ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticker
}
