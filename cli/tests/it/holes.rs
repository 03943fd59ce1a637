//! What an attacker got once, tried again: each test has the name of its row in the list of holes.

mod admin;
mod agent_policy;
mod api_keys;
mod archives;
mod cancelling;
mod connections;
mod edge;
mod egress;
mod fields;
mod forking;
mod inflight;
mod mcp_commands;
mod outboxes;
mod redis_rules;
mod redis_users;
mod sandbox;
mod supply;
mod tokens;
mod who_may;
