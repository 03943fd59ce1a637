//! A short run for every day.

use baton_session::conformance::nearly::try_around;

#[test]
fn cursors_that_are_nearly_good() {
    try_around("cursor", 20_000, super::cursor);
}

#[test]
fn messages_that_are_nearly_good() {
    try_around("envelope", 20_000, super::envelope);
}

#[test]
fn headers_that_are_nearly_good() {
    try_around("headers", 10_000, super::headers);
}

/// Fewer of them, since a signature takes its time where nothing is optimised.
#[test]
fn tokens_that_are_nearly_good() {
    try_around("token", 2_000, super::token);
}
