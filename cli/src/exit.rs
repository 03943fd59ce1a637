//! Exit codes, as in sysexits.h.

use baton_session::store;

use crate::chat::ChatEnding;
use crate::config::FileSettings;

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

/// The error, and of a configuration that cannot work the lines of the file that set it.
pub fn message(error: &anyhow::Error, file: &FileSettings) -> String {
    match error.downcast_ref::<ConfigurationError>() {
        Some(ConfigurationError(faults)) => {
            let faults = faults.iter().map(|fault| file.locate(fault));
            ConfigurationError(faults.collect()).to_string()
        }
        None => format!("{error:#}"),
    }
}

pub fn code(error: &anyhow::Error) -> u8 {
    if error.is::<ConfigurationError>() {
        return USAGE;
    }
    let no_directory = error.is::<store::DirectoryError>() || error.is::<store::RestoreError>();
    if error.is::<OutputClosed>() || no_directory {
        return IO;
    }
    if let Some(ending) = error.downcast_ref::<ChatEnding>() {
        return ending.exit_code();
    }
    match error.downcast_ref::<store::Error>() {
        Some(store::Error::Unavailable(_)) => UNAVAILABLE,
        _ => OTHER,
    }
}
