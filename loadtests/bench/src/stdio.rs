//! What it costs that an agent is a program behind Baton: the same agent on pipes and behind `baton serve`, by turns, so
//! that whatever else the machine does hits both alike. Then new sessions, with agents kept ready and without.

mod direct;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use self::direct::Direct;
use crate::client::{Faults, Session, Transport};
use crate::count::Count;
use crate::load::percentile;
use crate::report::Outcome;
use crate::target::{Kind, Programs, Target};

const COUNT: Count = Count {
    chunks: 1,
    delay: None,
    size: 30,
};
/// Prompts in a row on one side.
const BATCH: usize = 20;
const WARM_UP: usize = 200;
/// How many sessions are opened, and how many prompts each gets after its first.
const OPENED: usize = 50;
const LATER: usize = 10;
/// What a prompt may take longer behind Baton, in milliseconds.
const LIMIT: f64 = 1.0;
/// How much longer a session's first prompt may take than a later one.
const FIRST_LIMIT: f64 = 2.0;

pub struct Stdio {
    /// On each side.
    pub prompts: usize,
    pub transport: Transport,
}

impl Stdio {
    pub async fn run(&self, programs: &Programs) -> Result<Outcome> {
        let prompts = self.prompts;
        println!("{prompts} prompts each, {BATCH} in turn\n");
        let added = self.added(programs).await?;
        println!("\n{OPENED} sessions, one after the other, {LATER} more prompts each\n");
        println!(
            "| agents kept ready | opened, p50 ms | first prompt, p50 ms | later ones, p50 ms |"
        );
        println!("|---:|---:|---:|---:|");
        let mut ratio = f64::NAN;
        for warm in [0, 4] {
            let [opened, first, later] = self.opened(programs, warm).await?;
            println!("| {warm} | {opened:.3} | {first:.3} | {later:.3} |");
            ratio = first / later;
        }
        let verdict = |kept| if kept { "kept" } else { "NOT kept" };
        println!(
            "\nBaton may add {LIMIT} ms to a prompt: {} ({added:.3} ms).",
            verdict(added < LIMIT)
        );
        println!(
            "With agents kept ready, a first prompt may take {FIRST_LIMIT} × a later one: {} ({ratio:.2} ×).",
            verdict(ratio < FIRST_LIMIT)
        );
        Ok(Outcome::Whole)
    }

    /// What Baton adds to a prompt at p50, in milliseconds.
    async fn added(&self, programs: &Programs) -> Result<f64> {
        let target = serving(programs, 0).await?;
        let mut direct = Direct::open(COUNT).await?;
        let mut behind = Session::open(target.addr, self.transport, COUNT).await?;
        for _ in 0..WARM_UP {
            direct.prompt().await?;
            behind.prompt().await?;
        }
        let (mut without, mut with) = (Vec::new(), Vec::new());
        while with.len() < self.prompts {
            for _ in 0..BATCH {
                without.push(direct.prompt().await?);
            }
            for _ in 0..BATCH {
                with.push(behind.prompt().await?);
            }
        }
        whole(&behind)?;
        println!("| | p50 ms | p99 ms |");
        println!("|---|---:|---:|");
        let [without, with] =
            [("on pipes", without), ("behind baton serve", with)].map(|(name, mut times)| {
                let (p50, p99) = (p(&mut times, 0.5), p(&mut times, 0.99));
                println!("| {name} | {p50:.3} | {p99:.3} |");
                p50
            });
        Ok(with - without)
    }

    /// Medians: opening a session, its first prompt, its later ones.
    async fn opened(&self, programs: &Programs, warm: usize) -> Result<[f64; 3]> {
        let target = serving(programs, warm).await?;
        let mut times = [const { Vec::new() }; 3];
        for _ in 0..OPENED {
            let started = Instant::now();
            let mut session = Session::open(target.addr, self.transport, COUNT).await?;
            times[0].push(started.elapsed());
            times[1].push(session.prompt().await?);
            for _ in 0..LATER {
                times[2].push(session.prompt().await?);
            }
            whole(&session)?;
            session.close().await;
        }
        Ok(times.map(|mut times| p(&mut times, 0.5)))
    }
}

async fn serving(programs: &Programs, warm: usize) -> Result<Target> {
    let program = std::env::current_exe()?;
    let program = program
        .to_str()
        .context("the benchmark's path is not plain")?;
    let agent = format!("--agent=stdio:'{program}' echo");
    let warm = format!("--agent-warm={warm}");
    Target::start_with(Kind::Memory, programs, &[&agent, &warm]).await
}

fn p(times: &mut [Duration], share: f64) -> f64 {
    times.sort_unstable();
    percentile(times, share)
}

fn whole(session: &Session) -> Result<()> {
    let faults = session.inbox().with(|ledger| ledger.close());
    anyhow::ensure!(
        faults == Faults::default(),
        "events were lost, duplicated or reordered: {faults:?}"
    );
    Ok(())
}
