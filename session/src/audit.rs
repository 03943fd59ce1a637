//! The audit log: one line of JSON for each decision that somebody may ask about later. Never
//! content, never secrets. [`decision`] has all of them on one page.
//!
//! | file | what |
//! |---|---|
//! | `decision` | what is audited, with every field |
//! | `chain` | how lines hang together, and whether they do |
//! | `writer` | the thread that writes, and what waits for it |
//! | `file` | where it is written; restarts and rotation |
//! | `refusal_budget` | how many lines strangers may cause |

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;

pub use self::chain::{ChainError, ChainHead, VerifiedChain, verify};
pub use self::decision::{AuditActor, Decision, DecisionOutcome, TABLE};
pub use self::metrics::AuditMetrics;
use self::refusal_budget::RefusalBudget;
pub use self::text::AuditText;
use self::writer::{LineQueue, LineWriter};

mod chain;
mod decision;
mod file;
mod metrics;
mod refusal_budget;
mod text;
mod writer;

/// How long a process that stops waits for its last lines.
const LAST_LINES: Duration = Duration::from_secs(2);

/// Where decisions go; nowhere by default.
#[derive(Clone, Default)]
pub struct AuditLog(Option<Arc<AuditShared>>);

#[derive(Default)]
struct AuditShared {
    queue: LineQueue,
    refusals: RefusalBudget,
}

impl std::fmt::Debug for AuditLog {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_tuple("AuditLog").field(&self.is_on()).finish()
    }
}

impl AuditLog {
    /// To this file, after what is in it, or to standard output for `-`.
    pub fn open(path: &Path) -> Result<Self, String> {
        let (sink, head, found) = file::AuditSink::open(path)?;
        let shared = Arc::new(AuditShared::default());
        let writing = shared.clone();
        let thread = std::thread::Builder::new().name("audit".into());
        let run = move || LineWriter::new(&writing.queue, sink, head).run(found);
        thread.spawn(run).map_err(|error| error.to_string())?;
        Ok(Self(Some(shared)))
    }

    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    pub fn metrics(&self) -> Option<&AuditMetrics> {
        self.0.as_ref().map(|shared| &shared.queue.metrics)
    }

    /// Never waits.
    pub fn record(&self, decision: &Decision, outcome: DecisionOutcome, who: &AuditActor) {
        if let Some(shared) = &self.0 {
            shared.queue.push(body(decision, outcome, who));
        }
    }

    /// As many as there may be; `decision` gets how many before it had no line.
    pub fn refused(
        &self,
        decision: impl FnOnce(u64) -> Decision,
        who: impl FnOnce() -> AuditActor,
    ) {
        let Some(shared) = &self.0 else { return };
        if let Some(skipped) = shared.refusals.admit(Instant::now()) {
            self.record(&decision(skipped), DecisionOutcome::Refused, &who());
        }
    }

    /// The process ends: what waits is written.
    pub fn close(&self) {
        if let Some(shared) = &self.0 {
            shared.queue.close(LAST_LINES);
        }
    }
}

/// All of a line but what the chain adds.
fn body(decision: &Decision, outcome: DecisionOutcome, who: &AuditActor) -> String {
    #[derive(Serialize)]
    struct LineBody<'a> {
        time: String,
        #[serde(flatten)]
        decision: &'a Decision,
        outcome: DecisionOutcome,
        #[serde(flatten)]
        who: &'a AuditActor,
    }
    let time = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
    let body = LineBody {
        time,
        decision,
        outcome,
        who,
    };
    serde_json::to_string(&body).expect("text and numbers always encode")
}
