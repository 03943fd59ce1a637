//! The reports of this process, for operators.

use std::sync::Arc;

use baton_gateway::StopSignals;
use baton_session::metrics::Registry;
use baton_session::report::{self, ReportTask};
use baton_session::store::Store;
use serde_json::Value;

/// Names a process in its reports, whatever its role.
pub struct ProcessIdentity {
    pub process: String,
    pub role: &'static str,
}

/// Reports until the process stops. An order to end in order is as good as a signal.
pub fn start(
    identity: ProcessIdentity,
    store: Arc<dyn Store>,
    registry: Arc<Registry>,
    stop: &StopSignals,
    details: impl Fn() -> Value + Send + Sync + 'static,
) {
    tokio::spawn(report::run(ReportTask {
        store,
        process: identity.process,
        role: identity.role,
        version: env!("CARGO_PKG_VERSION"),
        registry,
        details: Box::new(details),
        drain: stop.drain.clone(),
        stop: stop.now.clone(),
    }));
}
