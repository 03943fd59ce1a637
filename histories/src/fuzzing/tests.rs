//! A short run for every day.

use baton_session::conformance::nearly::try_around;

#[test]
fn claude_files_that_are_nearly_good() {
    try_around("claude_file", 2_000, super::claude_file);
}

#[test]
fn codex_files_that_are_nearly_good() {
    try_around("codex_file", 2_000, super::codex_file);
}

#[test]
fn opencode_files_that_are_nearly_good() {
    try_around("opencode_file", 2_000, super::opencode_file);
}

#[test]
fn goose_files_that_are_nearly_good() {
    try_around("goose_file", 2_000, super::goose_file);
}
