//! The table: medians over the rounds, each with its ratio to the official server.

use std::fs;
use std::process::Command;

use anyhow::Result;

use crate::client::Faults;
use crate::load::Sample;
use crate::target::{Kind, Programs};

const HEAD: &str = "\
| sessions | server | prompts/s | events/s | p50 ms | p99 ms | CPU ms / 1,000 events | RSS MiB idle | RSS MiB loaded | lost / dup. / reord. |
|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|";

type Measure = fn(&Sample) -> f64;

/// The measures in the order of the columns, with the digits to show.
const COLUMNS: [(Measure, usize); 7] = [
    (|s| s.prompts_per_s, 0),
    (|s| s.events_per_s, 0),
    (|s| s.p50_ms, 2),
    (|s| s.p99_ms, 2),
    (|s| s.cpu_ms, 1),
    (|s| s.idle_mib, 0),
    (|s| s.loaded_mib, 0),
];

/// All rounds of one target with one number of sessions.
pub struct Cell {
    pub kind: Kind,
    pub sessions: usize,
    pub rounds: Vec<Result<Sample>>,
}

impl Cell {
    pub fn new(kind: Kind, sessions: usize) -> Self {
        let rounds = Vec::new();
        Self {
            kind,
            sessions,
            rounds,
        }
    }

    fn samples(&self) -> impl Iterator<Item = &Sample> {
        self.rounds.iter().flatten()
    }

    fn faults(&self) -> Faults {
        let mut sum = Faults::default();
        self.samples().for_each(|sample| sum += sample.faults);
        sum
    }

    fn median(&self, measure: Measure) -> f64 {
        median(self.samples().map(measure).collect())
    }
}

/// How the whole run ended.
pub enum Outcome {
    Whole,
    /// Events were lost, duplicated, reordered or wrong.
    Faulty,
    /// A cell could not be measured.
    Unmeasured,
}

/// Prints the table, then the verdicts.
pub fn print(cells: &[Cell]) -> Outcome {
    println!("{HEAD}");
    for cell in cells {
        println!("{}", row(cell, official(cells, cell.sessions)));
    }
    println!();
    for cell in cells {
        if let Some(official) = official(cells, cell.sessions) {
            verdict(cell, official);
        }
    }
    client(cells);
    match (faults(cells).any(), failures(cells)) {
        (true, _) => Outcome::Faulty,
        (false, 0) => Outcome::Whole,
        (false, _) => Outcome::Unmeasured,
    }
}

fn official(cells: &[Cell], sessions: usize) -> Option<&Cell> {
    let mut same_load = cells.iter().filter(|cell| cell.sessions == sessions);
    same_load.find(|cell| cell.kind == Kind::Official)
}

fn row(cell: &Cell, official: Option<&Cell>) -> String {
    let mut row = format!("| {} | {} |", cell.sessions, cell.kind.name());
    for (measure, digits) in COLUMNS {
        let value = cell.median(measure);
        if value.is_nan() {
            row += " – |";
            continue;
        }
        row += &format!(" {value:.digits$}");
        if let Some(official) = official.filter(|_| cell.kind != Kind::Official) {
            row += &format!(" ({:.2} ×)", value / official.median(measure));
        }
        row += " |";
    }
    let faults = cell.faults();
    row + &format!(
        " {} / {} / {} |",
        faults.lost, faults.duplicated, faults.reordered
    )
}

fn verdict(cell: &Cell, official: &Cell) {
    let cpu: Measure = |sample| sample.cpu_ms;
    let ratio = cell.median(cpu) / official.median(cpu);
    let Some(limit) = cell.kind.limit().filter(|_| !ratio.is_nan()) else {
        return;
    };
    let rounds = cell.rounds.iter().zip(&official.rounds);
    let each: Vec<_> = rounds
        .filter_map(|(ours, theirs)| {
            Some(ours.as_ref().ok()?.cpu_ms / theirs.as_ref().ok()?.cpu_ms)
        })
        .map(|ratio| format!("{ratio:.2}"))
        .collect();
    println!(
        "{} the limit of {limit:.1} ×: {}, {} sessions: CPU per event {ratio:.2} × official (rounds: {}){}",
        if ratio <= limit { "within" } else { "ABOVE" },
        cell.kind.name(),
        cell.sessions,
        each.join(", "),
        split(cell),
    );
}

/// Which process the time went to, if there are several.
fn split(cell: &Cell) -> String {
    let processes = cell.samples().map(|sample| sample.cpu_ms_of.len()).min();
    let of = |index: usize| {
        let name = cell.samples().next()?.cpu_ms_of[index].0;
        let values = cell.samples().map(|sample| sample.cpu_ms_of[index].1);
        Some(format!("{name} {:.1}", median(values.collect())))
    };
    match processes {
        None | Some(1) => String::new(),
        Some(several) => format!(
            ", {} ms",
            (0..several).filter_map(of).collect::<Vec<_>>().join(", ")
        ),
    }
}

fn client(cells: &[Cell]) {
    let samples = cells.iter().flat_map(Cell::samples);
    let most = samples
        .map(|sample| sample.client_cores)
        .fold(0.0, f64::max);
    println!("the load client took at most {most:.2} of a core, which is counted nowhere above");
    if most > 0.95 {
        println!("NOTE: the load client was the bottleneck; prompts/s and round trips are its own");
    }
}

fn faults(cells: &[Cell]) -> Faults {
    let mut sum = Faults::default();
    for cell in cells {
        sum += cell.faults();
        for sample in cell.samples().filter(|sample| sample.faults.any()) {
            let (name, faults) = (cell.kind.name(), sample.faults);
            let problem = sample.problem.as_deref().unwrap_or_default();
            println!(
                "FAULT: {name}, {} sessions: {faults:?} {problem}",
                cell.sessions
            );
        }
    }
    println!(
        "events lost {}, duplicated {}, reordered {}, wrong {}",
        sum.lost, sum.duplicated, sum.reordered, sum.wrong
    );
    sum
}

fn failures(cells: &[Cell]) -> usize {
    let mut failures = 0;
    for cell in cells {
        for error in cell.rounds.iter().filter_map(|round| round.as_ref().err()) {
            println!(
                "FAILED: {}, {} sessions: {error:#}",
                cell.kind.name(),
                cell.sessions
            );
            failures += 1;
        }
    }
    failures
}

/// When and on what this was measured.
pub fn print_machine(programs: &Programs) {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = field(&cpu, "model name")
        .unwrap_or("unknown CPU")
        .to_owned();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib =
        field(&memory, "MemTotal").and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let gib = kib.unwrap_or_default() / 1024 / 1024;
    println!(
        "{}, {cores} × {model}, {gib} GiB, Linux {}",
        output("date", &["-u", "+%F %R UTC"]),
        kernel.trim()
    );
    println!(
        "{}",
        output(&programs.redis_server.to_string_lossy(), &["--version"])
    );
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim())
}

fn output(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    output.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(vec![]).is_nan());
    }
}
