//! What processes take when nobody asks anything of them: none may spin, and what they took to work is given back.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::fleet::Fleet;
use crate::ledger::Ledger;
use crate::support::process::memory;

/// Sessions are made small ten seconds after their last turn, and the store gets rid of what was deleted. All of that
/// has to be over by then.
const CALM_BY: Duration = Duration::from_secs(60);
const WINDOW: Duration = Duration::from_secs(3);
/// Of one core, by each process.
const MOST_CPU: f64 = 0.1;
/// By all servers of the store together. A worker looks at each partition once a second, and replicas count as well; one
/// that spins makes tens of thousands.
const MOST_COMMANDS: f64 = 4000.0;
/// Of what it had at the start, and what the allocator and caches of a process that has worked keep beside that. At its
/// start it has touched nothing yet. One process that is everything has a database in it, with buffers of its own.
const MOST_MEMORY: f64 = 1.2;
const KEPT: u64 = 64 << 10;
const KEPT_BY_A_DATABASE: u64 = 128 << 10;

/// What each process had before anybody came.
pub struct Before(Vec<u64>);

#[derive(Clone, Debug, Default)]
pub struct Rest {
    /// The busiest process, of a core.
    pub cpu: f64,
    /// Of the store, per second.
    pub commands: f64,
    /// Of each process, in kilobytes: its name, at the start, now.
    pub memory: Vec<(String, u64, u64)>,
}

impl Before {
    pub fn of(fleet: &Fleet) -> Self {
        let members = fleet.members.iter();
        Self(members.map(|member| memory(member.pid())).collect())
    }
}

/// Waits until everything is calm. What does not become so is a violation.
pub async fn check(fleet: &Fleet, before: &Before, ledger: &Ledger) -> Rest {
    let deadline = Instant::now() + CALM_BY;
    loop {
        let (rest, wrong) = look(fleet, before).await;
        if wrong.is_empty() {
            return rest;
        }
        if Instant::now() > deadline {
            for (name, text) in wrong {
                ledger.violation("I12", &name, "-", &text);
            }
            return rest;
        }
    }
}

type Wrong = (String, String);

async fn look(fleet: &Fleet, before: &Before) -> (Rest, Vec<Wrong>) {
    let times = || -> Vec<Duration> {
        let members = fleet.members.iter();
        members.map(|member| processor_time(member.pid())).collect()
    };
    let asked = || {
        fleet
            .servers
            .as_ref()
            .map_or(0, |servers| servers.commands())
    };
    let (began, times_before, asked_before) = (Instant::now(), times(), asked());
    sleep(WINDOW).await;
    let passed = began.elapsed().as_secs_f64();
    let (mut rest, mut wrong) = (Rest::default(), Vec::new());
    rest.commands = asked().saturating_sub(asked_before) as f64 / passed;
    if rest.commands > MOST_COMMANDS {
        let text = format!("{:.0} commands a second, and nobody asks", rest.commands);
        wrong.push(("store".into(), text));
    }
    let kept = match fleet.servers {
        Some(_) => KEPT,
        None => KEPT_BY_A_DATABASE,
    };
    let passing = times_before.into_iter().zip(times());
    for ((member, had), (earlier, later)) in fleet.members.iter().zip(&before.0).zip(passing) {
        let cpu = later.saturating_sub(earlier).as_secs_f64() / passed;
        rest.cpu = rest.cpu.max(cpu);
        if cpu > MOST_CPU {
            let text = format!("{:.0} % of a core, and nobody asks", cpu * 100.0);
            wrong.push((member.name.clone(), text));
        }
        let has = memory(member.pid());
        rest.memory.push((member.name.clone(), *had, has));
        if has.saturating_sub(kept) as f64 > *had as f64 * MOST_MEMORY {
            let text = format!("has {has} KB of memory, and had {had} at the start");
            wrong.push((member.name.clone(), text));
        }
    }
    (rest, wrong)
}

/// What a process has had of the processors so far.
fn processor_time(process: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"));
    let stat = stat.expect("the process runs");
    // The second field is its name, in parentheses, and may contain anything.
    let fields = stat
        .rsplit_once(')')
        .map(|(_, fields)| fields.split_whitespace());
    let ticks: u64 = fields.map_or(0, |fields| {
        let times = fields.skip(11).take(2);
        times.filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
    });
    Duration::from_millis(ticks * 10)
}
