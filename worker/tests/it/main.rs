//! A worker on a store in memory.

mod poison;
