//! The stores, held against the suite that all of them pass, and against each other.

mod backup;
mod cluster;
mod cluster_changes;
mod cluster_faults;
mod durability;
mod failures;
mod families;
mod file;
mod forks;
mod formats;
mod golden;
mod halfway;
mod idle;
mod lists;
mod memory;
mod memory_limit;
mod model;
mod planned_failover;
mod port;
mod redis;
mod requests;
mod rollback;
mod secured;
mod sentinel;
mod support;
mod valkey;
