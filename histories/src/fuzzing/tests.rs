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
