//! The order of measurement: every target under every load, alternating, several times over.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::timeout;

use crate::load::{self, Load, Sample};
use crate::report::Cell;
use crate::target::{Kind, Programs, Target};

/// What a cell may take beyond its duration: starting, opening, draining, stopping.
const OVERHEAD: Duration = Duration::from_secs(90);

pub struct Plan {
    pub targets: Vec<Kind>,
    pub sessions: Vec<usize>,
    pub rounds: usize,
    pub load: Load,
    pub programs: Programs,
}

impl Plan {
    pub async fn run(&self) -> Vec<Cell> {
        let mut cells = self.cells();
        for round in 0..self.rounds {
            // Targets alternate, and each round begins with another, so drift of the machine hits all alike.
            for same_load in cells.chunks_mut(self.targets.len()) {
                same_load.rotate_left(round % self.targets.len());
                for cell in same_load.iter_mut() {
                    let sample = self.run_cell(cell).await;
                    progress(round, cell, &sample);
                    cell.rounds.push(sample);
                }
                same_load.rotate_right(round % self.targets.len());
            }
        }
        cells
    }

    fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for &sessions in &self.sessions {
            for &kind in &self.targets {
                cells.push(Cell::new(kind, sessions));
            }
        }
        cells
    }

    /// Every cell has fresh processes, and only its own: nothing else idles beside them.
    async fn run_cell(&self, cell: &Cell) -> Result<Sample> {
        let run = async {
            let mut target = Target::start(cell.kind, &self.programs).await?;
            load::run(&mut target, self.load, cell.sessions).await
        };
        let limit = self.load.duration + OVERHEAD;
        timeout(limit, run).await.context("took too long")?
    }
}

fn progress(round: usize, cell: &Cell, sample: &Result<Sample>) {
    let outcome = match sample {
        Ok(sample) => format!(
            "{:>6.0} prompts/s, {:>6.1} ms CPU per 1,000 events",
            sample.prompts_per_s, sample.cpu_ms
        ),
        Err(error) => format!("FAILED: {error:#}"),
    };
    let (sessions, name) = (cell.sessions, cell.kind.name());
    eprintln!(
        "round {}: {sessions:>4} sessions, {name:<24} {outcome}",
        round + 1
    );
}
