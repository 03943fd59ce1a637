//! The signals for a collector, and OpenTelemetry's variables about them: most of them exist once
//! for all signals, and once for each, which counts more.

use std::env;

#[derive(Clone, Copy)]
pub enum OtlpSignal {
    Traces,
    Metrics,
}

impl OtlpSignal {
    /// In paths and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
        }
    }

    /// The standard has a list of exporters for each. Ours is `otlp`; `none` is one without it.
    pub fn is_wanted(self) -> bool {
        let name = format!("OTEL_{}_EXPORTER", self.infix());
        let is_ours = |name: &str| name.trim().eq_ignore_ascii_case("otlp");
        variable(&name).is_none_or(|given| given.split(',').any(is_ours))
    }

    /// The value of `OTEL_EXPORTER_OTLP_…`, and the name of the variable.
    pub fn variable(self, what: &str) -> Option<(String, String)> {
        let own = format!("OTEL_EXPORTER_OTLP_{}_{what}", self.infix());
        let common = format!("OTEL_EXPORTER_OTLP_{what}");
        let set = |name: String| variable(&name).map(|value| (name, value));
        set(own).or_else(|| set(common))
    }

    /// An address that is this one's alone is taken as it is.
    pub fn owns(self, name: &str) -> bool {
        name.contains(&format!("_{}_", self.infix()))
    }

    fn infix(self) -> &'static str {
        match self {
            Self::Traces => "TRACES",
            Self::Metrics => "METRICS",
        }
    }
}

/// One that is set to nothing is not set.
pub fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}
