//! One line per figure, and whether it is as required.

use std::time::Duration;

use crate::load::percentile;
use crate::target::Kind;

pub const HEAD: &str = "\
| server | request | sessions were | p50 ms | p99 ms | p50, ratio |
|---|---|---|---:|---:|---:|";

pub struct Row {
    request: String,
    /// What had happened to the sessions before.
    state: String,
    pub p50: f64,
    p99: f64,
    /// What it is compared with.
    base: Option<f64>,
    requirement: Option<Requirement>,
}

#[derive(Clone, Copy)]
pub enum Requirement {
    Ratio(f64),
    Ms(f64),
}

impl Row {
    pub fn new(request: &str, state: &str, mut times: Vec<Duration>) -> Self {
        times.sort();
        Self {
            request: request.to_owned(),
            state: state.to_owned(),
            p50: percentile(&times, 0.50),
            p99: percentile(&times, 0.99),
            base: None,
            requirement: None,
        }
    }

    pub fn beside(self, base: f64) -> Self {
        let base = Some(base);
        Self { base, ..self }
    }

    pub fn required(self, requirement: Requirement) -> Self {
        let requirement = Some(requirement);
        Self {
            requirement,
            ..self
        }
    }

    fn ratio(&self) -> f64 {
        self.base.map_or(1.0, |base| self.p50 / base)
    }

    pub fn print(&self, kind: Kind) {
        let (name, request, state) = (kind.name(), &self.request, &self.state);
        let ratio = self.base.map(|_| format!("{:.2} ×", self.ratio()));
        println!(
            "| {name} | {request} | {state} | {:.2} | {:.2} | {} |",
            self.p50,
            self.p99,
            ratio.unwrap_or_default()
        );
    }

    pub fn verdict(&self, kind: Kind) {
        let (kept, what) = match self.requirement {
            None => return,
            Some(Requirement::Ratio(limit)) => (
                self.ratio() <= limit,
                format!("{limit:.1} × the short one: {:.2} ×", self.ratio()),
            ),
            Some(Requirement::Ms(limit)) => (
                self.p50 < limit,
                format!("{limit:.0} ms: {:.2} ms", self.p50),
            ),
        };
        println!(
            "{} the required {what}, {}, {}, {}",
            if kept { "within" } else { "ABOVE" },
            kind.name(),
            self.request,
            self.state,
        );
    }
}
