//! The metrics of this process: each part of it counts for itself, and all are shown together.

use baton_session::metrics::Registry;
use prometheus_client::metrics::info::Info;

/// With nothing in it but who we are.
pub fn registry() -> Registry {
    let mut registry = Registry::with_prefix("baton");
    let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
    registry.register("build", "The version that runs", version);
    registry
}
