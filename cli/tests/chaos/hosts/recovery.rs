//! How long it takes after a partition until each gateway is ready, and a turn that is asked for there has ended.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use super::machines::{GATEWAYS, front, is_ready};
use super::network::Host;
use super::partition::Partition;
use super::world;
use crate::client::SCRIPTED;
use crate::client::line::{Line, Means};
use crate::ledger::{Ledger, Prompt};
use crate::support::http::{new_session, prompt};
use crate::support::within;

/// A gateway is ready again within this.
const READY: Duration = Duration::from_secs(10);

/// Of each gateway.
pub struct Recovery {
    ready: [Duration; 2],
    turn: [Duration; 2],
}

impl Recovery {
    /// Called when the partition is over.
    pub async fn measure(ledger: &Arc<Ledger>, seed: u64, number: usize) -> Self {
        let [one, other] = GATEWAYS;
        let measure = |host| recovers(ledger, seed, number, host);
        let (one, other) = tokio::join!(measure(one), measure(other));
        Self {
            ready: [one.0, other.0],
            turn: [one.1, other.1],
        }
    }
}

async fn recovers(
    ledger: &Arc<Ledger>,
    seed: u64,
    number: usize,
    gateway: Host,
) -> (Duration, Duration) {
    let healed = Instant::now();
    let name = format!("probe-{number} at {gateway}");
    within("the gateway is ready", async {
        while !is_ready(gateway).await {
            sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    let ready = healed.elapsed();
    if ready > READY {
        let text = format!("ready {} ms after the partition", ready.as_millis());
        ledger.violation("I12", &name, "-", &text);
    }
    turn_at(ledger, seed, gateway, &name).await;
    (ready, healed.elapsed())
}

/// A turn from its session's beginning to its end, by somebody who repeats what was not accepted.
pub async fn turn(ledger: Arc<Ledger>, seed: u64, number: usize) {
    turn_at(&ledger, seed, GATEWAYS[0], &format!("early-{number}")).await;
}

async fn turn_at(ledger: &Arc<Ledger>, seed: u64, gateway: Host, name: &str) {
    let world = world(ledger, seed, vec![front(gateway)]);
    let line = Line::open(world, name, Means::Bodies, SCRIPTED).await;
    within("a turn ends", whole_turn(line)).await;
}

async fn whole_turn(mut line: Line) {
    line.ask(new_session(json!("new")), None).await;
    let answer = line.answer_to("new").await;
    let session = answer["result"]["sessionId"].as_str();
    let session = session.expect("the ledger has said what it is instead");
    let text = "/count 3";
    let asked = Prompt {
        session: session.to_owned(),
        chunks: 3,
        size: 0,
        may_be_cancelled: false,
        permission: false,
        program: false,
        words: Prompt::digest(text),
    };
    line.ask(prompt(json!("prompt"), session, text), Some(asked))
        .await;
    line.answer_to("prompt").await;
}

pub fn print(run: &str, plan: &[Partition], recoveries: &[Recovery]) {
    println!("\n| {run} | gateways ready after ms | a turn has ended after ms |\n|---|---:|---:|");
    for (partition, recovery) in plan.iter().zip(recoveries) {
        let [ready, turn] = [recovery.ready, recovery.turn].map(|[one, other]| {
            let (one, other) = (one.as_millis(), other.as_millis());
            format!("{one} / {other}")
        });
        println!("| {partition} | {ready} | {turn} |");
    }
}
