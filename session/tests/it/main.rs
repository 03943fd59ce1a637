//! The stores, held against the suite that all of them pass, and against each other.

mod cluster;
mod durability;
mod failures;
mod file;
mod memory;
mod memory_limit;
mod model;
mod redis;
mod secured;
mod sentinel;
mod support;
