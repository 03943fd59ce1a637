//! A short run for every day.

use crate::conformance::nearly::try_around;

#[test]
fn frames_that_are_nearly_good() {
    try_around("frame", 20_000, super::frame);
}

#[test]
fn blocks_that_are_nearly_good() {
    try_around("block", 20_000, super::block);
}

#[test]
fn archives_that_are_nearly_good() {
    try_around("archive", 10_000, super::archive);
}
