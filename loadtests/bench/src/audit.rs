//! What an audit log and budgets for each caller cost: the same prompts by turns to two sets of processes. Both ask who
//! calls; one also counts what each caller takes, and writes down what is decided. No budget is ever used up.

use anyhow::Result;

use crate::report::Outcome;
use crate::sides::{Turns, outcome, row, typical_speed};
use crate::target::{Kind, Programs};

/// Of CPU per event, as a multiple of what it takes without.
const LIMIT: f64 = 1.03;

pub async fn run(turns: Turns, programs: &Programs) -> Result<Outcome> {
    // Each chunk, and the answer.
    let events = f64::from(turns.count.chunks + 1);
    let sides = turns.run([Kind::Called, Kind::Audited], programs).await?;
    let [plain, audited] = &sides;
    println!("| | without | audit log and budgets | ratio |");
    println!("|---|---:|---:|---:|");
    row("prompts/s", plain.per_second(), audited.per_second());
    let per_event = |all: Vec<(&'static str, f64)>| {
        let all = all.into_iter().map(|(name, ms)| (name, ms / events));
        all.collect::<Vec<_>>()
    };
    let (without, with) = (per_event(plain.cpu()?), per_event(audited.cpu()?));
    let sum = |all: &[(&str, f64)]| all.iter().map(|(_, ms)| ms).sum::<f64>();
    row("CPU ms / 1,000 events", sum(&without), sum(&with));
    for ((name, without), (_, with)) in without.iter().zip(&with) {
        row(&format!("of that {name}"), *without, *with);
    }
    println!(
        "\nThroughput, median over pairs of moments: {:.3} ×.",
        typical_speed(&sides)
    );
    let ratio = sum(&with) / sum(&without);
    let verdict = if ratio <= LIMIT { "kept" } else { "NOT kept" };
    println!("CPU per event must be at most {LIMIT} ×: {verdict} ({ratio:.3}).");
    Ok(outcome(&sides))
}
