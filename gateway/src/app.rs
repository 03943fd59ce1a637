//! The shared state of all requests.

use std::sync::Arc;
use std::time::Duration;

use baton_session::audit::AuditLog;
use baton_session::metrics::Registry;
use baton_session::store::{self, INBOX_LIMIT, Store};
use baton_session::token::{ConnectionToken, LoginToken, SessionGrant, SigningKeys};
use tokio_util::sync::CancellationToken;

use crate::agents::of_sessions::SessionAgents;
use crate::auth::Auth;
use crate::drain::{Drain, Pace};
use crate::edge::origins::Origins;
use crate::edge::verified::Verified;
use crate::limits::{Accounts, DEFAULT_INFLIGHT, Inflight, Limits};
use crate::metrics::Metrics;
use crate::mint::Mint;
use crate::revoked::Revoked;
use crate::stream::hub::Hub;
use crate::stream::ledger::Ledger;
use crate::stream::patience::Patience;
use crate::trace::Traces;
use crate::transport::Transport;

#[derive(Clone, Debug)]
pub struct Config {
    /// The agent that sessions get when the client doesn't choose; see [`agents`](crate::agents) for what that
    /// is if none is given.
    pub default_agent: Option<String>,
    /// How often an idle stream gets a comment.
    pub keep_alive: Duration,
    /// How long commands wait while no worker is alive.
    pub withdraw_after: Duration,
    /// By which names, and by pages from where, it may be used.
    pub origins: Origins,
    /// How bytes get here, and what is believed about where they come from.
    pub transport: Transport,
    /// How many commands may wait in one session.
    pub queue_limit: u64,
    /// How long a client may leave unread what is there for it.
    pub stall: Duration,
    /// How long stopping takes.
    pub pace: Pace,
    /// Limits of each caller.
    pub limits: Limits,
    /// How many bytes of messages may be received at once.
    pub max_inflight_bytes: u64,
    /// Counts what happens here.
    pub metrics: Arc<Metrics>,
    /// All metrics of the process, as they are shown.
    pub registry: Arc<Registry>,
    /// Where decisions are noted that somebody may ask about later.
    pub audit: AuditLog,
    /// Which spans are made. They go where the process sends them.
    pub traces: Traces,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            default_agent: None,
            keep_alive: Duration::from_secs(15),
            withdraw_after: Duration::from_secs(30),
            origins: Origins::default(),
            transport: Transport::default(),
            queue_limit: INBOX_LIMIT,
            stall: Duration::from_secs(60),
            pace: Pace::default(),
            limits: Limits::default(),
            max_inflight_bytes: DEFAULT_INFLIGHT,
            metrics: Arc::default(),
            registry: Arc::default(),
            audit: AuditLog::default(),
            traces: Traces::default(),
        }
    }
}

pub struct App {
    pub config: Config,
    pub store: Arc<dyn Store>,
    /// The keys that sign and verify tokens, and what is refused although its signature is good.
    pub mint: Mint,
    /// Connection tokens that were verified before.
    pub connections: Verified<ConnectionToken>,
    /// Session tokens likewise.
    pub grants: Verified<SessionGrant>,
    /// Logins likewise.
    pub logins: Verified<LoginToken>,
    /// Says who calls.
    pub auth: Auth,
    /// For callers who may not use all agents.
    pub session_agents: SessionAgents,
    /// Usage of callers.
    pub accounts: Accounts,
    /// The budget of bytes in flight.
    pub inflight: Arc<Inflight>,
    /// Tails every log that a stream of this process reads.
    pub hub: Arc<Hub>,
    /// Tells the store which streams are held here and how far they were written.
    pub ledger: Arc<Ledger>,
    /// Gives streams up whose clients don't read.
    pub patience: Arc<Patience>,
    pub metrics: Arc<Metrics>,
    /// The first half of stopping: nobody is cut off.
    pub drain: Drain,
    /// The second half: whatever is still open ends.
    pub stop: CancellationToken,
}

/// Signals of the caller for stopping.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    /// Finish what is under way, and leave.
    pub drain: CancellationToken,
    /// Leave at once.
    pub now: CancellationToken,
}

impl App {
    pub async fn new(
        config: Config,
        store: Arc<dyn Store>,
        keys: SigningKeys,
        auth: Auth,
        stop: Stop,
    ) -> store::Result<Arc<Self>> {
        let metrics = config.metrics.clone();
        let revoked = Arc::new(Revoked::default());
        let hub = Hub::start(
            store.clone(),
            revoked.clone(),
            metrics.clone(),
            stop.now.clone(),
        )
        .await?;
        let ledger = Ledger::start(store.clone(), stop.now.clone());
        let patience = Patience::start(config.stall, metrics.clone(), stop.now.clone());
        let drain = Drain::new(config.pace, stop.drain);
        let app = Arc::new(Self {
            store,
            mint: Mint { keys, revoked },
            connections: Verified::default(),
            grants: Verified::default(),
            logins: Verified::default(),
            inflight: Inflight::new(config.max_inflight_bytes, matches!(auth, Auth::Open)),
            auth,
            session_agents: SessionAgents::default(),
            accounts: Accounts::new(config.limits),
            config,
            hub,
            ledger,
            patience,
            metrics,
            drain,
            stop: stop.now,
        });
        tokio::spawn(crate::withdraw::run(app.clone()));
        tokio::spawn(crate::census::run(app.clone()));
        let (watching, stop) = (app.clone(), app.stop.clone());
        let audit = app.config.audit.clone();
        tokio::spawn(async move { watching.auth.watch(stop, audit).await });
        tokio::spawn(
            app.mint
                .keys
                .clone()
                .watch(app.stop.clone(), app.config.audit.clone()),
        );
        if let Some(tls) = app.config.transport.tls.clone() {
            tokio::spawn(tls.watch(app.stop.clone(), app.config.audit.clone()));
        }
        Ok(app)
    }
}
