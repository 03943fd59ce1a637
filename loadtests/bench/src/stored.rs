//! `--stored`: whether `session/fork` takes longer the longer a session is, and `session/list` the more there are.

mod list;
mod table;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::client::OneShot;
use crate::report::Outcome;
use crate::target::{Kind, Programs, Target};
use table::{Requirement, Row};

/// What the two sessions that are forked have heard from their agent.
const LONG: usize = 10_000;
const SHORT: usize = 1;
/// Per figure, after some that are not counted.
const FORKS: usize = 200;
const PAGES: usize = 300;
const WARM_UP: usize = 20;
/// Connections that make sessions at the same time, one after the other each.
const MAKERS: usize = 8;
const CWD: &str = "/bench";
/// A directory that only a few sessions have, made before all others: whoever looks for them by going through
/// the list has to go through all of it.
const FEW: usize = 10;
const CWD_OF_FEW: &str = "/bench/few";
/// Housekeeping looks every 5 s at sessions that have rested for 10.
const REST: Duration = Duration::from_secs(17);
/// Requirements: how much longer the fork of a long session may take, and how long the first page.
const FORK_LIMIT: f64 = 2.0;
const PAGE_LIMIT_MS: f64 = 5.0;
/// What one server may take for everything.
const LIMIT: Duration = Duration::from_secs(300);

#[derive(Clone, Copy)]
pub struct Stored {
    pub sessions: usize,
}

struct Measured {
    rows: Vec<Row>,
    fault: Option<String>,
}

impl Stored {
    pub async fn run(&self, targets: &[Kind], programs: &Programs) -> Outcome {
        let mut measured = Vec::new();
        let mut outcome = Outcome::Whole;
        for &kind in targets {
            if kind == Kind::Official {
                eprintln!("{}: neither forks nor lists", kind.name());
                continue;
            }
            let run = timeout(LIMIT, self.measure(kind, programs)).await;
            match run.context("took too long").flatten() {
                Ok(of_kind) => measured.push((kind, of_kind)),
                Err(error) => {
                    println!("FAILED: {}: {error:#}", kind.name());
                    outcome = Outcome::Unmeasured;
                }
            }
        }
        println!("{}", table::HEAD);
        for (kind, measured) in &measured {
            measured.rows.iter().for_each(|row| row.print(*kind));
        }
        println!();
        for (kind, measured) in &measured {
            measured.rows.iter().for_each(|row| row.verdict(*kind));
            match &measured.fault {
                None => println!("every session listed once, in order: {}", kind.name()),
                Some(fault) => {
                    println!("FAULT: {}: {fault}", kind.name());
                    outcome = Outcome::Faulty;
                }
            }
        }
        outcome
    }

    async fn measure(&self, kind: Kind, programs: &Programs) -> Result<Measured> {
        let mut target = Target::start(kind, programs).await?;
        let mut client = OneShot::open(target.addr).await?;
        let short = written(&mut client, SHORT).await?;
        let long = written(&mut client, LONG).await?;
        let mut known = HashSet::from([short.clone(), long.clone()]);
        let mut rows = Vec::new();
        rows.extend(forks(&mut client, [&short, &long], "just made", &mut known).await?);

        let started = Instant::now();
        known.extend(self.make(target.addr).await?);
        let (name, seconds) = (kind.name(), started.elapsed().as_secs_f64());
        eprintln!("{name}: {} sessions after {seconds:.1} s", self.sessions);
        rows.extend(self.pages(&mut client, "just made").await?);

        sleep(REST).await;
        rows.extend(self.pages(&mut client, "rested").await?);
        rows.extend(forks(&mut client, [&short, &long], "rested", &mut known).await?);
        // A fork stays in its parent's partition, so now all of the first page comes from one or two.
        rows.extend(self.pages(&mut client, "rested, then forked").await?);
        let walk = list::walk(&mut client).await?;
        rows.push(Row::new("any page", "rested, then forked", walk.times));
        target.check()?;
        Ok(Measured {
            rows,
            fault: list::fault(&walk.entries, &known),
        })
    }

    /// All sessions but those that are forked.
    async fn make(&self, addr: SocketAddr) -> Result<Vec<String>> {
        let mut few = OneShot::open(addr).await?;
        let mut made = Vec::with_capacity(self.sessions);
        for _ in 0..FEW.min(self.sessions) {
            made.push(new_session(&mut few, CWD_OF_FEW).await?);
        }
        let more = self.sessions - made.len();
        let mut makers = JoinSet::new();
        for maker in 0..MAKERS {
            makers.spawn_local(async move {
                let mut client = OneShot::open(addr).await?;
                let mut made = Vec::new();
                for _ in (maker..more).step_by(MAKERS) {
                    made.push(new_session(&mut client, CWD).await?);
                }
                anyhow::Ok(made)
            });
        }
        while let Some(by_one) = makers.join_next().await {
            made.extend(by_one??);
        }
        Ok(made)
    }

    /// The first page of all and of a few, by turns.
    async fn pages(&self, client: &mut OneShot, state: &str) -> Result<[Row; 2]> {
        let (mut all, mut of_few) = (Vec::new(), Vec::new());
        for round in 0..WARM_UP + PAGES {
            let any = client.ask("session/list", json!({})).await?;
            let few = client
                .ask("session/list", json!({"cwd": CWD_OF_FEW}))
                .await?;
            let found = few.result["sessions"].as_array().map_or(0, Vec::len);
            ensure!(
                found == FEW.min(self.sessions),
                "{found} sessions in {CWD_OF_FEW}"
            );
            if round >= WARM_UP {
                all.push(any.took);
                of_few.push(few.took);
            }
        }
        let all = Row::new("first page", state, all).required(Requirement::Ms(PAGE_LIMIT_MS));
        let of_few = Row::new(&format!("first page, {FEW} in a `cwd`"), state, of_few);
        let base = all.p50;
        Ok([all, of_few.beside(base)])
    }
}

async fn new_session(client: &mut OneShot, cwd: &str) -> Result<String> {
    let params = json!({"cwd": cwd, "mcpServers": []});
    session_id(&client.ask("session/new", params).await?.result)
}

/// A session whose agent has said so much.
async fn written(client: &mut OneShot, chunks: usize) -> Result<String> {
    let session = new_session(client, CWD).await?;
    let text = format!("/count {chunks} size=100");
    let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
    let said = client.ask("session/prompt", params).await?.chunks;
    ensure!(said == chunks, "{said} chunks for {text:?}");
    Ok(session)
}

/// Forks of the short session and of the long one, by turns.
async fn forks(
    client: &mut OneShot,
    parents: [&str; 2],
    state: &str,
    known: &mut HashSet<String>,
) -> Result<[Row; 2]> {
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..WARM_UP + FORKS {
        for (parent, times) in parents.iter().zip(&mut times) {
            let params = json!({"sessionId": parent, "cwd": CWD, "mcpServers": []});
            let forked = client.ask("session/fork", params).await?;
            known.insert(session_id(&forked.result)?);
            if round >= WARM_UP {
                times.push(forked.took);
            }
        }
    }
    let [short, long] = times;
    let short = Row::new("fork, 1 event", state, short);
    let base = short.p50;
    let long = Row::new(&format!("fork, {LONG} events"), state, long).beside(base);
    Ok([short, long.required(Requirement::Ratio(FORK_LIMIT))])
}

fn session_id(result: &Value) -> Result<String> {
    let id = result["sessionId"].as_str().context("no sessionId")?;
    Ok(id.to_owned())
}
