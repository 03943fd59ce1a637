//! Files of other tools, written for these tests, and what becomes of them.

mod claude;
mod codex;
mod documents;
mod export;
mod told;
