//! What it costs to tell a collector: the same load on the same processes, which tell nobody, or send a tenth of all
//! traces and, every second, all metrics. The collector takes everything and keeps nothing.

use std::net::SocketAddr;

use anyhow::Result;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::StatusCode;
use tokio::net::TcpListener;

use crate::load::Sample;
use crate::report::{Cell, median};
use crate::target::Kind;

/// With as much throughput at least.
const LIMIT: f64 = 0.95;
/// Larger than any batch of spans.
const MAX_BODY: usize = 64 << 20;

/// What is compared, in this order.
pub const TARGETS: [Kind; 2] = [Kind::Redis, Kind::Told];

pub fn verdict(cells: &[Cell]) {
    for pair in cells.chunks_exact(TARGETS.len()) {
        let [silent, told] = pair else { continue };
        let ratio = |measure: &dyn Fn(&Sample) -> f64| {
            let rounds = silent.rounds.iter().zip(&told.rounds);
            let both = rounds.filter_map(|(silent, told)| {
                Some(measure(told.as_ref().ok()?) / measure(silent.as_ref().ok()?))
            });
            median(both.collect())
        };
        let (throughput, cpu) = (ratio(&|s| s.prompts_per_s), ratio(&|s| s.cpu_ms));
        let processes = silent.rounds.iter().flatten().next();
        let processes = processes.map_or(&[][..], |sample| &sample.cpu_ms_of);
        let each = processes
            .iter()
            .enumerate()
            .map(|(index, (name, _))| format!("{name} {:.3} ×", ratio(&|s| s.cpu_ms_of[index].1)));
        let each = each.collect::<Vec<_>>().join(", ");
        println!(
            "{} the limit of {LIMIT} ×: {} sessions: throughput {throughput:.3} × that without a collector, \
             CPU per event {cpu:.3} ×: {each} (medians of the rounds' ratios)",
            if throughput >= LIMIT {
                "within"
            } else {
                "BELOW"
            },
            silent.sessions,
        );
    }
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
