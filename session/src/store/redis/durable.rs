//! Steps that must outlive their server are answered once its replicas have them: all that are in
//! step, since any of them may be promoted.
//!
//! `WAIT` speaks of what its own connection wrote, and makes it stand still. So these steps have
//! connections of their own, and share a `WAIT`: steps, a marker and the `WAIT` travel together,
//! while those that come meanwhile gather for the next round. `INFO` then tells how many had to
//! confirm. If too few replicas confirm, the marker is looked at before the next `WAIT`: where it
//! is, everything before it is too, since replicas copy in order; where it is not, a failover has
//! cost the steps, and they are taken again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::{Arg, Cmd, Pipeline, RedisError, Value, from_redis_value};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::client::STEP_TIMEOUT;
use super::connection::RedisConnection;
use super::fault;
use super::proof::DurabilityProof;
use super::replicas::ReplicaTracker;
use super::reply::ScriptReply;
use super::scripts::{LuaScript, ScriptCall};
use super::sentinel::SentinelGroup;
use super::servers::{RedisServers, ServerKind};
use crate::id::random_text;
use crate::metrics::StoreMetrics;
use crate::store::{Error, Result};
use crate::sync::MutexExt as _;

/// A `WAIT` and the way there; the connection has its own, shorter patience.
const ROUND: Duration = Duration::from_secs(3);
/// A cluster's node makes the rounds of different partitions wait for each other on one connection.
const CLUSTER_CONNECTIONS: usize = 4;
const MAX_ROUND: usize = 256;
/// How often a lane that has nothing to do asks which replicas there are.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Rewritten each round; also when memory is full, as what it confirms may free some.
const MARK: &str =
    "#!lua flags=allow-oom\nreturn redis.call('SET', KEYS[1], ARGV[1], 'PX', '60000')";

pub(super) struct DurableLanes {
    connections: Vec<RedisConnection>,
    /// As far as they were known at the start.
    replicas: ReplicaTracker,
    sentinels: Option<Arc<SentinelGroup>>,
    proof: DurabilityProof,
    /// By what has to travel together: the partition in a cluster, else everything.
    lanes: Mutex<HashMap<String, mpsc::Sender<DurableStep>>>,
    by_partition: bool,
    metrics: StoreMetrics,
}

struct DurableStep {
    command: Cmd,
    script: &'static LuaScript,
    deadline: Instant,
    /// The result of the step while it is not confirmed yet, and the round whose marker covers it.
    returned: Option<(u64, Value)>,
    answer: oneshot::Sender<Result<ScriptReply>>,
}

impl DurableLanes {
    pub async fn open(
        servers: &RedisServers,
        proof: DurabilityProof,
        metrics: StoreMetrics,
    ) -> std::result::Result<Self, Arc<RedisError>> {
        let by_partition = matches!(servers.kind, ServerKind::Cluster(_));
        let mut connections = Vec::new();
        for _ in 0..if by_partition { CLUSTER_CONNECTIONS } else { 1 } {
            connections.push(RedisConnection::open(servers).await?);
        }
        let mut replicas = ReplicaTracker::default();
        if !by_partition {
            // Reads the replicas before the first step is taken: one may leave until then.
            let mut question = redis::cmd("INFO");
            question.arg("replication");
            for (_, told) in connections[0].ask_primaries(&question).await? {
                replicas.update(&told, Instant::now());
            }
            if let ServerKind::Sentinel(sentinels) = &servers.kind {
                // One that is being promoted just now has left already.
                match sentinels.replicas().await {
                    Some(known) => replicas.add_known(known, Instant::now()),
                    None => replicas.become_unsure(Instant::now()),
                }
            }
        }
        let sentinels = match &servers.kind {
            ServerKind::Sentinel(sentinels) => Some(sentinels.clone()),
            ServerKind::One(_) | ServerKind::Cluster(_) => None,
        };
        Ok(Self {
            connections,
            replicas,
            sentinels,
            proof,
            lanes: Mutex::default(),
            by_partition,
            metrics,
        })
    }

    pub async fn run(&self, call: &ScriptCall<'_>) -> Result<ScriptReply> {
        let (answer, answered) = oneshot::channel();
        let job = DurableStep {
            command: call.by_hash(),
            script: call.script(),
            deadline: Instant::now() + STEP_TIMEOUT,
            returned: None,
            answer,
        };
        let deadline = job.deadline;
        let lane = self.lane(call.prefix());
        // Fails only if the lane's task is gone, and it goes last; as does what waits for the
        // answer.
        if timeout_at(deadline, lane.send(job)).await.is_err() {
            let behind = "too many writes wait for replicas".to_owned();
            return Err(Error::Unavailable(behind));
        }
        let gone = |_| Err(Error::Unavailable("this process is stopping".into()));
        answered.await.unwrap_or_else(gone)
    }

    fn lane(&self, prefix: &str) -> mpsc::Sender<DurableStep> {
        let name = if self.by_partition { prefix } else { "" };
        let mut lanes = self.lanes.locked();
        if let Some(lane) = lanes.get(name) {
            return lane.clone();
        }
        let (lane, jobs) = mpsc::channel(MAX_ROUND);
        let carrier = DurableLane {
            connection: self.connections[lanes.len() % self.connections.len()].clone(),
            proof: self.proof,
            key: format!("{prefix}sync:{}", random_text(12)),
            round: 0,
            replicas: self.replicas.clone(),
            sentinels: self.sentinels.clone(),
            looks: !self.by_partition,
            metrics: self.metrics.clone(),
        };
        tokio::spawn(carrier.carry(jobs));
        lanes.insert(name.to_owned(), lane.clone());
        lane
    }
}

struct DurableLane {
    connection: RedisConnection,
    proof: DurabilityProof,
    /// The marker's.
    key: String,
    round: u64,
    replicas: ReplicaTracker,
    sentinels: Option<Arc<SentinelGroup>>,
    /// Also when it has nothing to do. In a cluster the one to be promoted makes the primary wait,
    /// so nobody has to.
    looks: bool,
    metrics: StoreMetrics,
}

impl DurableLane {
    /// Ends with the store.
    async fn carry(mut self, mut jobs: mpsc::Receiver<DurableStep>) {
        let mut batch = Vec::new();
        let mut pause = Duration::ZERO;
        loop {
            if batch.is_empty() {
                pause = Duration::from_millis(10);
                match timeout(LOOK_EVERY, jobs.recv()).await {
                    Ok(Some(job)) => batch.push(job),
                    Ok(None) => return,
                    Err(_) => {
                        self.look().await;
                        self.ask_around().await;
                        continue;
                    }
                }
            }
            while batch.len() < MAX_ROUND
                && let Ok(job) = jobs.try_recv()
            {
                batch.push(job);
            }
            let failed = match timeout(ROUND, self.take_round(&mut batch)).await {
                Ok(Ok(())) => "not all replicas in step have confirmed the write".to_owned(),
                Ok(Err(failed)) => failed,
                Err(_) => {
                    self.metrics.failed("timeout");
                    "no answer".to_owned()
                }
            };
            self.ask_around().await;
            if batch.is_empty() {
                continue;
            }
            let now = Instant::now();
            let late = batch.extract_if(.., |job| {
                job.deadline <= now + pause || job.answer.is_closed()
            });
            for job in late {
                let _ = job.answer.send(Err(Error::Unavailable(failed.clone())));
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(250));
        }
    }

    /// A replica that came into step since the last step has to confirm, even if it has left when
    /// the next one comes.
    async fn look(&mut self) {
        if !self.looks {
            return;
        }
        let mut question = Pipeline::with_capacity(1);
        question.add_command(redis::cmd("INFO").arg("replication").clone());
        let asked = self.connection.send_all(&question, self.key.as_bytes());
        let Ok(Ok(answers)) = timeout(ROUND, asked).await else {
            return;
        };
        for told in answers {
            let told = from_redis_value::<String>(told).unwrap_or_default();
            self.replicas.update(&told, Instant::now());
        }
    }

    /// Asks the sentinels if the primary does not know whom it had.
    async fn ask_around(&mut self) {
        if !self.replicas.is_unsure(Instant::now()) {
            return;
        }
        let Some(sentinels) = &self.sentinels else {
            return self.replicas.is_sure();
        };
        if let Some(known) = sentinels.replicas().await {
            self.replicas.add_known(known, Instant::now());
        }
    }

    /// One pipeline. Steps that are confirmed or cannot succeed leave the batch, answered.
    async fn take_round(
        &mut self,
        batch: &mut Vec<DurableStep>,
    ) -> std::result::Result<(), String> {
        self.round += 1;
        let mut commands = Pipeline::new();
        commands.add_command(redis::cmd("GET").arg(&self.key).clone());
        for job in batch.iter().filter(|job| job.returned.is_none()) {
            commands.add_command(job.command.clone());
        }
        let mut mark = redis::cmd("EVAL");
        mark.arg(MARK).arg(1).arg(&self.key).arg(self.round);
        commands.add_command(mark);
        commands.add_command(self.proof.wait(self.replicas.needed()));
        commands.add_command(redis::cmd("INFO").arg("replication").clone());
        let answers = self
            .connection
            .send_all(&commands, self.key.as_bytes())
            .await;
        let mut answers = answers.map_err(|error| self.failed(&error))?.into_iter();
        let mut answer = || answers.next().unwrap_or(Value::Nil).extract_error();

        let mark = answer()
            .ok()
            .and_then(|mark| from_redis_value::<u64>(mark).ok());
        let mut failed = None;
        let mut unanswered = Vec::with_capacity(batch.len());
        for mut job in batch.drain(..) {
            if let Some((round, _)) = &mut job.returned {
                let kept = mark == Some(*round);
                *round = self.round;
                // Lost with a failover: once more, in the next round.
                job.returned.take_if(|_| !kept);
                unanswered.push((job, kept));
                continue;
            }
            match answer() {
                Ok(value) => {
                    job.returned = Some((self.round, value));
                    unanswered.push((job, true));
                }
                Err(error) if error.code() == Some("NOSCRIPT") => {
                    job.command = by_text(&job.command, job.script);
                    unanswered.push((job, false));
                }
                Err(error) if fault::is_passing(&error) => {
                    failed = Some(self.failed(&error));
                    unanswered.push((job, false));
                }
                Err(error) => {
                    self.failed(&error);
                    let _ = job.answer.send(Err(Error::Broken(error.to_string())));
                }
            }
        }
        let marked = answer();
        let confirmed = answer().map(|value| self.proof.given_by(&value));
        let told = answer().and_then(|told| Ok(from_redis_value::<String>(told)?));
        // After the wait: whoever has left meanwhile had to confirm, too.
        let now = Instant::now();
        let needed = self.replicas.update(&told.unwrap_or_default(), now);
        let is_sure = self.sentinels.is_none() || !self.replicas.is_unsure(now);
        let confirmed = confirmed.map(|count| is_sure && count >= needed);
        let is_confirmed = marked.is_ok() && matches!(confirmed, Ok(true));
        for (mut job, done) in unanswered {
            match job.returned.take_if(|_| done && is_confirmed) {
                Some((_, value)) => _ = job.answer.send(Ok(ScriptReply(value))),
                None => batch.push(job),
            }
        }
        if matches!(confirmed, Ok(false)) {
            self.metrics.failed("replicas");
        }
        match marked.map(drop).and(confirmed.map(drop)) {
            Err(error) => Err(self.failed(&error)),
            Ok(()) => failed.map_or(Ok(()), Err),
        }
    }

    fn failed(&self, error: &RedisError) -> String {
        self.metrics.failed(fault::reason(error));
        fault::explain(error)
    }
}

/// The same call for a server that doesn't know the script yet.
fn by_text(command: &Cmd, script: &LuaScript) -> Cmd {
    let mut text = redis::cmd("EVAL");
    text.arg(&script.body);
    for argument in command.args_iter().skip(2) {
        if let Arg::Simple(bytes) = argument {
            text.arg(bytes);
        }
    }
    text
}
