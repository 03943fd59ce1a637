//! Reads a backup, entry by entry. Entries are verified only when the end was read.

use std::io::{self, BufRead, Read as _};

use sha2::{Digest as _, Sha256};

use super::{BackupError, BackupHead, END, ENTRY, HASH_BYTES, KEYSPACE, MAGIC};
use crate::format::{BACKUP, DIRECTORY};

/// A line is not longer, nor is the name of a keyspace.
const MAX_LINE: u64 = 4096;

pub struct BackupReader<R> {
    from: R,
    hash: Sha256,
    entries: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub enum BackupPart {
    Keyspace(String),
    Entry { key: Vec<u8>, value: Vec<u8> },
}

impl<R: BufRead> BackupReader<R> {
    /// Reads as far as what it is a backup of. Whether this build can restore it is known then.
    pub fn open(from: R) -> Result<(Self, BackupHead), BackupError> {
        let mut reader = Self {
            from,
            hash: Sha256::new(),
            entries: 0,
        };
        let first = reader.line().map_err(|error| match error {
            BackupError::Io(error) => BackupError::Io(error),
            _ => BackupError::Foreign,
        })?;
        let format = first.strip_prefix(MAGIC).ok_or(BackupError::Foreign)?;
        let format = format.parse().map_err(|_| BackupError::Foreign)?;
        BACKUP.check(format, "")?;
        let head = reader.line()?;
        let head: BackupHead = serde_json::from_str(&head)
            .map_err(|_| BackupError::Damaged("what it is a backup of cannot be read"))?;
        DIRECTORY.check(head.directory, "")?;
        Ok((reader, head))
    }

    /// The next part; `None` at the end, once all of it has proved to be what was written.
    pub fn part(&mut self) -> Result<Option<BackupPart>, BackupError> {
        let [kind] = self.array()?;
        match kind {
            KEYSPACE => {
                let length = self.length()?;
                if length > MAX_LINE {
                    return Err(BackupError::Damaged("a name is too long"));
                }
                let name = String::from_utf8(self.bytes(length)?);
                let name = name.map_err(|_| BackupError::Damaged("a name cannot be read"))?;
                Ok(Some(BackupPart::Keyspace(name)))
            }
            ENTRY => {
                let (key, value) = (self.length()?, self.length()?);
                self.entries += 1;
                Ok(Some(BackupPart::Entry {
                    key: self.bytes(key)?,
                    value: self.bytes(value)?,
                }))
            }
            END => self.check_end().map(|()| None),
            _ => Err(BackupError::Damaged("something in it cannot be read")),
        }
    }

    /// Whether all of it is what was written; returns how many entries it has.
    pub fn check(mut self) -> Result<u64, BackupError> {
        while self.part()?.is_some() {}
        Ok(self.entries)
    }

    fn check_end(&mut self) -> Result<(), BackupError> {
        let entries = u64::from_be_bytes(self.array()?);
        let expected = self.hash.clone().finalize();
        let mut found = [0; HASH_BYTES];
        self.from.read_exact(&mut found)?;
        if entries != self.entries || found[..] != expected[..] {
            return Err(BackupError::Damaged("its checksum is another one"));
        }
        if self.from.fill_buf()?.is_empty() {
            Ok(())
        } else {
            Err(BackupError::Damaged("there is more after its end"))
        }
    }

    fn line(&mut self) -> Result<String, BackupError> {
        let mut line = Vec::new();
        self.from
            .by_ref()
            .take(MAX_LINE)
            .read_until(b'\n', &mut line)?;
        self.hash.update(&line);
        let line = String::from_utf8(line).map_err(|_| BackupError::Foreign)?;
        line.strip_suffix('\n')
            .map(str::to_owned)
            .ok_or(BackupError::CutOff)
    }

    fn length(&mut self) -> Result<u64, BackupError> {
        Ok(u32::from_be_bytes(self.array()?).into())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], BackupError> {
        let mut bytes = [0; N];
        self.from.read_exact(&mut bytes)?;
        self.hash.update(bytes);
        Ok(bytes)
    }

    /// Takes as much memory as there is to read, whatever the length says.
    fn bytes(&mut self, length: u64) -> Result<Vec<u8>, BackupError> {
        let mut bytes = Vec::new();
        let read = self.from.by_ref().take(length).read_to_end(&mut bytes)?;
        if read as u64 != length {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        self.hash.update(&bytes);
        Ok(bytes)
    }
}
