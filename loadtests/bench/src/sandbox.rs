//! What it costs that agents are confined: sessions are opened by turns at servers that run beside each other. One does
//! not confine its agents, one does, and one gives them processes of their own as well. Each session starts an agent.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::client::{Session, Transport};
use crate::count::Count;
use crate::load::percentile;
use crate::report::Outcome;
use crate::target::{Kind, Programs, Target};

const COUNT: Count = Count {
    chunks: 1,
    delay: None,
    size: 30,
};
const WARM_UP: usize = 10;
/// How much later a confined agent may be there, in milliseconds.
const LIMIT: f64 = 5.0;

pub struct Sandbox {
    /// On each side.
    pub sessions: usize,
    pub transport: Transport,
}

impl Sandbox {
    pub async fn run(&self, programs: &Programs) -> Result<Outcome> {
        println!(
            "{} sessions each, by turns; each starts an agent\n",
            self.sessions
        );
        let options = [
            ["--agent-sandbox=none", "--agent-processes=system"],
            ["--agent-sandbox=landlock", "--agent-processes=system"],
            ["--agent-sandbox=landlock", "--agent-processes=own"],
        ];
        let mut sides = Vec::new();
        for options in options {
            sides.push(serving(programs, options).await?);
        }
        let mut times = [Vec::new(), Vec::new(), Vec::new()];
        for turn in 0..WARM_UP + self.sessions {
            for (side, times) in sides.iter().zip(&mut times) {
                let took = self.open(side).await?;
                if turn >= WARM_UP {
                    times.push(took);
                }
            }
        }
        println!("| agents | session opened, p50 ms | p99 ms |");
        println!("|---|---:|---:|");
        let mut medians = Vec::new();
        for (options, times) in options.iter().zip(&mut times) {
            times.sort_unstable();
            let (p50, p99) = (percentile(times, 0.5), percentile(times, 0.99));
            println!("| {} | {p50:.3} | {p99:.3} |", options.join(" "));
            medians.push(p50);
        }
        let added = medians[2] - medians[0];
        let verdict = if added < LIMIT { "kept" } else { "NOT kept" };
        println!(
            "\nA confined agent may start {LIMIT} ms later: {verdict} ({added:.3} ms at p50)."
        );
        Ok(Outcome::Whole)
    }

    async fn open(&self, side: &Target) -> Result<Duration> {
        let started = Instant::now();
        let session = Session::open(side.addr, self.transport, COUNT).await?;
        let took = started.elapsed();
        session.close().await;
        Ok(took)
    }
}

/// It is known by a name: on somebody's own machine agents see the system's processes.
async fn serving(programs: &Programs, options: [&str; 2]) -> Result<Target> {
    let program = std::env::current_exe()?;
    let program = program
        .to_str()
        .context("the benchmark's path is not plain")?;
    let agent = format!("--agent=stdio:'{program}' echo");
    Target::start_with(
        Kind::Memory,
        programs,
        &[&agent, "--allow-host=bench.example", options[0], options[1]],
    )
    .await
}
