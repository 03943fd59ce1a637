//! Exit codes, as in sysexits.h.

/// The command line or configuration is wrong.
pub const USAGE: u8 = 64;
/// Something needed cannot be used.
pub const UNAVAILABLE: u8 = 69;
/// The data directory cannot be used, or cannot be written any more.
pub const IO: u8 = 74;
/// Somebody pressed Ctrl-C, as shells say it.
pub const INTERRUPTED: u8 = 130;
/// A turn of `baton chat` that the agent refused, or did not bring to its end.
pub const REFUSED: u8 = 2;
pub const EARLY: u8 = 3;
pub const OTHER: u8 = 1;

/// The embedded store stopped taking anything.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0}. Nothing that was acknowledged is lost: make room or repair the disk, and start again"
)]
pub struct OutputClosed(pub String);

/// A configuration that cannot work, with every fault named.
#[derive(Debug)]
pub struct ConfigurationError(pub Vec<String>);

impl std::fmt::Display for ConfigurationError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0.join("\n       "))
    }
}

impl std::error::Error for ConfigurationError {}
