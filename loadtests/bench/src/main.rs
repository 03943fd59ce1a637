//! Drives the official ACP server and Baton with the same load, side by side in one run, and compares them.
//!
//! `official` is the yardstick, `target` starts and stops what is measured, `client` is one session of load,
//! `load` runs one cell of the table, `rounds` all of them, `report` prints it; `idle`, `replay`, `stored`, `callers`,
//! `stdio`, `sandbox`, `telemetry` and `audit` measure other things of the same servers. docs/internals/benchmarks.md says how to read the result.

mod audit;
mod callers;
mod client;
mod count;
mod echo;
mod idle;
mod load;
mod official;
mod process;
mod redis_stats;
mod replay;
mod report;
mod rounds;
mod sandbox;
mod sides;
mod stdio;
mod stored;
mod target;
mod telemetry;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use clap::{Parser, Subcommand};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::LocalSet;

use crate::callers::Callers;
use crate::client::Transport;
use crate::count::Count;
use crate::idle::Idle;
use crate::load::Load;
use crate::replay::Replay;
use crate::report::Outcome;
use crate::rounds::Plan;
use crate::sandbox::Sandbox;
use crate::sides::Turns;
use crate::stdio::Stdio;
use crate::stored::Stored;
use crate::target::{Kind, Programs};

const CHUNKS: u32 = 20;
const CHUNK_SIZE: usize = 100;
const PACE: Duration = Duration::from_millis(20);

/// Compares Baton with the official in-memory ACP server on this machine.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Args {
    #[command(subcommand)]
    role: Option<Role>,
    /// Servers to drive; ratios need the official one
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "official,serve,redis"
    )]
    targets: Vec<Kind>,
    /// Numbers of concurrent sessions, each with its own connection
    #[arg(long, value_delimiter = ',', default_value = "1,16,64,256")]
    sessions: Vec<usize>,
    /// How often every cell is measured
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// How long a cell is measured, after a warm-up of half a second
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// How the load client speaks ACP
    #[arg(long, value_enum, default_value = "http")]
    transport: Transport,
    /// Chunks come 20 ms apart, as from a model, instead of as fast as they can
    #[arg(long)]
    paced: bool,
    /// Measure the memory of so many idle sessions instead
    #[arg(long, value_name = "SESSIONS", conflicts_with_all = ["sessions", "rounds", "seconds", "paced"])]
    idle: Option<usize>,
    /// Measure how fast a history of so many events is loaded instead
    #[arg(long, value_name = "EVENTS", conflicts_with_all = ["idle", "sessions", "rounds", "seconds", "transport", "paced"])]
    replay: Option<u64>,
    /// Measure session/fork and session/list with so many sessions kept instead
    #[arg(long, value_name = "SESSIONS", conflicts_with_all = ["idle", "replay", "sessions", "rounds", "seconds", "transport", "paced"])]
    stored: Option<usize>,
    /// Measure what it costs that callers say who they are and bring session tokens instead
    #[arg(long, value_name = "PROMPTS", conflicts_with_all = ["idle", "replay", "stored", "sessions", "rounds", "seconds", "transport", "paced"])]
    callers: Option<usize>,
    /// Measure what it costs that an agent is a program behind Baton instead
    #[arg(long, value_name = "PROMPTS", conflicts_with_all = ["idle", "replay", "stored", "callers", "sessions", "rounds", "seconds", "paced"])]
    stdio: Option<usize>,
    /// Measure what it costs to send traces and metrics to a collector instead
    #[arg(long, value_name = "SESSIONS", conflicts_with_all = ["idle", "replay", "stored", "callers", "stdio", "targets", "sessions", "rounds", "seconds", "paced"])]
    telemetry: Option<usize>,
    /// Measure what it costs that agents are confined instead
    #[arg(long, value_name = "SESSIONS", conflicts_with_all = ["idle", "replay", "stored", "callers", "stdio", "telemetry", "targets", "sessions", "rounds", "seconds", "paced"])]
    sandbox: Option<usize>,
    /// Measure what an audit log and budgets for each caller cost instead
    #[arg(long, value_name = "SESSIONS", conflicts_with_all = ["idle", "replay", "stored", "callers", "stdio", "telemetry", "sandbox", "targets", "sessions", "rounds", "seconds", "paced"])]
    audit: Option<usize>,
    /// The baton binary
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/release/baton"))]
    baton: PathBuf,
    /// Another baton binary, for the targets `serve-before` and `redis-before`
    #[arg(long, value_name = "BATON")]
    before: Option<PathBuf>,
    /// How many workers share the sessions, where there is a Redis
    #[arg(long, default_value_t = 1)]
    workers: usize,
    /// The Redis server binary
    #[arg(long, default_value = "redis-server")]
    redis_server: PathBuf,
}

#[derive(Subcommand)]
enum Role {
    /// Run only the official server with the echo agent
    Official {
        #[arg(long)]
        listen: SocketAddr,
    },
    /// The collector of --telemetry
    #[command(hide = true)]
    Collector {
        #[arg(long)]
        listen: SocketAddr,
    },
    /// The agent of --stdio, on standard input and output
    #[command(hide = true)]
    Echo,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let result = match args.role {
        Some(Role::Official { listen }) => official(listen),
        Some(Role::Collector { listen }) => collector(listen),
        Some(Role::Echo) => {
            echo::run(std::io::stdin().lock(), std::io::stdout().lock()).map(|()| ExitCode::SUCCESS)
        }
        None => compare(&args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("baton-bench: {error:#}");
        ExitCode::from(2)
    })
}

fn official(listen: SocketAddr) -> Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async { official::serve(TcpListener::bind(listen).await?).await })?;
    Ok(ExitCode::SUCCESS)
}

fn collector(listen: SocketAddr) -> Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(telemetry::collect(listen))?;
    Ok(ExitCode::SUCCESS)
}

/// One thread for all load: what it can't do with one core it should not take from the server.
fn compare(args: &Args) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let outcome = LocalSet::new().block_on(&runtime, async {
        let mut terminate = signal(SignalKind::terminate())?;
        // Whichever branch ends drops the others, and with them every process started.
        tokio::select! {
            outcome = measure(args) => outcome,
            _ = tokio::signal::ctrl_c() => bail!("interrupted"),
            _ = terminate.recv() => bail!("terminated"),
        }
    })?;
    Ok(match outcome {
        Outcome::Whole => ExitCode::SUCCESS,
        Outcome::Faulty => ExitCode::FAILURE,
        Outcome::Unmeasured => ExitCode::from(2),
    })
}

async fn measure(args: &Args) -> Result<Outcome> {
    let plan = args.plan()?;
    report::print_machine(&plan.programs);
    let (transport, count, prompt) = (
        plan.load.transport,
        plan.load.count,
        plan.load.count.directive(),
    );
    if let Some(sessions) = args.idle {
        println!("{transport:?}, {sessions} idle sessions after one {prompt:?} each\n");
        let idle = Idle {
            sessions,
            transport,
            count,
        };
        return idle.run(&plan.targets, &plan.programs).await;
    }
    if let Some(events) = args.replay {
        println!("session/load of {events} events from {prompt:?}\n");
        return Ok(Replay { events, count }
            .run(&plan.targets, &plan.programs)
            .await);
    }
    if let Some(sessions) = args.stored {
        println!("session/fork and session/list with {sessions} sessions\n");
        return Ok(Stored { sessions }.run(&plan.targets, &plan.programs).await);
    }
    if let Some(prompts) = args.callers {
        return Callers { prompts }.run(&plan.programs).await;
    }
    if let Some(prompts) = args.stdio {
        return Stdio { prompts, transport }.run(&plan.programs).await;
    }
    if let Some(sessions) = args.sandbox {
        return Sandbox {
            sessions,
            transport,
        }
        .run(&plan.programs)
        .await;
    }
    if let Some(sessions) = args.telemetry {
        let turns = Turns {
            sessions,
            transport,
            count,
        };
        return telemetry::run(turns, &plan.programs).await;
    }
    if let Some(sessions) = args.audit {
        let turns = Turns {
            sessions,
            transport,
            count,
        };
        return audit::run(turns, &plan.programs).await;
    }
    let (rounds, seconds) = (args.rounds, args.seconds);
    println!("{transport:?}, {prompt:?}, median of {rounds} rounds of {seconds} s\n");
    Ok(report::print(&plan.run().await, plan.load))
}

impl Args {
    fn plan(&self) -> Result<Plan> {
        ensure!(!self.sessions.contains(&0), "--sessions must not be 0");
        ensure!(self.idle != Some(0), "--idle must not be 0");
        ensure!(self.replay != Some(0), "--replay must not be 0");
        ensure!(self.stored != Some(0), "--stored must not be 0");
        ensure!(self.callers != Some(0), "--callers must not be 0");
        ensure!(self.stdio != Some(0), "--stdio must not be 0");
        ensure!(self.telemetry != Some(0), "--telemetry must not be 0");
        ensure!(self.sandbox != Some(0), "--sandbox must not be 0");
        ensure!(self.audit != Some(0), "--audit must not be 0");
        ensure!(self.rounds > 0, "--rounds must not be 0");
        ensure!(self.workers > 0, "--workers must not be 0");
        let before = self.targets.iter().any(|kind| kind.is_before());
        ensure!(
            !before || self.before.is_some(),
            "--before names the binary of serve-before and redis-before"
        );
        ensure!(self.seconds > 0.0, "--seconds must be more than 0");
        let count = Count {
            chunks: CHUNKS,
            delay: self.paced.then_some(PACE),
            size: CHUNK_SIZE,
        };
        Ok(Plan {
            targets: self.targets.clone(),
            sessions: self.sessions.clone(),
            rounds: self.rounds,
            load: Load {
                transport: self.transport,
                count,
                duration: Duration::try_from_secs_f64(self.seconds)?,
            },
            programs: Programs {
                baton: std::path::absolute(&self.baton)?,
                before: self.before.as_ref().map(std::path::absolute).transpose()?,
                workers: self.workers,
                redis_server: self.redis_server.clone(),
            },
        })
    }
}
