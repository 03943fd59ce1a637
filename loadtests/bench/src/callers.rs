//! What it costs that callers say who they are: the same prompts to two servers that run beside each other, one that
//! asks nobody, and one that gets an API key and a session token with every request. They take turns, a few prompts
//! each, so that whatever else the machine does hits both alike.

use std::time::Duration;

use anyhow::Result;

use crate::client::{Faults, Session, Transport};
use crate::count::Count;
use crate::load::percentile;
use crate::report::Outcome;
use crate::target::{Kind, Programs, Target};

const COUNT: Count = Count {
    chunks: 1,
    delay: None,
    // Room for the text with any number of prompts.
    size: 40,
};
/// Prompts in a row for one server.
const BATCH: usize = 20;
const WARM_UP: usize = 200;
/// How much slower a POST may be.
const LIMIT: f64 = 1.05;

pub struct Callers {
    /// For each server.
    pub prompts: usize,
}

struct Side {
    target: Target,
    session: Session,
    accepted: Vec<Duration>,
    answered: Vec<Duration>,
    cpu_before: u64,
}

impl Callers {
    pub async fn run(&self, programs: &Programs) -> Result<Outcome> {
        let prompts = self.prompts;
        println!("{prompts} prompts each, {BATCH} in turn\n");
        let mut sides = [
            Side::open(Kind::Memory, programs).await?,
            Side::open(Kind::Guarded, programs).await?,
        ];
        for side in &mut sides {
            side.prompts(WARM_UP).await?;
            side.begin()?;
        }
        for round in 0..prompts.div_ceil(BATCH) {
            // Each begins as often as the other.
            sides.rotate_left(round % 2);
            for side in &mut sides {
                side.prompts(BATCH).await?;
            }
            sides.rotate_right(round % 2);
        }
        print(&mut sides)
    }
}

impl Side {
    async fn open(kind: Kind, programs: &Programs) -> Result<Self> {
        let target = Target::start(kind, programs).await?;
        let session = Session::open_as(kind.caller(), target.addr, Transport::Http, COUNT).await?;
        Ok(Self {
            target,
            session,
            accepted: Vec::new(),
            answered: Vec::new(),
            cpu_before: 0,
        })
    }

    fn begin(&mut self) -> Result<()> {
        self.accepted.clear();
        self.answered.clear();
        self.cpu_before = self.cpu_ms()?;
        Ok(())
    }

    fn cpu_ms(&self) -> Result<u64> {
        Ok(self.target.cpu_ms()?.iter().map(|(_, ms)| ms).sum())
    }

    async fn prompts(&mut self, count: usize) -> Result<()> {
        for _ in 0..count {
            let timed = self.session.timed_prompt().await?;
            self.accepted.push(timed.accepted);
            self.answered.push(timed.answered);
        }
        Ok(())
    }

    /// Medians in microseconds, and processor time per 1,000 prompts in milliseconds.
    fn figures(&mut self) -> Result<[f64; 3]> {
        let count = self.accepted.len() as f64;
        self.accepted.sort_unstable();
        self.answered.sort_unstable();
        Ok([
            percentile(&self.accepted, 0.5) * 1000.0,
            percentile(&self.answered, 0.5) * 1000.0,
            (self.cpu_ms()? - self.cpu_before) as f64 * 1000.0 / count,
        ])
    }
}

fn print(sides: &mut [Side; 2]) -> Result<Outcome> {
    let [plain, guarded] = sides;
    let (without, with) = (plain.figures()?, guarded.figures()?);
    println!("| | without | with API key and session token | ratio |");
    println!("|---|---:|---:|---:|");
    let names = [
        "POST until 202, p50 µs",
        "prompt until answer, p50 µs",
        "CPU ms / 1,000 prompts",
    ];
    for (name, (without, with)) in names.iter().zip(without.iter().zip(&with)) {
        println!(
            "| {name} | {without:.1} | {with:.1} | {:.3} |",
            with / without
        );
    }
    let ratio = with[0] / without[0];
    let verdict = if ratio <= LIMIT { "kept" } else { "NOT kept" };
    println!("\nA POST may take at most {LIMIT} × as long: {verdict} ({ratio:.3}).");
    for side in sides {
        let faults = side.session.inbox().with(|ledger| ledger.close());
        if faults != Faults::default() {
            println!("events were lost, duplicated or reordered: {faults:?}");
            return Ok(Outcome::Faulty);
        }
    }
    Ok(Outcome::Whole)
}
