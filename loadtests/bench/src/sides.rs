//! Two sets of processes that run beside each other and get the same prompts. They take turns, a moment each, so that
//! whatever else the machine does hits both alike.

use std::time::Duration;

use anyhow::Result;
use futures_util::future::try_join_all;
use tokio::time::Instant;

use crate::client::{Faults, Session, Transport};
use crate::count::Count;
use crate::report::Outcome;
use crate::target::{Kind, Programs, Target};

const MOMENT: Duration = Duration::from_millis(200);
/// For each side.
const MOMENTS: usize = 150;
const WARM_UP: usize = 5;

pub struct Turns {
    /// For each side.
    pub sessions: usize,
    pub transport: Transport,
    pub count: Count,
}

pub struct Side {
    target: Target,
    sessions: Vec<Session>,
    pub prompts: usize,
    took: Duration,
    /// Prompts per second in each moment.
    speeds: Vec<f64>,
    cpu_before: Vec<(&'static str, u64)>,
}

impl Turns {
    pub async fn run(&self, kinds: [Kind; 2], programs: &Programs) -> Result<[Side; 2]> {
        let (sessions, prompt) = (self.sessions, self.count.directive());
        println!("{sessions} sessions each, {prompt:?}, {MOMENTS} times {MOMENT:?} in turn\n");
        let mut sides = [
            self.open(kinds[0], programs).await?,
            self.open(kinds[1], programs).await?,
        ];
        for side in &mut sides {
            for _ in 0..WARM_UP {
                side.moment().await?;
            }
            side.begin()?;
        }
        for round in 0..MOMENTS {
            // Each begins as often as the other.
            sides.rotate_left(round % 2);
            for side in &mut sides {
                side.moment().await?;
            }
            sides.rotate_right(round % 2);
        }
        Ok(sides)
    }

    async fn open(&self, kind: Kind, programs: &Programs) -> Result<Side> {
        let target = Target::start(kind, programs).await?;
        let open = || Session::open_as(kind.caller(), target.addr, self.transport, self.count);
        let sessions = try_join_all((0..self.sessions).map(|_| open())).await?;
        Ok(Side {
            target,
            sessions,
            prompts: 0,
            took: Duration::ZERO,
            speeds: Vec::new(),
            cpu_before: Vec::new(),
        })
    }
}

impl Side {
    fn begin(&mut self) -> Result<()> {
        (self.prompts, self.took) = (0, Duration::ZERO);
        self.speeds.clear();
        self.cpu_before = self.target.cpu_ms()?;
        Ok(())
    }

    /// All sessions at once, each one prompt after the other.
    async fn moment(&mut self) -> Result<()> {
        let began = Instant::now();
        let driven = self.sessions.iter_mut().map(async |session| {
            let mut prompts = 0;
            while began.elapsed() < MOMENT {
                session.prompt().await?;
                prompts += 1;
            }
            anyhow::Ok(prompts)
        });
        let prompts = try_join_all(driven).await?.iter().sum::<usize>();
        let took = began.elapsed();
        self.speeds.push(prompts as f64 / took.as_secs_f64());
        self.prompts += prompts;
        self.took += took;
        Ok(())
    }

    pub fn per_second(&self) -> f64 {
        self.prompts as f64 / self.took.as_secs_f64()
    }

    /// Milliseconds per 1,000 prompts, by process.
    pub fn cpu(&self) -> Result<Vec<(&'static str, f64)>> {
        let now = self.target.cpu_ms()?.into_iter();
        let both = now.zip(&self.cpu_before);
        let per_prompt = |ms: u64| ms as f64 * 1000.0 / self.prompts as f64;
        Ok(both
            .map(|((name, now), (_, before))| (name, per_prompt(now - before)))
            .collect())
    }
}

/// The median over pairs of moments: when one side's Redis rewrites its file, that hits whoever is at work.
pub fn typical_speed([without, with]: &[Side; 2]) -> f64 {
    let pairs = without.speeds.iter().zip(&with.speeds);
    let mut ratios: Vec<f64> = pairs.map(|(without, with)| with / without).collect();
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

/// Whether everything arrived, once and in order.
pub fn outcome(sides: &[Side; 2]) -> Outcome {
    for side in sides {
        let mut faults = Faults::default();
        for session in &side.sessions {
            faults += session.inbox().with(|ledger| ledger.close());
        }
        if faults.any() {
            println!("events were lost, duplicated or reordered: {faults:?}");
            return Outcome::Faulty;
        }
    }
    Outcome::Whole
}

pub fn row(name: &str, without: f64, with: f64) {
    let ratio = with / without;
    println!("| {name} | {without:.1} | {with:.1} | {ratio:.3} |");
}
