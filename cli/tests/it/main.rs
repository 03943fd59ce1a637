//! End to end: real processes, a real Redis, a real balancer, unmodified clients.

mod auth;
mod bad_input;
mod bindings;
mod clients;
mod clock;
mod deletion;
mod drain;
mod edge_cases;
mod moves;
mod newcomer;
mod once;
mod outage;
mod protocol;
mod questions;
mod redis;
mod restart;
mod resume;
mod rolling;
mod schema;
mod session_tokens;
mod slow;
mod streams;
mod support;
mod takeover;
mod token;
mod websocket;
