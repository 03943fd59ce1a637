//! What an agent can get at beside its own session.

mod dumpable;
mod hostile;
mod principals;
mod processes;
mod secrets;
mod stderr;
mod user;
