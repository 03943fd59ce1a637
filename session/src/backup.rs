//! A data directory as one file, which says itself whether all of it is there.
//!
//! ```text
//! baton-backup 1                      the format of this file
//! {"directory":3,"version":…}         what it is a backup of, on one line
//! k  length, name                     of a keyspace; its entries follow, in their keys' order
//! e  length, length, key, value       an entry
//! z  number of entries, SHA-256       of all before the hash; nothing comes after it
//! ```
//!
//! Numbers are big-endian: the number of entries has eight bytes, lengths have four.

use std::io;

use serde::{Deserialize, Serialize};

pub use self::reader::{BackupPart, BackupReader};
pub use self::writer::BackupWriter;
use crate::clock::unix_seconds;
use crate::format::{UnknownFormat, VERSION};

mod reader;
#[cfg(test)]
mod tests;
mod writer;

const MAGIC: &str = "baton-backup ";
const KEYSPACE: u8 = b'k';
const ENTRY: u8 = b'e';
const END: u8 = b'z';
const HASH_BYTES: usize = 32;

/// Describes the data directory that a file is a backup of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupHead {
    /// The format of the data directory.
    pub directory: u32,
    /// The build that has written it.
    pub version: String,
    /// When, in seconds since 1970.
    pub taken: u64,
}

impl BackupHead {
    /// Of a directory of this format, now.
    pub fn of(directory: u32) -> Self {
        Self {
            directory,
            version: VERSION.into(),
            taken: unix_seconds(),
        }
    }
}

/// Why a file is not good for a restore.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("this is no backup that `baton store backup` has made")]
    Foreign,
    #[error("this backup cannot be read by this version: {0}")]
    Format(#[from] UnknownFormat),
    #[error("this backup is cut off: it was not written, or not copied, to its end")]
    CutOff,
    #[error("this backup is damaged: {0}")]
    Damaged(&'static str),
    #[error(transparent)]
    Io(io::Error),
}

impl From<io::Error> for BackupError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::CutOff,
            _ => Self::Io(error),
        }
    }
}
