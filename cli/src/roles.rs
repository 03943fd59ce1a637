//! The commands that serve.

/// Only they read a configuration file.
pub const ROLES: [&str; 3] = ["serve", "gateway", "worker"];
