//! `--idle`: what a session costs while its user is away. Each has had one prompt and keeps its own connection
//! with its streams open.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::client::{Resting, Session, Transport};
use crate::count::Count;
use crate::process::{self, Memory};
use crate::report::Outcome;
use crate::target::{Kind, Programs, Target};

/// Sessions that are being opened at a time. All at once would measure the crowd, whose memory nobody gives back.
const OPENERS: usize = 64;
const OPEN_LIMIT: Duration = Duration::from_secs(300);
/// Until housekeeping has looked at every session.
const SETTLE: Duration = Duration::from_secs(20);
/// Files a process has open beside its sessions' sockets.
const SPARE_FILES: usize = 200;
/// What the process that holds the streams may take, as a multiple of the official server, and should.
const LIMIT: f64 = 1.0;
const AIM: f64 = 0.7;

const HEAD: &str = "\
| server | process | RSS MiB before | RSS MiB after | KiB / session | KiB / stream | KiB / session without files |
|---|---|---:|---:|---:|---:|---:|";

#[derive(Clone, Copy)]
pub struct Idle {
    pub sessions: usize,
    pub transport: Transport,
    pub count: Count,
}

/// The memory of each process before the first session and with all of them at rest.
struct Grown(Vec<(&'static str, Memory, Memory)>);

impl Idle {
    pub async fn run(&self, targets: &[Kind], programs: &Programs) -> Result<Outcome> {
        let sockets = self.sessions * self.transport.streams();
        // A session that is being opened has a third socket, to post on.
        let (needed, allowed) = (sockets + OPENERS + SPARE_FILES, process::open_files()?);
        ensure!(
            needed <= allowed,
            "{} sessions need {needed} open files, only {allowed} are allowed: ulimit -n",
            self.sessions
        );
        let mut measured = Vec::new();
        for &kind in targets {
            let grown = self.measure(kind, programs).await;
            if let Err(error) = &grown {
                println!("FAILED: {}: {error:#}", kind.name());
            }
            measured.push((kind, grown));
        }
        println!("{HEAD}");
        let official = measured.iter().find(|(kind, _)| *kind == Kind::Official);
        let official = official.and_then(|(kind, grown)| Some(grown.as_ref().ok()?.front(*kind)));
        for (kind, grown) in &measured {
            let Ok(grown) = grown else { continue };
            self.rows(*kind, grown, official);
        }
        println!();
        for (kind, grown) in &measured {
            if let (Ok(grown), Some(official)) = (grown, official) {
                verdict(*kind, grown.front(*kind) / official);
            }
        }
        if measured.iter().any(|(_, grown)| grown.is_err()) {
            Ok(Outcome::Unmeasured)
        } else {
            Ok(Outcome::Whole)
        }
    }

    async fn measure(&self, kind: Kind, programs: &Programs) -> Result<Grown> {
        let mut target = Target::start(kind, programs).await?;
        let before = target.memory()?;
        let started = Instant::now();
        let resting = timeout(OPEN_LIMIT, self.open(&target)).await;
        let resting = resting.context("the sessions took too long to open")??;
        let seconds = started.elapsed().as_secs_f64();
        eprintln!(
            "{}: {} sessions open and prompted after {seconds:.1} s",
            kind.name(),
            self.sessions
        );
        sleep(SETTLE).await;
        target.check()?;
        let after = target.memory()?;
        let mut broken = resting.iter().filter_map(|resting| resting.inbox.broken());
        if let Some(why) = broken.next() {
            bail!("{} sessions lost a stream: {why}", broken.count() + 1);
        }
        let both = before.into_iter().zip(after);
        Ok(Grown(
            both.map(|((name, before), (_, after))| (name, before, after))
                .collect(),
        ))
    }

    async fn open(&self, target: &Target) -> Result<Vec<Resting>> {
        let mut opening = JoinSet::new();
        let mut resting = Vec::with_capacity(self.sessions);
        for _ in 0..self.sessions {
            if opening.len() == OPENERS {
                let opened = opening.join_next().await.context("nothing to join")?;
                resting.push(opened??);
            }
            let (addr, transport, count) = (target.addr, self.transport, self.count);
            opening.spawn_local(async move {
                let mut session = Session::open(addr, transport, count).await?;
                session.prompt().await?;
                anyhow::Ok(session.rest())
            });
        }
        while let Some(opened) = opening.join_next().await {
            resting.push(opened??);
        }
        Ok(resting)
    }

    fn rows(&self, kind: Kind, grown: &Grown, official: Option<f64>) {
        let mut processes: VecDeque<_> = grown.0.iter().collect();
        // First the one that is compared.
        while processes
            .front()
            .is_some_and(|(name, ..)| *name != kind.front())
        {
            processes.rotate_left(1);
        }
        for (name, before, after) in processes {
            let (rss, anonymous) = (
                growth(before.rss, after.rss),
                growth(before.anonymous, after.anonymous),
            );
            let (sessions, streams) = (self.sessions as f64, self.transport.streams() as f64);
            let ratio = official
                .filter(|_| *name == kind.front() && kind != Kind::Official)
                .map(|official| format!(" ({:.2} ×)", rss / official))
                .unwrap_or_default();
            println!(
                "| {} | {name} | {:.0} | {:.0} | {:.1}{ratio} | {:.1} | {:.1} |",
                kind.name(),
                before.rss as f64 / 1024.0,
                after.rss as f64 / 1024.0,
                rss / sessions,
                rss / sessions / streams,
                anonymous / sessions,
            );
        }
    }
}

impl Grown {
    /// By how many KiB the process that holds the streams has grown.
    fn front(&self, kind: Kind) -> f64 {
        let mut processes = self.0.iter();
        let front = processes.find(|(name, ..)| *name == kind.front());
        front.map_or(f64::NAN, |(_, before, after)| growth(before.rss, after.rss))
    }
}

fn growth(before: u64, after: u64) -> f64 {
    after as f64 - before as f64
}

fn verdict(kind: Kind, ratio: f64) {
    if kind == Kind::Official {
        return;
    }
    let words = match ratio {
        ratio if ratio <= AIM => format!("within the aim of {AIM:.1} ×"),
        ratio if ratio <= LIMIT => {
            format!("within the limit of {LIMIT:.1} ×, above the aim of {AIM:.1} ×")
        }
        _ => format!("ABOVE the limit of {LIMIT:.1} ×"),
    };
    println!(
        "{words}: {}, memory of an idle session {ratio:.2} × official",
        kind.name()
    );
}
