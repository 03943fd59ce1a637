//! A worker on a store in memory, which can be made to fail.

mod drain;
mod heal;
mod llm;
mod opening;
mod poison;
mod rest;
mod support;
