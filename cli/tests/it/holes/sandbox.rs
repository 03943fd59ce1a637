//! What an agent can get at beside its own session.

mod dumpable;
mod hostile;
mod kept;
mod principals;
mod processes;
mod secrets;
mod stderr;
mod user;
