//! Logs go to standard error, so that standard output stays for people and pipes.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

/// The embedded database tells how it tidies up; nobody asked.
const DEFAULT: &str = "info,fjall=error,lsm_tree=error";

/// `BATON_LOG` sets the level, `BATON_LOG_FORMAT=json` the format.
pub fn start() {
    let filter = EnvFilter::try_from_env("BATON_LOG").unwrap_or_else(|_| EnvFilter::new(DEFAULT));
    let colours = std::io::stderr().is_terminal();
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(colours)
        .with_writer(std::io::stderr);
    if std::env::var("BATON_LOG_FORMAT").as_deref() == Ok("json") {
        builder.json().init();
    } else {
        builder.with_target(false).init();
    }
}
