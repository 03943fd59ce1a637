//! The stores, held against the suite that all of them pass, and against each other.

mod cluster;
mod failures;
mod file;
mod memory;
mod model;
mod redis;
mod support;
