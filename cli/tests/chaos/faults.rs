//! Carries the schedule out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::fleet::Fleet;
use crate::schedule::{Kind, Step, Target};
use crate::support::cluster::redis_cli;
use crate::support::proxy::{Mood, Proxy};

/// How often each kind struck what.
pub type Struck = Arc<Mutex<BTreeMap<(Kind, &'static str), u64>>>;

/// Returns when the last fault is over and everything runs again.
pub async fn run(fleet: Arc<Fleet>, steps: Vec<Step>, struck: Struck) {
    let began = Instant::now();
    let mut under_way = JoinSet::new();
    for step in steps {
        sleep_until(began + step.at).await;
        let count = (step.kind, group(&fleet, step.target));
        *struck
            .lock()
            .expect("not poisoned")
            .entry(count)
            .or_default() += 1;
        under_way.spawn(strike(fleet.clone(), step));
    }
    under_way.join_all().await;
    fleet.heal().await;
}

fn group(fleet: &Fleet, target: Target) -> &'static str {
    match target {
        Target::Member(number) if fleet.members[number].is_gateway() => "gateway",
        Target::Member(_) => "worker",
        Target::Front(_) => "clients' connections",
        Target::Store(_) => "connections to Redis",
        Target::Redis => "Redis",
    }
}

async fn strike(fleet: Arc<Fleet>, step: Step) {
    match step.target {
        Target::Member(number) => member(&fleet, number, step.kind, step.lasts).await,
        Target::Front(number) => {
            if let Some((_, proxy)) = &fleet.members[number].front {
                way(proxy, step.kind, step.lasts).await;
            }
        }
        Target::Store(number) => way(&fleet.members[number].store, step.kind, step.lasts).await,
        Target::Redis => redis(&fleet, step.kind, step.lasts).await,
    }
}

async fn member(fleet: &Fleet, number: usize, kind: Kind, lasts: Duration) {
    let member = &fleet.members[number];
    let _struck = member.struck.lock().await;
    match kind {
        Kind::Kill => {
            member.kill();
            sleep(lasts).await;
            member.start();
        }
        Kind::Pause => {
            member.signal("STOP");
            sleep(lasts).await;
            member.signal("CONT");
        }
        Kind::Term => {
            member.terminate().await;
            member.start();
        }
        other => unreachable!("{other:?} is no fault of a process"),
    }
}

async fn way(proxy: &Proxy, kind: Kind, lasts: Duration) {
    proxy.set(match kind {
        Kind::Cut => return proxy.cut(),
        Kind::CutReply => Mood::CutsReplies,
        Kind::Stall => Mood::Stalled,
        Kind::Slow => Mood::Slow(Duration::from_millis(500)),
        Kind::Slice => Mood::Sliced,
        other => unreachable!("{other:?} is no fault of a connection"),
    });
    sleep(lasts).await;
    proxy.set(Mood::Clear);
}

async fn redis(fleet: &Fleet, kind: Kind, lasts: Duration) {
    let command: &[&str] = match kind {
        Kind::Kill => {
            let mut redis = fleet.redis.lock().await;
            redis.process.kill();
            sleep(lasts).await;
            return redis.restart().await;
        }
        Kind::Failover => return fleet.fail_over(lasts).await,
        Kind::Pause => {
            let redis = fleet.redis.lock().await;
            redis.process.signal("STOP");
            sleep(lasts).await;
            return redis.process.signal("CONT");
        }
        Kind::ScriptFlush => &["script", "flush"],
        Kind::KillSubscribers => &["client", "kill", "type", "pubsub"],
        Kind::KillConnections => &["client", "kill", "type", "normal"],
        other => unreachable!("{other:?} is no fault of Redis"),
    };
    // Not while it is down: redis-cli would only say so.
    let _redis = fleet.redis.lock().await;
    redis_cli(fleet.redis_port(), command);
}
