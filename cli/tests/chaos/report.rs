//! The run in one table.

use std::time::Duration;

use crate::aftermath::Noted;
use crate::faults::Struck;
use crate::growth::Sample;
use crate::ledger::Counts;
use crate::probe::Times;
use crate::rest::Rest;
use crate::setup::Setup;

pub struct Report {
    pub setup: Setup,
    pub struck: Struck,
    pub counts: Counts,
    pub noted: Noted,
    pub times: Times,
    pub rest: Rest,
    pub growth: Vec<Sample>,
    /// Of the store's servers, in bytes, before and after.
    pub memory: (u64, u64),
    pub violations: usize,
}

impl Report {
    pub fn print(&self) {
        let counts = &self.counts;
        println!("\n| chaos | |\n|---|---:|");
        row("run", self.setup);
        row("seconds of faults", self.setup.seconds);
        for (fault, count) in self.struck.lock().expect("not poisoned").iter() {
            row(fault, count);
        }
        row("prompts", counts.prompts);
        row("… cancelled", counts.cancelled);
        row("… with a question", counts.questions);
        row("loads by observers", counts.loads);
        row("events received", counts.events);
        row("streams resumed", counts.cuts);
        row("requests and streams tried again", counts.retries);
        row("turns taken over", self.noted.takeovers);
        row("fenced writes", self.noted.fenced);
        row("gaps repaired", self.noted.healed);
        row("resets", counts.resets);
        for recovery in &self.times.recoveries {
            let limit = recovery.limit.map_or(String::new(), |limit| {
                format!(", limit {} ms", limit.as_millis())
            });
            spread(
                &format!("recovery after {}{limit}", recovery.what),
                &recovery.silences,
            );
        }
        spread("resume at another gateway, 64 sessions", &self.times.resume);
        let (before, after) = self.memory;
        row(
            "memory of the store, KB",
            format!("{} → {}", before / 1024, after / 1024),
        );
        let rest = &self.rest;
        row(
            "at rest: busiest process, % of a core",
            format!("{:.1}", rest.cpu * 100.0),
        );
        row(
            "at rest: commands of the store per second",
            format!("{:.0}", rest.commands),
        );
        for sample in &self.growth {
            let name = format!("after {} s: keys / memory of the fleet, KB", sample.after);
            row(&name, format!("{} / {}", sample.keys, sample.memory));
        }
        for (name, before, after) in &rest.memory {
            row(
                &format!("memory of {name}, KB"),
                format!("{before} → {after}"),
            );
        }
        row("violations", self.violations);
    }
}

fn spread(what: &str, times: &[Duration]) {
    let name = format!("{what}: p50 / p99 / max ms ({} samples)", times.len());
    let [middle, high, most] = [50, 99, 100].map(|percent| percentile(times, percent));
    row(&name, format!("{middle:.0} / {high:.0} / {most:.0}"));
}

fn row(name: &str, value: impl std::fmt::Display) {
    println!("| {name} | {value} |");
}

fn percentile(times: &[Duration], percent: usize) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort();
    let at = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted
        .get(at)
        .map_or(0.0, |time| time.as_secs_f64() * 1000.0)
}

#[test]
fn percentiles_are_of_what_was_measured() {
    let times: Vec<_> = (1..=200).rev().map(Duration::from_millis).collect();
    assert_eq!(
        (percentile(&times, 50), percentile(&times, 99)),
        (100.0, 198.0)
    );
    assert_eq!(percentile(&times[..1], 99), 200.0);
}
