//! What an attacker got once, tried again: each test has the name of its row in the list of holes.

mod connections;
mod edge;
mod sandbox;
