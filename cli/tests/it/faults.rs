//! What once broke at the edges, tried again: each test has the name of its row in the list of faults.

mod halfway_moved;
mod lost_replies;
mod lost_tail;
mod open_questions;
mod outages;
mod postscript;
mod release_hook;
mod repeated;
mod site;
mod unconfirmed;
