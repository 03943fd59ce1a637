//! A short run for every day.

use baton_session::conformance::nearly::try_around;

#[test]
fn lines_of_agents_that_are_nearly_good() {
    try_around("agent_line", 20_000, super::agent_line);
}

#[test]
fn params_for_agents_that_are_nearly_good() {
    try_around("agent_params", 20_000, super::agent_params);
}

#[test]
fn mcp_entries_that_are_nearly_good() {
    try_around("mcp_entry", 20_000, super::mcp_entry);
}

#[test]
fn answers_of_models_that_are_nearly_good() {
    try_around("model_answer", 20_000, super::model_answer);
}
