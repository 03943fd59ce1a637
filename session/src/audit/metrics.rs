//! How the audit log fares.

use prometheus_client::metrics::counter::Counter;

use crate::metrics::Registry;

#[derive(Clone, Debug, Default)]
pub struct AuditMetrics {
    pub lines: Counter,
    pub lost: Counter,
}

impl AuditMetrics {
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("audit");
        let help = "Decisions written to the audit log";
        registry.register("lines", help, self.lines.clone());
        let help = "Decisions that could not be written to the audit log";
        registry.register("lost", help, self.lost.clone());
    }
}
