//! Workers: claim a session, run its agent, write what it says. No HTTP.
//!
//! Read in this order, which is the way of a prompt:
//!
//! | file | what |
//! |---|---|
//! | [`runner`] | takes sessions while it has room; wake-ups are hints, sweeping is the truth |
//! | [`hold`] | one held session: its inbox in order, until nothing waits |
//! | [`turn`] | one prompt from begin to answer |
//! | [`journal`] | what a turn has already said, so that a taken-over turn says it only once |
//! | [`outlet`] | collects events and appends them in frames |
//! | [`written`] | what was written lately, in case the store loses it |
//! | [`housekeeping`] | what rests becomes smaller, what nobody uses goes |
//! | [`agent`] | the seam behind which agents live |

pub mod agent;
mod hold;
mod housekeeping;
mod journal;
mod outlet;
mod rpc;
pub mod runner;
mod turn;
mod written;

pub use runner::{Config, run};
