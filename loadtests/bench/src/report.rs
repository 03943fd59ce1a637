//! The table: medians over the rounds, each with its ratio to the official server.

use std::fs;
use std::process::Command;

use anyhow::Result;

use crate::client::{Faults, Transport};
use crate::load::{Load, Sample};
use crate::redis_stats::RedisCost;
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
pub fn print(cells: &[Cell], load: Load) -> Outcome {
    println!("{HEAD}");
    for cell in cells {
        println!("{}", row(cell, official(cells, cell.sessions)));
    }
    println!();
    print_limits(cells, load);
    cells.iter().for_each(print_shares);
    cells.iter().for_each(redis);
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

/// What a figure may be at most, as a multiple of the official server's.
struct Limit {
    kind: Kind,
    sessions: usize,
    what: &'static str,
    measure: Measure,
    most: f64,
}

fn limits(load: Load) -> Vec<Limit> {
    let limit = |kind, sessions, what, measure, most| Limit {
        kind,
        sessions,
        what,
        measure,
        most,
    };
    let cpu: Measure = |sample| sample.cpu_ms;
    let both = |sessions, what, measure, files, redis| {
        [
            limit(Kind::Serve, sessions, what, measure, files),
            limit(Kind::Redis, sessions, what, measure, redis),
        ]
    };
    let found = match (load.count.delay, load.transport) {
        (Some(_), Transport::Http) => vec![both(256, "CPU per event", cpu, 0.9, 1.3)],
        (Some(_), Transport::Ws) => vec![],
        (None, Transport::Http) => vec![
            both(64, "CPU per event", cpu, 0.8, 1.3),
            both(1, "p50 of a prompt", |sample| sample.p50_ms, 1.0, 1.6),
            both(64, "p99 of a prompt", |sample| sample.p99_ms, 1.5, 1.5),
        ],
        (None, Transport::Ws) => vec![both(64, "CPU per event", cpu, 0.5, 1.0)],
    };
    found.into_iter().flatten().collect()
}

/// Ratios round by round: what the machine does meanwhile hits both of a round alike.
fn ratios(cell: &Cell, official: &Cell, measure: Measure) -> Vec<f64> {
    let rounds = cell.rounds.iter().zip(&official.rounds);
    let both = rounds.filter_map(|(ours, theirs)| ours.as_ref().ok().zip(theirs.as_ref().ok()));
    let mut ratios: Vec<f64> = both
        .map(|(ours, theirs)| measure(ours) / measure(theirs))
        .collect();
    ratios.sort_by(f64::total_cmp);
    ratios
}

fn print_limits(cells: &[Cell], load: Load) {
    let of = |limit: &Limit| {
        let mut same = cells.iter().filter(|cell| cell.sessions == limit.sessions);
        let cell = same.find(|cell| cell.kind == limit.kind)?;
        Some(ratios(
            cell,
            official(cells, limit.sessions)?,
            limit.measure,
        ))
    };
    println!("| ratio to the official server | at most | median | lowest to highest round | |");
    println!("|---|---:|---:|---:|---|");
    for limit in limits(load) {
        let Some(ratios) = of(&limit).filter(|ratios| !ratios.is_empty()) else {
            continue;
        };
        let middle = median(ratios.clone());
        println!(
            "| {}, {} sessions, {} | {:.1} | {middle:.2} | {:.2} to {:.2} | {} |",
            limit.what,
            limit.sessions,
            limit.kind.name(),
            limit.most,
            ratios[0],
            ratios[ratios.len() - 1],
            if middle <= limit.most {
                "kept"
            } else {
                "**missed**"
            },
        );
    }
    println!();
}

fn print_shares(cell: &Cell) {
    let shares = split(cell);
    if !shares.is_empty() {
        println!(
            "CPU per 1,000 events: {}, {} sessions{shares}",
            cell.kind.name(),
            cell.sessions
        );
    }
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

/// What Redis did per prompt, by its own count.
fn redis(cell: &Cell) {
    let costs: Vec<_> = cell.samples().filter_map(|sample| sample.redis).collect();
    let of = |measure: fn(&RedisCost) -> f64| median(costs.iter().map(measure).collect());
    if !costs.is_empty() {
        println!(
            "per prompt on Redis: {}, {} sessions: {:.2} scripts, {:.0} µs in them, {:.1} commands, {:.0} bytes received, {:.0} sent",
            cell.kind.name(),
            cell.sessions,
            of(|cost| cost.scripts),
            of(|cost| cost.script_us),
            of(|cost| cost.commands),
            of(|cost| cost.received),
            of(|cost| cost.sent),
        );
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
