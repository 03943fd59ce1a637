//! A soak does the same all the time, so that what it takes has to stay the same.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::fleet::Fleet;
use crate::ledger::Ledger;

const SAMPLES: u32 = 12;
/// Later ones may have so much more than the first one that counts.
const MOST: f64 = 1.2;

#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Seconds.
    pub after: u64,
    pub keys: u64,
    /// Of all gateways and workers that run, in kilobytes.
    pub memory: u64,
}

/// Looks at regular intervals while the run lasts.
pub fn watch(fleet: Arc<Fleet>, lasts: Duration) -> JoinHandle<Vec<Sample>> {
    tokio::spawn(async move {
        let began = Instant::now();
        let mut samples = Vec::new();
        for number in 1..=SAMPLES {
            sleep_until(began + lasts * number / SAMPLES).await;
            samples.push(Sample {
                after: began.elapsed().as_secs(),
                keys: fleet.servers.as_ref().map_or(0, |servers| servers.keys()),
                memory: fleet.processes().map(resident).sum(),
            });
        }
        samples
    })
}

/// The last third beside the second: in the first everybody comes. A primary that is away takes its keys along, so the
/// most of each third counts.
pub fn judge(samples: Vec<Sample>, ledger: &Ledger) -> Vec<Sample> {
    let third = samples.len() / 3;
    let most = |part: &[Sample], of: fn(&Sample) -> u64| part.iter().map(of).max().unwrap_or(0);
    let (middle, end) = (&samples[third..2 * third], &samples[2 * third..]);
    let keys = |part: &[Sample]| most(part, |sample| sample.keys);
    let memory = |part: &[Sample]| most(part, |sample| sample.memory);
    for (what, before, after) in [
        ("keys", keys(middle), keys(end)),
        ("KB of memory", memory(middle), memory(end)),
    ] {
        if after as f64 > before as f64 * MOST {
            let text = format!("{after} {what} at the end, {before} in the middle");
            ledger.violation("I12", "fleet", "-", &text);
        }
    }
    samples
}

/// In kilobytes; nothing of a process that has just ended.
fn resident(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.unwrap_or(0)
}
