//! End to end: real processes, a real Redis, a real balancer, unmodified clients.

mod bad_input;
mod bindings;
mod clients;
mod clock;
mod drain;
mod edge_cases;
mod moves;
mod newcomer;
mod once;
mod outage;
mod questions;
mod redis;
mod restart;
mod resume;
mod revocation;
mod rolling;
mod slow;
mod streams;
mod support;
mod takeover;
mod websocket;
