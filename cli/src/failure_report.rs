//! The message and the exit code of a command that failed.

use baton_session::store;

use crate::chat::ChatEnding;
use crate::config_file::FileSettings;
use crate::exit::{self, ConfigurationError, OutputClosed};

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
        return exit::USAGE;
    }
    let no_directory = error.is::<store::DirectoryError>() || error.is::<store::RestoreError>();
    if error.is::<OutputClosed>() || no_directory {
        return exit::IO;
    }
    if let Some(ending) = error.downcast_ref::<ChatEnding>() {
        return ending.exit_code();
    }
    match error.downcast_ref::<store::Error>() {
        Some(store::Error::Unavailable(_)) => exit::UNAVAILABLE,
        _ => exit::OTHER,
    }
}
