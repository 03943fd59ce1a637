//! What it costs to tell a collector: the same prompts by turns to two sets of processes. One tells nobody, the other
//! sends a tenth of all traces and, every ten seconds, all metrics. The collector takes everything and keeps nothing.

use std::net::SocketAddr;

use anyhow::Result;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::StatusCode;
use tokio::net::TcpListener;

use crate::report::Outcome;
use crate::sides::{Turns, outcome, row, typical_speed};
use crate::target::{Kind, Programs};

/// With as much throughput at least.
const LIMIT: f64 = 0.95;
/// Larger than any batch of spans.
const MAX_BODY: usize = 64 << 20;

pub async fn run(turns: Turns, programs: &Programs) -> Result<Outcome> {
    let sides = turns.run([Kind::Redis, Kind::Told], programs).await?;
    let [silent, told] = &sides;
    println!("| | without a collector | with one | ratio |");
    println!("|---|---:|---:|---:|");
    row("prompts/s", silent.per_second(), told.per_second());
    let (without, with) = (silent.cpu()?, told.cpu()?);
    let sum = |all: &[(&str, f64)]| all.iter().map(|(_, ms)| ms).sum();
    row("CPU ms / 1,000 prompts", sum(&without), sum(&with));
    for ((name, without), (_, with)) in without.iter().zip(&with) {
        row(&format!("of that {name}"), *without, *with);
    }
    let ratio = typical_speed(&sides);
    let verdict = if ratio >= LIMIT { "kept" } else { "NOT kept" };
    println!(
        "\nThroughput, median over pairs of moments, must be at least {LIMIT} ×: {verdict} ({ratio:.3})."
    );
    Ok(outcome(&sides))
}

/// The collector, in a process of its own.
pub async fn collect(listen: SocketAddr) -> Result<()> {
    let take = async |body: Body| match to_bytes(body, MAX_BODY).await {
        Ok(_) => StatusCode::OK,
        Err(_) => StatusCode::BAD_REQUEST,
    };
    let listener = TcpListener::bind(listen).await?;
    axum::serve(listener, Router::new().fallback(take)).await?;
    Ok(())
}
